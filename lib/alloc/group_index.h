// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <memory>
#include <shared_mutex>
#include <vector>

#include "alloc/group_set.h"
#include "alloc/policy.h"
#include "alloc/types.h"

namespace e4::alloc {

/// Groups in a linked list under a reader-writer lock, new ones at the tail:
/// how ext4 kept its orders before 6.17. The links live in the index, since a
/// group is in at most one list of a kind.
class E4_CAPABILITY("mutex") SharedLock {
 public:
  void lock() E4_ACQUIRE() {
    detail::lock_order_enter(LockRank::container, true);
    if (!m_.try_lock()) {
      contended_.fetch_add(1, std::memory_order_relaxed);
      m_.lock();
    }
    acquired_.fetch_add(1, std::memory_order_relaxed);
  }
  void unlock() E4_RELEASE() {
    detail::lock_order_leave(LockRank::container);
    m_.unlock();
  }
  void lock_shared() E4_TSA(acquire_shared_capability()) {
    detail::lock_order_enter(LockRank::container, true);
    if (!m_.try_lock_shared()) {
      contended_.fetch_add(1, std::memory_order_relaxed);
      m_.lock_shared();
    }
    acquired_.fetch_add(1, std::memory_order_relaxed);
  }
  void unlock_shared() E4_TSA(release_shared_capability()) {
    detail::lock_order_leave(LockRank::container);
    m_.unlock_shared();
  }
  void add_counts(LockCounts& to) const {
    to.acquired += acquired_.load(std::memory_order_relaxed);
    to.contended += contended_.load(std::memory_order_relaxed);
  }

 private:
  std::shared_mutex m_;
  std::atomic<std::uint64_t> acquired_{0}, contended_{0};
};

/// TOP (by largest free order) and AVG (by average fragment): for every order
/// the groups that have it. Ordered sets or lists, by policy.
class GroupIndex {
 public:
  enum Kind : std::uint8_t { kTop = 0, kAvg = 1 };

  GroupIndex(GroupNo groups, unsigned orders, Policy::OrderSets how);

  /// A group's order changes; -1: in no set.
  void move(Kind kind, GroupNo g, int from, int to) {
    if (how_ == Policy::OrderSets::ordered) {
      if (from >= 0) set(kind, static_cast<unsigned>(from)).erase(g);
      if (to >= 0) set(kind, static_cast<unsigned>(to)).insert(g);
    } else {
      move_list(kind, g, from, to);
    }
  }
  [[nodiscard]] GroupNo next(Kind kind, unsigned order, GroupNo from, GroupNo limit) const {
    return set(kind, order).next(from, limit);
  }
  /// Orders whose set has members, as a mask. A hint.
  [[nodiscard]] std::uint32_t nonempty(Kind kind) const { return nonempty_[kind].load(std::memory_order_acquire); }
  /// Lists only: the first group of the list, in list order, that `good` accepts; kNoGroup if none.
  template <class Good>
  GroupNo first_in_list(Kind kind, unsigned order, Good good) const;

  [[nodiscard]] bool contains(Kind kind, unsigned order, GroupNo g) const;
  [[nodiscard]] GroupNo size(Kind kind, unsigned order) const;
  [[nodiscard]] Policy::OrderSets how() const { return how_; }
  void add_counts(LockCounts& to);
  [[nodiscard]] std::uint64_t memory_bytes() const;

 private:
  struct List {
    mutable SharedLock lock;
    GroupNo head E4_GUARDED_BY(lock) = kNoGroup;
    GroupNo tail E4_GUARDED_BY(lock) = kNoGroup;
  };
  struct Link {
    GroupNo prev = kNoGroup, next = kNoGroup;
  };
  GroupSet& set(Kind kind, unsigned order) const { return *sets_[kind * orders_ + order]; }
  List& list(Kind kind, unsigned order) const { return *lists_[kind * orders_ + order]; }
  void move_list(Kind kind, GroupNo g, int from, int to);

  unsigned orders_;
  Policy::OrderSets how_;
  std::atomic<std::uint32_t> nonempty_[2] = {0, 0};
  std::vector<std::unique_ptr<GroupSet>> sets_;
  std::vector<std::unique_ptr<List>> lists_;
  std::vector<Link> links_[2];  // guarded by the lock of the list the group is in; moves of one group by its group lock
};

template <class Good>
GroupNo GroupIndex::first_in_list(Kind kind, unsigned order, Good good) const {
  List& l = list(kind, order);
  GroupNo found = kNoGroup;
  l.lock.lock_shared();
  for (GroupNo g = l.head; g != kNoGroup; g = links_[kind][g].next) {
    if (good(g)) {
      found = g;
      break;
    }
  }
  l.lock.unlock_shared();
  return found;
}

}  // namespace e4::alloc
