// SPDX-License-Identifier: GPL-2.0-only
#include <algorithm>

#include "alloc/impl.h"

namespace e4::alloc {

Result<std::vector<Allocator::Trimmed>> Allocator::trim(GroupNo first, GroupNo last, std::uint32_t min_clusters) {
  Impl& a = *impl_;
  std::vector<Trimmed> out;
  if (first > last || first >= a.groups.count())
    return make_error(ErrorKind::usage, "trim of groups " + std::to_string(first) + " to " + std::to_string(last) + ": there are " +
                                            std::to_string(a.groups.count()));
  last = std::min(last, a.groups.count() - 1);
  const std::uint32_t shortest = std::max(1U, min_clusters);
  // A smaller minimum than last time makes trimmed groups worth another look.
  const bool again = shortest < a.last_trim_minimum.exchange(shortest, std::memory_order_relaxed);
  for (GroupNo g = first; g <= last; ++g) {
    if (a.groups.view(g).free.load(std::memory_order_relaxed) < shortest) continue;
    E4_TRY(load_group(g));
    GroupLock& l = a.groups.lock(g);
    a.groups.lock_group(l);
    if (!a.groups.has(g, GroupTable::kTrimmed) || again) {
      const Buddy& b = a.groups.body(g)->buddy;
      const std::uint32_t end = a.geo.clusters_in(g);
      for (std::uint32_t at = b.next_free(b.lo_hint(), end); at < end;) {
        const std::uint32_t stop = b.next_used(at, end);
        if (stop - at >= shortest) out.push_back({g, at, stop - at});
        at = b.next_free(stop, end);
      }
      a.groups.set(g, GroupTable::kTrimmed);
    }
    l.spin.unlock();
  }
  return out;
}

}  // namespace e4::alloc
