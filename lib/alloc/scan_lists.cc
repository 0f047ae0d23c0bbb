// SPDX-License-Identifier: GPL-2.0-only
#include <algorithm>

#include "alloc/impl.h"

namespace e4::alloc {

using Impl = Allocator::Impl;

/// The first group of a list that looks good without its lock.
GroupNo Impl::first_good_in_list(Context& c, GroupIndex::Kind kind, unsigned order) const {
  const unsigned cr = c.cr;
  return groups.index().first_in_list(kind, order, [&](GroupNo g) { return judge(c, g, cr) == Verdict::measured; });
}

/// Lists instead of sets (Linux 6.6 to 6.16): the first good group of the
/// lowest order that has one, in list order; then again, as long as visits are
/// left. No good group: the next criterion.
bool Impl::visit_lists(Context& c, GroupNo visits) {
  const unsigned orders = geo.orders();
  const unsigned cr = c.cr;
  const auto kind = cr == kCrPower2Aligned ? GroupIndex::kTop : GroupIndex::kAvg;
  for (; visits > 0; --visits) {
    GroupNo g = kNoGroup;
    if (cr == kCrBestAvailLen) {
      g = best_available_in_lists(c);
    } else {
      const unsigned first =
          cr == kCrPower2Aligned ? c.order : static_cast<unsigned>(std::max(0, groups.average_order(c.g.len, 1)));
      for (unsigned o = first; o < orders && g == kNoGroup; ++o) g = first_good_in_list(c, kind, o);
    }
    if (g == kNoGroup) break;
    visit(c, g);
    if (c.status != Context::Scan::go_on) return false;
  }
  if (cr == kCrBestAvailLen) c.g.len = c.orig_goal_len;
  c.cr = cr == kCrPower2Aligned                                 ? kCrGoalLenFast
         : cr == kCrGoalLenFast && (c.flags & kHintData) ? kCrBestAvailLen
                                                         : kCrGoalLenSlow;
  return true;
}

GroupNo Impl::best_available_in_lists(Context& c) {
  const int hi = static_cast<int>(bits::width(c.orig_goal_len)) - 1;
  int lo = std::max(0, hi - static_cast<int>(std::min(tun.mb_best_avail_max_trim_order, 31U)));
  if (stripe_clusters > 0 && (1U << lo) < stripe_clusters) lo = static_cast<int>(bits::width(stripe_clusters)) - 1;
  if ((1U << lo) < c.o.len) lo = static_cast<int>(bits::width(c.o.len));
  for (int i = hi; i >= lo; --i) {
    c.g.len = 1U << i;
    if (stripe_clusters > 0) c.g.len = (c.g.len + stripe_clusters - 1) / stripe_clusters * stripe_clusters;
    const auto o = static_cast<unsigned>(std::max(0, groups.average_order(c.g.len, 1)));
    if (const GroupNo g = first_good_in_list(c, GroupIndex::kAvg, o); g != kNoGroup) return g;
  }
  return kNoGroup;
}

}  // namespace e4::alloc
