// SPDX-License-Identifier: GPL-2.0-only
#include "alloc/goal.h"

namespace e4::alloc {

Blk inode_goal(const Geometry& geometry, bool delalloc, Ino ino, bool regular_file, std::uint32_t pid) {
  constexpr std::uint32_t kColours = 16;
  GroupNo group = (ino - 1) / geometry.inodes_per_group;
  if (geometry.flex_groups() >= 4) {
    group &= ~(geometry.flex_groups() - 1);
    if (regular_file) ++group;
  }
  const Blk base = geometry.first_block(group);
  const Blk last = geometry.blocks_count - 1;
  if (delalloc) return base;
  if (base + geometry.blocks_per_group <= last)
    return base + pid % kColours * Blk{geometry.blocks_per_group / kColours};
  return base + pid % kColours * ((last - base) / kColours);  // may wrap; the request clamps its goal
}

}  // namespace e4::alloc
