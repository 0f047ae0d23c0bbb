// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <atomic>
#include <vector>

#include "alloc/group.h"
#include "alloc/lock.h"
#include "alloc/policy.h"
#include "alloc/types.h"

namespace e4::alloc {

/// Freed but not committed: which groups wait for which transaction
/// (kernel: s_freed_data_list). The extents themselves hang in their groups.
class FreedLists {
 public:
  FreedLists(Policy::FreedExtents how, ContainerLock& lock) : how_(how), lock_(lock) {}

  /// Remembers a freed extent; merged with its neighbours of the same transaction. Group lock held.
  void add(GroupNo group, GroupBody& body, std::uint32_t start, std::uint32_t len, Tid tid);
  /// Groups that wait for `tid`, which is forgotten.
  std::vector<GroupNo> take(Tid tid);
  /// All open transactions, oldest first.
  [[nodiscard]] std::vector<Tid> open() const;
  void committed(std::uint64_t clusters) { pending_.fetch_sub(clusters, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t pending() const { return pending_.load(std::memory_order_relaxed); }

 private:
  struct Open {
    Tid tid;
    std::vector<GroupNo> groups;
  };
  bool merge(GroupBody& body, std::uint32_t start, std::uint32_t len, Tid tid);
  void link(GroupNo group, Tid tid) E4_REQUIRES(lock_);

  const Policy::FreedExtents how_;
  ContainerLock& lock_;
  std::vector<Open> open_ E4_GUARDED_BY(lock_);
  std::atomic<std::uint64_t> pending_{0};  // a statistic and a hint: relaxed
};

}  // namespace e4::alloc
