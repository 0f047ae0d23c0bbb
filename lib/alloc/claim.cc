// SPDX-License-Identifier: GPL-2.0-only
#include "alloc/impl.h"

namespace e4::alloc {

std::int64_t Allocator::Impl::free_sum() const {
  return free_counter.sum([this](auto add) {
    for (std::uint32_t i = 0; i < cpus_count; ++i) add(cpus[i].free_clusters);
  });
}

std::int64_t Allocator::Impl::dirty_sum() const {
  return dirty_counter.sum([this](auto add) {
    for (std::uint32_t i = 0; i < cpus_count; ++i) add(cpus[i].dirty_clusters);
  });
}

bool Allocator::Impl::has_room(const Request& rq, std::uint64_t len, std::int64_t free, std::int64_t dirty) const {
  using Wide = std::int64_t;  // sums of cluster counts stay far below 2^63
  const Wide n = static_cast<Wide>(len), root = static_cast<Wide>(root_clusters), pool = static_cast<Wide>(reserved);
  if (free >= n + dirty + root + pool) return true;
  if ((rq.privileged || (rq.flags & kUseRootBlocks)) && free >= n + dirty + pool) return true;
  return (rq.flags & kUseReserved) && free >= n + dirty;
}

std::uint32_t Allocator::Impl::claim(const Request& rq, std::uint32_t len) const {
  // Far from full, the rough totals decide; near the edge, exact ones.
  const std::int64_t slack = 2 * CpuCounter::kBatch * cpus_count;
  std::int64_t free = free_counter.rough() - slack, dirty = dirty_counter.rough() + slack;
  if (has_room(rq, len, free, dirty)) return len;
  free = free_sum();
  dirty = dirty_sum();
  while (len > 0 && !has_room(rq, len, free, dirty)) len /= 2;
  return len;
}

}  // namespace e4::alloc
