// SPDX-License-Identifier: GPL-2.0-only
#include "check/groups.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/crc32c.h"
#include "base/endian.h"

namespace e4::check {

std::uint32_t clear_bits(std::span<const std::byte> bitmap, std::uint32_t bits) {
  std::uint32_t set = 0;
  std::size_t i = 0;
  for (; i + 8 <= bits / 8; i += 8) {
    std::uint64_t w = 0;
    std::memcpy(&w, bitmap.data() + i, 8);
    set += static_cast<std::uint32_t>(std::popcount(w));
  }
  for (std::uint32_t b = static_cast<std::uint32_t>(i) * 8; b < bits; ++b)
    set += static_cast<std::uint32_t>((std::to_integer<unsigned>(bitmap[b / 8]) >> (b % 8)) & 1U);
  return bits - set;
}

namespace {
/// The reflected CRC-16 (polynomial 0xA001) of gdt_csum.
std::uint16_t crc16(std::uint16_t c, const void* data, std::size_t bytes) {
  for (const auto* p = static_cast<const unsigned char*>(data); bytes-- != 0; ++p) {
    c = static_cast<std::uint16_t>(c ^ *p);
    for (int i = 0; i < 8; ++i) c = static_cast<std::uint16_t>((c & 1U) != 0 ? (c >> 1) ^ 0xA001 : c >> 1);
  }
  return c;
}
}  // namespace

Groups::Groups(image::Overlay& overlay, const image::Filsys& fs)
    : overlay_(overlay),
      fs_(fs.raw()),
      count_(fs_->group_desc_count),
      desc_bytes_(EXT2_DESC_SIZE(fs_->super)),
      per_block_(overlay.block_bytes() / desc_bytes_),
      inodes_per_group_(fs_->super->s_inodes_per_group),
      itable_blocks_(fs_->inode_blocks_per_group),
      clusters_per_group_(EXT2_CLUSTERS_PER_GROUP(fs_->super)),
      csum_seed_(fs.csum_seed()),
      blocks_count_(ext2fs_blocks_count(fs_->super)),
      first_data_block_(fs_->super->s_first_data_block),
      first_meta_bg_(ext2fs_has_feature_meta_bg(fs_->super) != 0 ? fs_->super->s_first_meta_bg : ~0U),
      metadata_csum_(ext2fs_has_feature_metadata_csum(fs_->super) != 0),
      gdt_csum_(ext2fs_has_feature_gdt_csum(fs_->super) != 0),
      flex_bg_(ext2fs_has_feature_flex_bg(fs_->super) != 0) {}

Blk Groups::first_block(GroupNo g) const { return ext2fs_group_first_block2(fs_, g); }

std::uint32_t Groups::clusters(GroupNo g) const {
  if (g + 1 < count_) return clusters_per_group_;
  const Blk ratio = Blk{1} << fs_->cluster_ratio_bits;
  return static_cast<std::uint32_t>((blocks_count_ - first_block(g) + ratio - 1) / ratio);
}

/// The block behind group g's superblock copy, or its first block.
Blk Groups::after_super(GroupNo g) const {
  // With 1 KiB blocks and bigalloc the first group starts at block 0, its superblock is block 1.
  const Blk shift = g == 0 && overlay_.block_bytes() == 1024 && first_data_block_ == 0 ? 1 : 0;
  return first_block(g) + shift + (ext2fs_bg_has_super(fs_, g) != 0 ? 1 : 0);
}

Groups::Spot Groups::primary(GroupNo g) const {
  const std::uint32_t n = g / per_block_, offset = (g % per_block_) * desc_bytes_;
  return n < first_meta_bg_ ? Spot{after_super(0) + n, offset} : Spot{after_super(n * per_block_), offset};
}

std::vector<Groups::Spot> Groups::copies(GroupNo g) const {
  const std::uint32_t n = g / per_block_, offset = (g % per_block_) * desc_bytes_;
  std::vector<Spot> spots;
  if (n >= first_meta_bg_) {
    for (const std::uint64_t in : {std::uint64_t{1}, std::uint64_t{per_block_} - 1})
      if (const std::uint64_t b = std::uint64_t{n} * per_block_ + in; b < count_) spots.push_back({after_super(static_cast<GroupNo>(b)), offset});
    return spots;
  }
  for (GroupNo b = 1; b < count_ && spots.size() < kBackupsMax; ++b)
    if (ext2fs_bg_has_super(fs_, b) != 0) spots.push_back({after_super(b) + n, offset});
  return spots;
}

Blk Groups::descriptor_block(GroupNo g) const { return primary(g).block; }

Desc Groups::parse(const std::byte* p) const {
  const bool wide = desc_bytes_ >= EXT2_MIN_DESC_SIZE_64BIT;
  const auto u32 = [&](std::size_t lo, std::size_t hi) {
    return load<le32>(p, lo) | (wide ? Blk{load<le32>(p, hi)} << 32 : 0);
  };
  const auto u16 = [&](std::size_t lo, std::size_t hi) {
    return load<le16>(p, lo) | (wide ? std::uint32_t{load<le16>(p, hi)} << 16 : 0);
  };
  Desc d;
  d.block_bitmap = u32(0x00, 0x20);
  d.inode_bitmap = u32(0x04, 0x24);
  d.inode_table = u32(0x08, 0x28);
  d.free_clusters = u16(0x0C, 0x2C);
  d.free_inodes = u16(0x0E, 0x2E);
  d.used_dirs = u16(0x10, 0x30);
  d.flags = load<le16>(p, 0x12);
  d.block_bitmap_checksum = u16(0x18, 0x38);
  d.inode_bitmap_checksum = u16(0x1A, 0x3A);
  d.itable_unused = u16(0x1C, 0x32);
  d.checksum = load<le16>(p, 0x1E);
  return d;
}

Result<Desc> Groups::read(GroupNo g) {
  const Spot s = primary(g);
  const auto block = E4_TRY(overlay_.view(s.block));
  return parse(block.data() + s.offset);
}

Result<void> Groups::write(GroupNo g, const Desc& d) {
  const Spot s = primary(g);
  const auto block = E4_TRY(overlay_.edit(s.block));
  std::byte* p = block.data() + s.offset;
  const bool wide = desc_bytes_ >= EXT2_MIN_DESC_SIZE_64BIT;
  const auto u32 = [&](std::size_t lo, std::size_t hi, Blk v) {
    store<le32>(p, lo, v);
    if (wide) store<le32>(p, hi, v >> 32);
  };
  const auto u16 = [&](std::size_t lo, std::size_t hi, std::uint32_t v) {
    store<le16>(p, lo, v);
    if (wide) store<le16>(p, hi, v >> 16);
  };
  u32(0x00, 0x20, d.block_bitmap);
  u32(0x04, 0x24, d.inode_bitmap);
  u32(0x08, 0x28, d.inode_table);
  u16(0x0C, 0x2C, d.free_clusters);
  u16(0x0E, 0x2E, d.free_inodes);
  u16(0x10, 0x30, d.used_dirs);
  store<le16>(p, 0x12, d.flags);
  u16(0x18, 0x38, d.block_bitmap_checksum);
  u16(0x1A, 0x3A, d.inode_bitmap_checksum);
  u16(0x1C, 0x32, d.itable_unused);
  if (any_csum()) store<le16>(p, 0x1E, checksum_of(g, std::span<const std::byte>(p, desc_bytes_)));
  return {};
}

std::uint16_t Groups::checksum_of(GroupNo g, std::span<const std::byte> desc) const {
  constexpr std::size_t kField = 0x1E;
  if (metadata_csum_) {
    const std::uint16_t zero = 0;
    std::uint32_t c = crc32c_le32(csum_seed_, g);
    c = crc32c(c, desc.first(kField));
    c = crc32c(c, &zero, sizeof zero);
    c = crc32c(c, desc.subspan(kField + 2));
    return static_cast<std::uint16_t>(c);
  }
  if (!gdt_csum_) return 0;
  const le32 group = [&] { le32 v{}; v = g; return v; }();
  std::uint16_t c = crc16(0xFFFF, fs_->super->s_uuid, sizeof fs_->super->s_uuid);
  c = crc16(c, &group, sizeof group);
  c = crc16(c, desc.data(), kField);
  if (desc.size() > kField + 2)
    c = crc16(c, desc.data() + kField + 2, desc.size() - kField - 2);
  return c;
}

Result<std::uint16_t> Groups::computed_checksum(GroupNo g) {
  const Spot s = primary(g);
  const auto block = E4_TRY(overlay_.view(s.block));
  return checksum_of(g, block.subspan(s.offset, desc_bytes_));
}

Result<std::vector<Desc>> Groups::backups(GroupNo g) {
  std::vector<Desc> good;
  for (const Spot& s : copies(g)) {
    const auto block = overlay_.view(s.block);
    if (!block) continue;
    const Desc d = parse(block->data() + s.offset);
    if (any_csum() && d.checksum != checksum_of(g, block->subspan(s.offset, desc_bytes_))) continue;
    if (!place_ok(g, d.block_bitmap, 1) || !place_ok(g, d.inode_bitmap, 1) || !place_ok(g, d.inode_table, itable_blocks_)) continue;
    good.push_back(d);
  }
  return good;
}

bool Groups::place_ok(GroupNo g, Blk block, std::uint64_t length_blocks) const {
  Blk from = first_data_block_ + 1, to = blocks_count_;
  if (!flex_bg_) {
    from = g == 0 ? from : first_block(g);
    to = g + 1 < count_ ? first_block(g + 1) : blocks_count_;
  }
  return block >= from && block < to && to - block >= length_blocks;
}

Result<std::span<const std::byte>> Groups::block_bitmap(const Desc& desc) {
  return E4_TRY(overlay_.view(desc.block_bitmap)).first(clusters_per_group_ / 8);
}
Result<std::span<const std::byte>> Groups::inode_bitmap(const Desc& desc) {
  return E4_TRY(overlay_.view(desc.inode_bitmap)).first((inodes_per_group_ + 7) / 8);
}

namespace {
bool same_checksum(std::uint32_t stored, std::uint32_t computed, std::uint32_t desc_bytes) {
  return desc_bytes >= EXT2_MIN_DESC_SIZE_64BIT ? stored == computed : (stored & 0xFFFF) == (computed & 0xFFFF);
}
}  // namespace

bool Groups::block_bitmap_ok(const Desc& desc, std::span<const std::byte> bitmap) const {
  return !metadata_csum_ || same_checksum(desc.block_bitmap_checksum, crc32c(csum_seed_, bitmap), desc_bytes_);
}
bool Groups::inode_bitmap_ok(const Desc& desc, std::span<const std::byte> bitmap) const {
  return !metadata_csum_ ||
         same_checksum(desc.inode_bitmap_checksum, crc32c(csum_seed_, bitmap.first(inodes_per_group_ / 8)), desc_bytes_);
}

Result<std::uint32_t> Groups::count_dirs(const Desc& desc) {
  const std::uint32_t inode_bytes = EXT2_INODE_SIZE(fs_->super), per_block = overlay_.block_bytes() / inode_bytes;
  std::vector<std::byte> used;
  {
    const auto bitmap = E4_TRY(inode_bitmap(desc));
    used.assign(bitmap.begin(), bitmap.end());
  }
  std::uint32_t dirs = 0;
  for (std::uint32_t i = 0; i < inodes_per_group_; ++i) {
    if (((std::to_integer<unsigned>(used[i / 8]) >> (i % 8)) & 1U) == 0) continue;
    const auto block = E4_TRY(overlay_.view(desc.inode_table + i / per_block));
    if ((load<le16>(block.data(), std::size_t{i % per_block} * inode_bytes) & 0xF000) == 0x4000) ++dirs;
  }
  return dirs;
}

}  // namespace e4::check
