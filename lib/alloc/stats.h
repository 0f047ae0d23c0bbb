// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <array>
#include <cstdint>

namespace e4::alloc {

/// One lock's traffic. wait_spins counts turns of waiting, not time.
struct LockCounts {
  std::uint64_t acquired = 0;
  std::uint64_t contended = 0;      // had to wait
  std::uint64_t try_failed = 0;     // try-lock found it held
};

/// mb_stats and more; a snapshot (counters of running threads may lag).
struct Stats {
  std::uint64_t requests = 0, successes = 0, claim_refused = 0, no_space = 0;
  std::uint64_t clusters_allocated = 0, clusters_freed = 0;
  std::uint64_t goal_hits = 0;          // probe at the exact goal
  std::uint64_t lost_chunks = 0;        // best chunk was taken before it could be locked again
  std::uint64_t prealloc_hits = 0, preallocs_made = 0, preallocs_discarded = 0;
  std::uint64_t clusters_preallocated = 0, clusters_discarded = 0;
  std::uint64_t groups_loaded = 0, load_ns = 0;
  std::uint64_t busy_skips = 0;         // a group passed over because its lock was held
  struct Pass {
    std::uint64_t hits = 0;             // requests this criterion served
    std::uint64_t considered = 0;       // groups looked at
    std::uint64_t scanned = 0;          // groups searched under their lock
  };
  std::array<Pass, 5> criteria{};
  LockCounts group_locks, order_set_locks, freed_list_lock, locality_locks, inode_locks;
  std::uint64_t memory_untouched_bytes = 0;  // per-group records and order sets of all groups
  std::uint64_t memory_touched_bytes = 0;    // bitmaps and buddies of loaded groups
};

}  // namespace e4::alloc
