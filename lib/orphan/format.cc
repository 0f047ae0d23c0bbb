// SPDX-License-Identifier: GPL-2.0-only
#include "orphan/format.h"

#include <algorithm>

#include "base/crc32c.h"

namespace e4::orphan {

namespace {
constexpr std::uint32_t round_up(std::uint64_t n, std::uint32_t to) {
  return static_cast<std::uint32_t>((n + to - 1) / to * to);
}
}  // namespace

std::uint32_t clamp_orphan_file_blocks(std::uint64_t wanted, std::uint32_t block_bytes, std::uint32_t cluster_blocks) {
  const std::uint32_t cap = max_orphan_file_blocks(block_bytes);
  const std::uint64_t n = std::clamp<std::uint64_t>(wanted, 1, cap);
  return std::min(round_up(n, std::max(cluster_blocks, 1U)), cap);
}

std::uint32_t default_orphan_file_blocks(std::uint64_t fs_blocks, std::uint32_t block_bytes, std::uint32_t cluster_blocks) {
  std::uint64_t n = 512;
  if (fs_blocks < 131072)
    n = 32;
  else if (fs_blocks < 2097152)
    n = fs_blocks / 4096;
  return clamp_orphan_file_blocks(n, block_bytes, cluster_blocks);
}

std::uint32_t inode_csum_seed(std::uint32_t fs_csum_seed, Ino ino, std::uint32_t generation) {
  return crc32c_le32(crc32c_le32(fs_csum_seed, ino), generation);
}

std::uint32_t orphan_block_checksum(std::uint32_t inode_seed, Blk physical, std::span<const std::byte> block) {
  const std::size_t slot_bytes = std::size_t{slots_per_block(static_cast<std::uint32_t>(block.size()))} * 4;
  return crc32c(crc32c_le64(inode_seed, physical), block.first(slot_bytes));
}

void set_slot(std::span<std::byte> block, std::uint32_t i, Ino ino) { store<le32>(block.data(), std::size_t{i} * 4, ino); }

void seal_orphan_block(std::span<std::byte> block, std::uint32_t inode_seed, Blk physical, bool metadata_csum) {
  store<le32>(block.data(), block.size() - 8, kOrphanBlockMagic);
  store<le32>(block.data(), block.size() - 4, metadata_csum ? orphan_block_checksum(inode_seed, physical, block) : 0U);
}

}  // namespace e4::orphan
