// SPDX-License-Identifier: GPL-2.0-only
#include "alloc/stats.h"

#include "alloc/impl.h"

namespace e4::alloc {

Stats Allocator::stats() const {
  Stats s;
  for (std::uint32_t i = 0; i < impl_->cpus_count; ++i) {
    const CpuSlot& c = impl_->cpus[i];
    s.requests += c.requests.get();
    s.successes += c.successes.get();
    s.claim_refused += c.claim_refused.get();
    s.no_space += c.no_space.get();
    s.clusters_allocated += c.allocated.get();
    s.clusters_freed += c.freed.get();
    s.goal_hits += c.goal_hits.get();
    s.lost_chunks += c.lost_chunks.get();
    s.prealloc_hits += c.prealloc_hits.get();
    s.preallocs_made += c.preallocs_made.get();
    s.preallocs_discarded += c.preallocs_discarded.get();
    s.clusters_preallocated += c.preallocated.get();
    s.clusters_discarded += c.discarded.get();
    s.busy_skips += c.busy_skips.get();
    for (unsigned cr = 0; cr < s.criteria.size(); ++cr) {
      s.criteria[cr].hits += c.passes[cr].hits.get();
      s.criteria[cr].considered += c.passes[cr].considered.get();
      s.criteria[cr].scanned += c.passes[cr].scanned.get();
    }
    impl_->localities[i].mutex.add_counts(s.locality_locks);
    impl_->localities[i].list_lock.add_counts(s.locality_locks);
  }
  s.groups_loaded = impl_->groups.loaded();
  s.load_ns = impl_->groups.load_ns();
  impl_->groups.add_counts(s.group_locks);
  impl_->groups.index().add_counts(s.order_set_locks);
  impl_->freed_lock.add_counts(s.freed_list_lock);
  impl_->inode_pas.add_counts(s.inode_locks);
  s.memory_untouched_bytes = impl_->groups.untouched_bytes();
  s.memory_touched_bytes = impl_->groups.touched_bytes();
  return s;
}

}  // namespace e4::alloc
