// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/endian.h"
#include "base/units.h"

// One block of the orphan file: slots of 32 bits, each 0 (free) or an inode
// number, then a tail of magic and checksum. Every block of the file is the
// same; there is no header block. (Linux 5.15, struct ext4_orphan_block_tail.)
namespace e4::orphan {

inline constexpr std::uint32_t kOrphanBlockMagic = 0x0B10CA04;
/// What the kernel refuses above (6.18: blocks; some stable trees: bytes). Never exceed either.
inline constexpr std::uint32_t kMaxOrphanFileBlocks = 512;
inline constexpr std::uint64_t kMaxOrphanFileBytes = 8 * kMiB;

struct OrphanBlockTail {
  le32 ob_magic;
  le32 ob_checksum;  // 0 or stale without metadata_csum
};
static_assert(sizeof(OrphanBlockTail) == 8 && alignof(OrphanBlockTail) == 1);
static_assert(offsetof(OrphanBlockTail, ob_checksum) == 4);

/// Slots in one block; `block_bytes` is 1 KiB to 64 KiB.
constexpr std::uint32_t slots_per_block(std::uint32_t block_bytes) {
  return (block_bytes - static_cast<std::uint32_t>(sizeof(OrphanBlockTail))) / 4;
}
/// Largest orphan file every kernel accepts, in blocks.
constexpr std::uint32_t max_orphan_file_blocks(std::uint32_t block_bytes) {
  const std::uint64_t by_bytes = kMaxOrphanFileBytes / block_bytes;
  return by_bytes < kMaxOrphanFileBlocks ? static_cast<std::uint32_t>(by_bytes) : kMaxOrphanFileBlocks;
}
/// The size mke2fs gives: 32 blocks below 128 Ki blocks, then blocks / 4096, 512 from 2 Mi on; rounded up to
/// whole clusters, then clamped to what every kernel accepts.
std::uint32_t default_orphan_file_blocks(std::uint64_t fs_blocks, std::uint32_t block_bytes, std::uint32_t cluster_blocks = 1);
/// `wanted` (at least 1) rounded to clusters and clamped, as create() and resize() will take it.
std::uint32_t clamp_orphan_file_blocks(std::uint64_t wanted, std::uint32_t block_bytes, std::uint32_t cluster_blocks = 1);

/// crc32c state every checksum of an inode starts from.
std::uint32_t inode_csum_seed(std::uint32_t fs_csum_seed, Ino ino, std::uint32_t generation);
/// Checksum of an orphan block: seed, physical block number as 64 bits, the slots; neither magic nor checksum.
std::uint32_t orphan_block_checksum(std::uint32_t inode_seed, Blk physical, std::span<const std::byte> block);

/// A read-only look at one orphan block; the span outlives it.
class OrphanBlock {
 public:
  explicit OrphanBlock(std::span<const std::byte> block) : block_(block) {}
  [[nodiscard]] std::uint32_t slots() const { return slots_per_block(static_cast<std::uint32_t>(block_.size())); }
  [[nodiscard]] Ino slot(std::uint32_t i) const { return load<le32>(block_.data(), std::size_t{i} * 4); }
  [[nodiscard]] std::uint32_t magic() const { return load<le32>(block_.data(), block_.size() - 8); }
  [[nodiscard]] std::uint32_t stored_checksum() const { return load<le32>(block_.data(), block_.size() - 4); }

 private:
  std::span<const std::byte> block_;
};

/// Writes slot `i`. The caller seals the block afterwards.
void set_slot(std::span<std::byte> block, std::uint32_t i, Ino ino);
/// Puts magic and checksum (0 without metadata_csum) into the tail.
void seal_orphan_block(std::span<std::byte> block, std::uint32_t inode_seed, Blk physical, bool metadata_csum);

}  // namespace e4::orphan
