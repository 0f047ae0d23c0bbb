// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "image/filsys.h"
#include "image/overlay.h"

namespace e4::check {

/// One group descriptor, both halves joined. Counts in clusters and inodes.
struct Desc {
  Blk block_bitmap = 0, inode_bitmap = 0, inode_table = 0;
  std::uint32_t free_clusters = 0, free_inodes = 0, used_dirs = 0, itable_unused = 0;
  std::uint16_t flags = 0, checksum = 0;
  std::uint32_t block_bitmap_checksum = 0, inode_bitmap_checksum = 0;
  static constexpr std::uint16_t kInodeUninit = 1, kBlockUninit = 2, kInodeZeroed = 4;
  bool operator==(const Desc&) const = default;
};

/// Descriptors and bitmaps of an image as bytes in its overlay. Geometry comes
/// from a Filsys that was checked; the descriptors themselves are not trusted.
/// Not thread-safe.
class Groups {
 public:
  /// Both must outlive this.
  Groups(image::Overlay& overlay, const image::Filsys& fs);

  [[nodiscard]] GroupNo count() const { return count_; }
  [[nodiscard]] std::uint32_t inodes_per_group() const { return inodes_per_group_; }
  [[nodiscard]] std::uint32_t itable_blocks() const { return itable_blocks_; }
  [[nodiscard]] Blk first_block(GroupNo g) const;
  [[nodiscard]] Blk blocks_count() const { return blocks_count_; }
  /// Clusters the group really has; the last one may be short.
  [[nodiscard]] std::uint32_t clusters(GroupNo g) const;
  [[nodiscard]] bool metadata_csum() const { return metadata_csum_; }
  [[nodiscard]] bool any_csum() const { return metadata_csum_ || gdt_csum_; }

  Result<Desc> read(GroupNo g);
  /// Writes every field, and the right checksum.
  Result<void> write(GroupNo g, const Desc& desc);
  /// What the descriptor's checksum should be (low 16 bits of crc32c, or crc16).
  Result<std::uint16_t> computed_checksum(GroupNo g);
  /// Backups of the descriptor whose checksum verifies (without checksums:
  /// whose locations are inside the file system), nearest first.
  Result<std::vector<Desc>> backups(GroupNo g);
  /// Locations lie inside the file system, and in their own group unless flex_bg.
  [[nodiscard]] bool place_ok(GroupNo g, Blk block, std::uint64_t length_blocks) const;

  /// The bitmap's used bytes (a view until the next call).
  Result<std::span<const std::byte>> block_bitmap(const Desc& desc);
  Result<std::span<const std::byte>> inode_bitmap(const Desc& desc);
  [[nodiscard]] bool block_bitmap_ok(const Desc& desc, std::span<const std::byte> bitmap) const;
  [[nodiscard]] bool inode_bitmap_ok(const Desc& desc, std::span<const std::byte> bitmap) const;
  /// Directories in use in the group, by its inode table. Reads it all.
  Result<std::uint32_t> count_dirs(const Desc& desc);
  /// Block the descriptor lies in.
  [[nodiscard]] Blk descriptor_block(GroupNo g) const;

 private:
  struct Spot {
    Blk block;
    std::uint32_t offset;
  };
  [[nodiscard]] Spot primary(GroupNo g) const;
  /// Where the other copies are, nearest first; at most `kBackupsMax`.
  [[nodiscard]] std::vector<Spot> copies(GroupNo g) const;
  [[nodiscard]] Blk after_super(GroupNo g) const;
  [[nodiscard]] Desc parse(const std::byte* p) const;
  static constexpr std::size_t kBackupsMax = 4;
  [[nodiscard]] std::uint16_t checksum_of(GroupNo g, std::span<const std::byte> desc) const;

  image::Overlay& overlay_;
  ext2_filsys fs_;
  GroupNo count_;
  std::uint32_t desc_bytes_, per_block_, inodes_per_group_, itable_blocks_, clusters_per_group_, csum_seed_;
  Blk blocks_count_, first_data_block_;
  std::uint32_t first_meta_bg_;  // descriptor block number from which on they lie in their own groups
  bool metadata_csum_, gdt_csum_, flex_bg_;
};

/// Number of clear bits among the first `bits`.
std::uint32_t clear_bits(std::span<const std::byte> bitmap, std::uint32_t bits);

}  // namespace e4::check
