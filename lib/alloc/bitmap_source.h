// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "alloc/types.h"
#include "base/result.h"

namespace e4::alloc {

/// What a group descriptor says, as far as the allocator needs it.
struct GroupDescriptor {
  std::uint32_t free_clusters = 0;  // bg_free_blocks_count; ignored while block_uninit
  bool block_uninit = false;        // BLOCK_UNINIT (only with checksummed descriptors)
};

/// Where the on-disk bitmaps come from. The allocator asks for a descriptor
/// once per group when it is created, and for a bitmap when the group is first
/// touched. read_bitmap() may be called from several threads at once.
class BitmapSource {
 public:
  virtual ~BitmapSource() = default;
  virtual GroupDescriptor descriptor(GroupNo group) = 0;
  /// The block bitmap of a group (bit set = in use), 8 * block_bytes bits in
  /// 64-bit words, bit i of the bitmap is bit i % 64 of word i / 64. Bits past
  /// the group's clusters are set by the allocator. For a BLOCK_UNINIT group:
  /// the layout's own metadata (superblock and descriptor copies, bitmaps and
  /// inode table that lie inside this group).
  virtual Result<void> read_bitmap(GroupNo group, std::span<std::uint64_t> words) = 0;
  /// Clusters of a BLOCK_UNINIT group that its own metadata takes.
  virtual std::uint32_t metadata_clusters(GroupNo group) = 0;
};

/// Bitmaps in memory: tests, benches, synthetic file systems.
class MemorySource final : public BitmapSource {
 public:
  explicit MemorySource(const Geometry& geometry);
  GroupDescriptor descriptor(GroupNo group) override;
  Result<void> read_bitmap(GroupNo group, std::span<std::uint64_t> words) override;
  std::uint32_t metadata_clusters(GroupNo group) override;

  /// Marks clusters used (before the allocator is created).
  void set_used(GroupNo group, std::uint32_t start, std::uint32_t len);
  void set_free(GroupNo group, std::uint32_t start, std::uint32_t len);
  void set_uninit(GroupNo group, bool uninit) { uninit_[group] = uninit; }
  std::span<std::uint64_t> words(GroupNo group);

 private:
  Geometry geometry_;
  std::size_t words_per_group_;
  std::vector<std::uint64_t> words_;
  std::vector<bool> uninit_;
};

}  // namespace e4::alloc
