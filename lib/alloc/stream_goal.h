// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "alloc/lock.h"
#include "alloc/policy.h"
#include "alloc/types.h"

namespace e4::alloc {

/// Where the last large files went. One goal under the freed-list lock, one
/// atomic hint, or several picked by inode number, by policy. Hints only: a
/// lost update costs nothing, hence relaxed order.
class StreamGoals {
 public:
  StreamGoals(Policy::StreamGoal how, std::uint32_t possible_cpus, GroupNo groups, ContainerLock& freed_lock)
      : how_(how), freed_lock_(freed_lock) {
    const std::uint32_t quarter = groups / 4 + (groups % 4 != 0);
    count_ = how == Policy::StreamGoal::multi ? std::max(1U, std::min(possible_cpus, quarter)) : 1;
    goals_ = std::make_unique<std::atomic<GroupNo>[]>(count_);
  }
  [[nodiscard]] std::uint32_t slot(Ino ino) const { return ino % count_; }
  [[nodiscard]] std::uint32_t count() const { return count_; }

  struct Goal {
    GroupNo group;
    std::int32_t start;  // -1: not remembered
  };
  [[nodiscard]] Goal get(Ino ino) const {
    if (how_ == Policy::StreamGoal::locked) {
      Held<ContainerLock> held(freed_lock_);
      return {goals_[0].load(std::memory_order_relaxed), start_};
    }
    return {goals_[slot(ino)].load(std::memory_order_relaxed), -1};
  }
  void set(Ino ino, GroupNo group, std::int32_t start) {
    if (how_ == Policy::StreamGoal::locked) {
      Held<ContainerLock> held(freed_lock_);
      goals_[0].store(group, std::memory_order_relaxed);
      start_ = start;
      return;
    }
    // Written only when it changes, so that streams in one group do not fight for the line.
    auto& goal = goals_[slot(ino)];
    if (goal.load(std::memory_order_relaxed) != group) goal.store(group, std::memory_order_relaxed);
  }
  [[nodiscard]] GroupNo at(std::uint32_t slot) const { return goals_[slot].load(std::memory_order_relaxed); }
  void put(std::uint32_t slot, GroupNo group) { goals_[slot].store(group, std::memory_order_relaxed); }

 private:
  const Policy::StreamGoal how_;
  std::uint32_t count_;
  std::unique_ptr<std::atomic<GroupNo>[]> goals_;
  ContainerLock& freed_lock_;
  std::int32_t start_ E4_GUARDED_BY(freed_lock_) = 0;
};

}  // namespace e4::alloc
