// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace e4::replay {

/// One entry of an extent tree: `len_blocks` blocks (at most 32768 written,
/// 32767 unwritten) of the file from `lblk` at `pblk`.
struct MappedRun {
  Lblk lblk = 0;
  Blk pblk = 0;
  std::uint32_t len_blocks = 0;
  bool unwritten = false;
};

/// How the blocks a file owns become a legal extent tree.
struct TreePlan {
  std::vector<MappedRun> runs;              // ascending, no overlap
  std::vector<std::vector<Blk>> levels;     // tree blocks, root's children first; empty: the inode holds all runs
  std::uint32_t extra_needed = 0;           // tree blocks that `meta` did not provide
};

/// Plans a tree that uses *every* block of `meta`: what the tree does not need
/// becomes unwritten runs behind the file's end, as fallocate(KEEP_SIZE) would
/// leave them. `loose` blocks go there too. `size_blocks`: blocks at and
/// behind it are unwritten. `capacity`: entries of a tree block;
/// `cluster_blocks`: 1 without bigalloc, else runs behind the end keep logical and physical offsets equal modulo it.
/// Runs that overlap an earlier one become loose. Blocks still needed are counted in extra_needed.
TreePlan plan_tree(std::vector<MappedRun> runs, std::vector<Blk> meta, std::vector<MappedRun> loose, Lblk size_blocks,
                   std::uint32_t capacity, std::uint32_t cluster_blocks);

/// Blocks of a tree with `entries` entries, by level, root's children first.
std::vector<std::uint32_t> tree_levels(std::uint64_t entries, std::uint32_t capacity);

}  // namespace e4::replay
