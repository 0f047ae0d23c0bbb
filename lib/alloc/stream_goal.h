// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "alloc/lock.h"
#include "alloc/policy.h"
#include "alloc/sync.h"
#include "alloc/types.h"

namespace e4::alloc {

/// Where the last large files went. One goal under the freed-list lock, one
/// atomic hint, or several picked by inode number, by policy. Hints only: a
/// lost update costs nothing, hence relaxed order. (A template so that tests can
/// walk through every interleaving, stale reads included.)
template <class Sync, class Lock>
class BasicStreamGoals {
 public:
  BasicStreamGoals(Policy::StreamGoal how, std::uint32_t possible_cpus, GroupNo groups, Lock& freed_lock)
      : how_(how), freed_lock_(freed_lock) {
    const std::uint32_t quarter = groups / 4 + (groups % 4 != 0);
    count_ = how == Policy::StreamGoal::multi ? std::max(1U, std::min(possible_cpus, quarter)) : 1;
    goals_ = std::make_unique<GroupNo[]>(count_);
  }
  [[nodiscard]] std::uint32_t slot(Ino ino) const { return ino % count_; }
  [[nodiscard]] std::uint32_t count() const { return count_; }

  struct Goal {
    GroupNo group;
    std::int32_t start;  // -1: not remembered
  };
  [[nodiscard]] Goal get(Ino ino) const {
    if (how_ == Policy::StreamGoal::locked) {
      BasicLock held(freed_lock_);
      return {at(0), Sync::get(start_)};
    }
    return {at(slot(ino)), -1};
  }
  void set(Ino ino, GroupNo group, std::int32_t start) {
    if (how_ == Policy::StreamGoal::locked) {
      BasicLock held(freed_lock_);
      put(0, group);
      Sync::set(start_, start);
      return;
    }
    // Written only when it changes, so that streams in one group do not fight for the line.
    const std::uint32_t s = slot(ino);
    if (at(s) != group) put(s, group);
  }
  [[nodiscard]] GroupNo at(std::uint32_t slot) const { return Sync::load(goals_[slot], std::memory_order_relaxed); }
  void put(std::uint32_t slot, GroupNo group) { Sync::store(goals_[slot], group, std::memory_order_relaxed); }
  /// For tests that take snapshots of memory: each goal's word, then the start.
  template <class Visit>
  void visit_memory(Visit visit) E4_NO_THREAD_SAFETY_ANALYSIS {
    for (std::uint32_t s = 0; s < count_; ++s) visit(&goals_[s], sizeof goals_[s]);
    visit(&start_, sizeof start_);
  }

 private:
  const Policy::StreamGoal how_;
  std::uint32_t count_;
  std::unique_ptr<GroupNo[]> goals_;  // atomics
  Lock& freed_lock_;
  std::int32_t start_ E4_GUARDED_BY(freed_lock_) = 0;
};

using StreamGoals = BasicStreamGoals<NativeSync, ContainerLock>;

}  // namespace e4::alloc
