// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "image/device.h"

namespace e4::journal {

/// What maps a file: the inode's i_block or, for a journal, its copy in the
/// superblock.
struct MapSource {
  std::span<const std::byte, 60> i_block;
  Ino ino = 0;
  std::uint32_t block_bytes = 0;
  Blk fs_blocks = 0;
  std::uint32_t file_blocks = 0xFFFFFFFFU;      // map no further than this
  std::optional<std::uint32_t> tree_seed{};     // crc32c seed of extent blocks; none: do not verify them
};

struct MappedExtent {
  Lblk lblk = 0;
  std::uint32_t blocks = 0;
  Blk physical = 0;
  bool unwritten = false;
  [[nodiscard]] std::uint64_t end() const { return std::uint64_t{lblk} + blocks; }
};

struct FileMap {
  std::vector<MappedExtent> extents;  // ascending, not overlapping, neighbours merged
  std::vector<Blk> tree;              // extent or indirect blocks
};

/// Walks an extent tree or a block map, bounded whatever they hold. Errors:
/// corrupt (block outside the file system, a mapping block met twice, bad
/// extent header or order, more pieces than kMaxPieces), io.
Result<FileMap> map_file(image::Device& device, const MapSource& source);
inline constexpr std::size_t kMaxPieces = std::size_t{1} << 20;

}  // namespace e4::journal
