// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include "alloc/types.h"

namespace e4::alloc {

/// The goal of a file without any block yet (kernel: ext4_inode_to_goal_block):
/// its inode's group, moved to the flex group's data group when a flex group
/// has at least four groups, plus a colour by task id when delayed allocation
/// is off. `pid` is the id of the thread that allocates. May lie past the end
/// of a tiny file system; allocate() clamps it.
Blk inode_goal(const Geometry& geometry, bool delalloc, Ino ino, bool regular_file, std::uint32_t pid);

}  // namespace e4::alloc
