// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <vector>

#include "image/filsys.h"
#include "replay/tree_plan.h"

namespace e4::replay {

/// The blocks one inode owns, ready to be written into its block map.
struct OwnedBlocks {
  std::vector<MappedRun> runs, loose;
  std::vector<Blk> meta;
};

struct MapResult {
  std::uint64_t last_lblk_end = 0;   // blocks up to the end of the last mapped one
  std::uint64_t written_lblk_end = 0; // ... of the last initialised one (extent maps)
  std::uint64_t blocks_512 = 0;      // i_blocks in 512-byte units, clusters counted whole
  std::uint32_t extra_blocks = 0;    // blocks taken from free space beyond what the inode owned
};

/// Writes an extent tree (root into `inode`, tree blocks to the device). Every
/// owned block is used. Sets i_block, the EXTENTS flag and i_blocks.
Result<MapResult> write_extent_map(image::Filsys& fs, Ino ino, ext2_inode_large& inode, const OwnedBlocks& owned,
                                   Lblk size_blocks);

/// The same with an indirect block map. Blocks without a position are mapped
/// behind the last one; the caller must let i_size cover last_lblk_end.
Result<MapResult> write_indirect_map(image::Filsys& fs, Ino ino, ext2_inode_large& inode, const OwnedBlocks& owned);

}  // namespace e4::replay
