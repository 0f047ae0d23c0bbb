// SPDX-License-Identifier: GPL-2.0-only
#include "alloc/types.h"

#include <algorithm>

namespace e4::alloc {

const char* criterion_name(unsigned cr) {
  static constexpr const char* kNames[] = {"CR_POWER2_ALIGNED", "CR_GOAL_LEN_FAST", "CR_BEST_AVAIL_LEN",
                                           "CR_GOAL_LEN_SLOW", "CR_ANY_FREE"};
  return cr < std::size(kNames) ? kNames[cr] : nullptr;
}

Tunables Tunables::defaults(const Geometry& geometry, const MountOptions& mount) {
  Tunables t;
  t.mb_group_prealloc = std::max(t.mb_group_prealloc >> geometry.cluster_bits, 32U);
  const auto stripe = static_cast<std::uint32_t>(geometry.ceil_clusters(mount.stripe_blocks));
  if (mount.stripe_blocks > 1 && stripe > 1)
    t.mb_group_prealloc = (t.mb_group_prealloc + stripe - 1) / stripe * stripe;
  t.mb_max_linear_groups = mount.rotational ? 4 : 0;
  const GroupNo groups = geometry.groups();
  const std::uint32_t unit = geometry.flex_bg
                                 ? std::min(geometry.flex_groups(), 65536U >> (geometry.block_bits() - 9)) * 8
                                 : 32;
  t.mb_prefetch = std::min(unit, groups);
  t.mb_prefetch_limit = std::min(t.mb_prefetch * 4, groups);
  return t;
}

}  // namespace e4::alloc
