// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "orphan/inode.h"
#include "orphan/volume.h"

namespace e4::orphan {

/// A run of blocks of a file: logical and physical start, length in blocks.
struct Run {
  std::uint64_t logical = 0;
  Blk physical = 0;
  std::uint32_t blocks = 0;
  bool unwritten = false;
};

/// What an inode maps, logical order; and the tree or indirect blocks that say so.
/// Reuse one object: walks clear and refill it.
struct Mapping {
  std::vector<Run> runs;
  std::vector<Blk> meta;
  std::string problem;  // empty: the whole mapping was read and is sane
  [[nodiscard]] bool ok() const { return problem.empty(); }
  void clear();
};

/// Walks extents (any depth) or the block map. Every header, range, order and
/// checksum is checked; a tree that lies ends the walk with `problem`. Bounded:
/// each tree block is visited once. An Error is only returned for I/O.
Result<void> walk_mapping(Volume& volume, Ino ino, const InodeView& inode, Mapping& out);

/// What a cut took off the file.
struct Cut {
  std::vector<Run> runs;  // data, logical order not guaranteed
  std::vector<Blk> meta;  // tree and indirect blocks that became empty
};

/// Takes everything from logical block `end` on out of the mapping: edits the
/// inode's i_block and the tree blocks of the overlay (checksums included), and
/// says what is no longer mapped. Frees nothing; does not touch i_size or
/// i_blocks; does not seal the inode. The mapping must have been walked without a problem.
Result<Cut> cut_mapping(Volume& volume, Ino ino, std::span<std::byte> inode, std::uint64_t end);

/// The same without changing anything: what a cut would take off.
Result<Cut> measure_cut(Volume& volume, Ino ino, std::span<const std::byte> inode, std::uint64_t end);

/// First logical block past i_size.
std::uint64_t end_block(const Geometry& geo, std::uint64_t size_bytes);

}  // namespace e4::orphan
