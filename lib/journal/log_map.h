// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "image/device.h"
#include "journal/log.h"

namespace e4::journal {

/// What maps the journal file: the inode's i_block, or its copy in s_jnl_blocks.
struct MapSource {
  std::span<const std::byte, 60> i_block;
  Ino ino = 0;
  std::uint32_t block_bytes = 0;
  std::uint32_t file_blocks = 0;                // how many blocks to map
  Blk fs_blocks = 0;
  std::optional<std::uint32_t> tree_seed{};     // crc32c seed of extent blocks; none: do not verify them
};

struct FileMap {
  std::vector<Log::Run> runs;       // ascending by log block, no gaps before `mapped`
  std::vector<Blk> tree;            // extent or indirect blocks
  std::uint32_t mapped = 0;         // log blocks 0..mapped-1 are mapped; a hole follows, or the end
};

/// Walks an extent tree or block map. Errors: corrupt (block outside the file
/// system, a mapping block met twice, a bad extent header, more pieces than a
/// journal can have), io.
Result<FileMap> map_file(image::Device& device, const MapSource& source);

}  // namespace e4::journal
