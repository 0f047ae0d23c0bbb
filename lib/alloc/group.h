// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "alloc/bitmap_source.h"
#include "alloc/buddy.h"
#include "alloc/group_index.h"
#include "alloc/lock.h"
#include "alloc/policy.h"
#include "alloc/types.h"
#include "base/result.h"

namespace e4::alloc {

struct Pa;

/// Clusters freed on disk whose transaction is not committed: still used in B.
struct Pending {
  std::uint32_t start = 0, len = 0;
  Tid tid = 0;
};

/// What a group has once it is loaded. Everything here is guarded by the group's lock.
struct GroupBody {
  GroupBody(const BuddyShape& shape);
  Buddy buddy;                        // B
  bits::Word* disk;                   // D
  Pa* pas = nullptr;                  // preallocations, newest first
  std::vector<Pending> pending;       // sorted by start, disjoint
  std::vector<Tid> pending_tids;      // transactions that list this group
  bool block_map_changed = false;     // D differs from what was read

 private:
  std::unique_ptr<bits::Word[]> words_;
};

/// One of the hashed group locks, alone on its cache line.
struct alignas(64) GroupLock {
  GroupSpin spin;
  std::atomic<std::uint64_t> seq{0};  // takes and releases under this lock (written by the holder)
  void changed() { seq.store(seq.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
};

/// What scanners read without a lock: hints, written under the group lock.
struct alignas(16) GroupView {
  std::atomic<std::uint32_t> free{0};   // free clusters in B
  std::atomic<std::uint32_t> frags{0};  // free runs in B
  std::atomic<std::uint32_t> descriptor_free{0};
  std::atomic<std::int8_t> top{-1};     // largest order with a piece
  std::atomic<std::int8_t> avg{-1};     // order of the average fragment
};

/// The records of all groups, their locks, and loading. Groups are loaded on
/// first need, together with the other groups of their page.
class GroupTable {
 public:
  enum State : std::uint8_t {
    kNeedInit = 1,
    kTrimmed = 2,
    kCorrupt = 4,
    kReadBit = 8,        // a prefetch has been tried
    kBlockUninit = 16,   // descriptor flag
    kCached = 32,        // the bitmap's buffer is in memory
    kDescDirty = 64,     // the descriptor changed
  };
  static constexpr unsigned kLocks = 128;

  GroupTable(const Geometry& geometry, const MountOptions& mount, const Policy& policy, bool optimized,
             BitmapSource& source);
  ~GroupTable();

  [[nodiscard]] GroupNo count() const { return count_; }
  [[nodiscard]] const Geometry& geometry() const { return geometry_; }
  [[nodiscard]] const BuddyShape& shape() const { return shape_; }

  GroupView& view(GroupNo g) const { return *reinterpret_cast<GroupView*>(views_ + g * view_stride_); }
  std::atomic<std::uint8_t>& state(GroupNo g) const {
    return *reinterpret_cast<std::atomic<std::uint8_t>*>(states_ + g * state_stride_);
  }
  [[nodiscard]] bool has(GroupNo g, State bit) const { return (state(g).load(std::memory_order_acquire) & bit) != 0; }
  void set(GroupNo g, State bit) { state(g).fetch_or(bit, std::memory_order_acq_rel); }
  void clear(GroupNo g, State bit) {
    if (has(g, bit)) state(g).fetch_and(static_cast<std::uint8_t>(~bit), std::memory_order_acq_rel);
  }
  /// Null until the group is loaded.
  GroupBody* body(GroupNo g) const { return bodies_[g].load(std::memory_order_acquire); }
  GroupLock& lock(GroupNo g) const { return locks_[g % kLocks]; }
  [[nodiscard]] GroupIndex& index() { return index_; }
  [[nodiscard]] const GroupIndex& index() const { return index_; }
  [[nodiscard]] bool optimized() const { return optimized_; }

  /// Builds the group and the others of its page. Error: the bitmap cannot be
  /// read, or disagrees with the descriptor (the group is never used again).
  Result<void> load(GroupNo g, EventLog* log);
  /// BLOCK_UNINIT goes away: the first use of the group's blocks or inodes.
  void clear_uninit(GroupNo g);
  /// Recomputes top, avg and the sets after B changed. Group lock held.
  void publish(GroupNo g, const GroupBody& body);
  /// Waits for the group's lock and keeps the contention counter.
  void lock_group(GroupLock& l) E4_ACQUIRE(l.spin) {
    if (l.spin.is_locked() || !l.spin.try_lock()) {
      busier();
      l.spin.lock();
    } else {
      calmer();
    }
  }
  bool try_lock_group(GroupLock& l) E4_TRY_ACQUIRE(true, l.spin) {
    if (!l.spin.try_lock()) return false;
    calmer();
    return true;
  }
  /// "File system busy": the contention counter is above 2.
  [[nodiscard]] bool busy() const { return busy_.load(std::memory_order_relaxed) > 2; }
  /// Sum of the change counters of all locks.
  [[nodiscard]] std::uint64_t changes() const;
  [[nodiscard]] int average_order(std::uint32_t free, std::uint32_t frags) const;

  void add_counts(LockCounts& to) const;
  [[nodiscard]] std::uint64_t untouched_bytes() const;
  [[nodiscard]] std::uint64_t touched_bytes() const { return touched_bytes_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t loaded() const { return loaded_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t load_ns() const { return load_ns_.load(std::memory_order_relaxed); }

 private:
  Result<void> load_one(GroupNo g, EventLog* log);
  void busier() {
    if (const int b = busy_.load(std::memory_order_relaxed); b < 8) busy_.fetch_add(1, std::memory_order_relaxed);
  }
  void calmer() {
    if (const int b = busy_.load(std::memory_order_relaxed); b > 0) busy_.fetch_sub(1, std::memory_order_relaxed);
  }

  // Constant after construction.
  const Geometry geometry_;
  const BuddyShape shape_;
  const GroupNo count_;
  const std::uint32_t groups_per_page_;
  const bool optimized_;
  BitmapSource& source_;
  std::unique_ptr<std::byte, void (*)(std::byte*)> storage_;  // packed: records; split: the arrays one after the other
  std::byte* views_;
  std::byte* states_;
  std::size_t view_stride_, state_stride_, storage_bytes_;
  std::unique_ptr<std::atomic<GroupBody*>[]> bodies_;
  std::unique_ptr<GroupLock[]> locks_;
  std::unique_ptr<LoadLock[]> load_locks_;

  GroupIndex index_;
  alignas(64) std::atomic<int> busy_{0};  // contention, 0 .. 8; a heuristic, so relaxed
  std::atomic<std::uint64_t> touched_bytes_{0}, loaded_{0}, load_ns_{0};
};

}  // namespace e4::alloc
