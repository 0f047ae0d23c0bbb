// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "image/overlay.h"

namespace e4::orphan {

/// The few superblock values this module works with, parsed and checked.
struct Geometry {
  std::uint32_t block_bytes = 0, inode_bytes = 0, desc_bytes = 0, cluster_blocks = 1;
  std::uint32_t blocks_per_group = 0, clusters_per_group = 0, inodes_per_group = 0, itable_blocks = 0;
  std::uint32_t inodes_count = 0, first_ino = 0, groups_count = 0, first_meta_bg = 0, reserved_gdt_blocks = 0;
  Blk blocks_count = 0, first_data_block = 0, mmp_block = 0;
  std::uint32_t feature_compat = 0, feature_incompat = 0, feature_ro_compat = 0;
  std::uint32_t csum_seed = 0;
  Ino journal_inum = 0, usr_quota_inum = 0, grp_quota_inum = 0, prj_quota_inum = 0;
  std::uint32_t backup_bgs[2] = {0, 0};
  std::uint16_t want_extra_isize = 0;
  std::uint8_t uuid[16] = {};

  [[nodiscard]] bool metadata_csum() const { return (feature_ro_compat & 0x400) != 0; }
  [[nodiscard]] bool gdt_csum() const { return (feature_ro_compat & 0x10) != 0; }
  [[nodiscard]] bool bigalloc() const { return (feature_ro_compat & 0x200) != 0; }
  [[nodiscard]] bool has_orphan_file() const { return (feature_compat & 0x1000) != 0; }
  [[nodiscard]] bool has_journal() const { return (feature_compat & 0x4) != 0; }
  [[nodiscard]] bool has_extents() const { return (feature_incompat & 0x40) != 0; }
  [[nodiscard]] bool has_64bit() const { return (feature_incompat & 0x80) != 0; }
  [[nodiscard]] bool has_ea_inode() const { return (feature_incompat & 0x400) != 0; }
  [[nodiscard]] bool has_inline_data() const { return (feature_incompat & 0x8000) != 0; }
  [[nodiscard]] bool has_huge_file() const { return (feature_ro_compat & 0x8) != 0; }
  [[nodiscard]] bool has_quota() const { return (feature_ro_compat & 0x100) != 0; }
  [[nodiscard]] bool has_project() const { return (feature_ro_compat & 0x2000) != 0; }
  [[nodiscard]] bool has_super(GroupNo group) const;
  [[nodiscard]] GroupNo group_of_block(Blk block) const {
    return static_cast<GroupNo>((block - first_data_block) / blocks_per_group);
  }
  [[nodiscard]] GroupNo group_of_inode(Ino ino) const { return (ino - 1) / inodes_per_group; }
  [[nodiscard]] bool block_in_range(Blk block) const { return block > first_data_block && block < blocks_count; }
  /// Cluster index counted from the first data block.
  [[nodiscard]] std::uint64_t cluster_of(Blk block) const { return (block - first_data_block) / cluster_blocks; }
  [[nodiscard]] std::uint64_t clusters_count() const { return cluster_of(blocks_count - 1) + 1; }
};

/// What a group descriptor says, with both halves joined.
struct GroupDesc {
  Blk block_bitmap = 0, inode_bitmap = 0, inode_table = 0;
  std::uint32_t free_blocks = 0, free_inodes = 0, used_dirs = 0, itable_unused = 0;
  std::uint16_t flags = 0;
  bool trusted = true;  // checksum right and every location inside the file system
  [[nodiscard]] bool inode_uninit() const { return (flags & 1) != 0; }
  [[nodiscard]] bool block_uninit() const { return (flags & 2) != 0; }
};

/// The image as the orphan code sees it: superblock, descriptors and bitmaps
/// straight from the overlay, without libext2fs, because a release touches
/// them a million times. Nothing here writes the image; changed bitmaps and
/// counters become edits of the overlay at once, their checksums with seal().
///
/// A Filsys over the same overlay keeps copies of its own: open it after, or
/// reopen it. Not thread-safe. Caches spans of dirty blocks: call
/// forget_spans() after committing (settled(), forget(), discard()).
class Volume {
 public:
  /// Reads the superblock at byte 1024 and all descriptors. Errors: corrupt
  /// geometry, unreadable blocks. Wrong descriptor checksums are not an error
  /// (GroupDesc::trusted).
  static Result<Volume> load(image::Overlay& overlay);

  [[nodiscard]] const Geometry& geo() const { return geo_; }
  [[nodiscard]] image::Overlay& overlay() const { return *overlay_; }
  [[nodiscard]] const GroupDesc& group(GroupNo g) const { return groups_[g]; }

  // Superblock fields of the orphan machinery; the setters edit the overlay.
  [[nodiscard]] Ino last_orphan() const { return last_orphan_; }
  [[nodiscard]] Ino orphan_file_inum() const { return orphan_file_inum_; }
  [[nodiscard]] bool orphan_present() const { return (geo_.feature_ro_compat & 0x10000) != 0; }
  [[nodiscard]] std::uint16_t state() const { return state_; }
  Result<void> set_last_orphan(Ino ino);
  Result<void> set_orphan_file(Ino ino, bool feature);
  Result<void> set_orphan_present(bool present);

  /// Physical block and byte offset of an inode; `ino` is in 1..inodes_count
  /// and its group trusted, else an Error.
  struct InodePlace {
    Blk block;
    std::uint32_t offset;
  };
  [[nodiscard]] Result<InodePlace> inode_place(Ino ino) const;

  /// Bits as the image has them. An uninitialised bitmap has no user bits set.
  /// Errors: unreadable, descriptor untrusted, or bitmap checksum wrong.
  Result<bool> inode_in_use(Ino ino);
  Result<bool> cluster_in_use(Blk block);
  /// Inodes of the group's table worth reading: up to itable_unused, or to the last bit set if that is later.
  [[nodiscard]] std::uint32_t used_inode_slots(GroupNo g, std::span<const std::byte> inode_bitmap) const;
  /// The group's inode bitmap, copied; empty when it is uninitialised.
  Result<std::vector<std::byte>> inode_bitmap(GroupNo g) const;

  /// Clears the bit and counts. The caller has proved that it is set.
  Result<void> free_inode(Ino ino, bool directory);
  Result<void> free_cluster(Blk block);
  /// First fit; marks and counts. no_space when full. `goal`: a block or inode to start at.
  Result<Ino> allocate_inode(GroupNo goal);
  Result<Blk> allocate_cluster(Blk goal);
  /// Start of the first run of so many free clusters within a group, or of the longest there is; 0: none.
  Blk find_free_run(std::uint32_t clusters);

  /// Puts checksums on every bitmap, descriptor and superblock touched since
  /// the last call and sets the superblock's free counts to the groups' sums.
  Result<void> seal();
  void forget_spans();

 private:
  // Bitmaps of the groups in use: a copy to look at, or the overlay's own dirty block once it is edited.
  struct GroupBits {
    std::vector<std::byte> copy[2];  // [0] inodes, [1] blocks
    std::span<std::byte> edit[2];
    std::span<std::byte> desc;
    bool bad[2] = {false, false};
    bool touched = false;
    [[nodiscard]] std::span<const std::byte> look(int which) const {
      return edit[which].empty() ? std::span<const std::byte>(copy[which]) : std::span<const std::byte>(edit[which]);
    }
  };
  image::Overlay* overlay_ = nullptr;
  Geometry geo_;
  std::vector<GroupDesc> groups_;
  std::vector<std::unique_ptr<GroupBits>> bits_;
  std::vector<GroupNo> touched_;
  Ino last_orphan_ = 0, orphan_file_inum_ = 0;
  std::uint16_t state_ = 0;
  bool super_touched_ = false, counts_touched_ = false;

  Result<std::vector<std::byte>> read_bitmap(GroupNo g, int which) const;
  Result<GroupBits*> bits(GroupNo g, int which);
  Result<GroupBits*> edit_bits(GroupNo g, int which);
  [[nodiscard]] std::uint32_t bitmap_bytes(int which) const;
  [[nodiscard]] Blk descriptor_block(GroupNo g, std::uint32_t& offset) const;
  [[nodiscard]] GroupDesc parse_desc(GroupNo g, std::span<const std::byte> raw) const;
  [[nodiscard]] std::uint16_t desc_checksum(GroupNo g, std::span<const std::byte> raw) const;
  Result<std::span<std::byte>> edit_super();
  Result<void> seal_group(GroupNo g);
  void write_counts(GroupNo g, std::span<std::byte> desc) const;
  [[nodiscard]] std::uint32_t clusters_in_group(GroupNo g) const;
};

}  // namespace e4::orphan
