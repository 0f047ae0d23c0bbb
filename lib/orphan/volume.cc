// SPDX-License-Identifier: GPL-2.0-only
#include "orphan/volume.h"

#include <ext2fs/ext2_fs.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/assert.h"
#include "base/crc32c.h"
#include "base/endian.h"
#include "image/filsys.h"

namespace e4::orphan {
namespace {

constexpr int kInodes = 0, kBlocks = 1;

bool test_bit(std::span<const std::byte> map, std::uint32_t i) {
  return (std::to_integer<unsigned>(map[i >> 3]) >> (i & 7) & 1U) != 0;
}
void flip_bit(std::span<std::byte> map, std::uint32_t i) { map[i >> 3] ^= std::byte{1} << (i & 7); }

bool power_of(std::uint32_t n, std::uint32_t base) {
  while (n % base == 0) n /= base;
  return n == 1;
}

/// CRC-16 (reflected polynomial 0xA001), as uninit_bg descriptors use it.
std::uint16_t crc16(std::uint16_t c, const void* data, std::size_t bytes) {
  const auto* p = static_cast<const unsigned char*>(data);
  for (; bytes > 0; --bytes) {
    c ^= *p++;
    for (int i = 0; i < 8; ++i) c = static_cast<std::uint16_t>((c & 1) != 0 ? (c >> 1) ^ 0xA001 : c >> 1);
  }
  return c;
}

/// A group whose bitmaps or table overlap another's, or the descriptors, would let an edit of one damage the other.
void distrust_overlaps(const Geometry& geo, std::vector<GroupDesc>& groups) {
  struct Range {
    Blk first, count;
    GroupNo group;
  };
  constexpr GroupNo kNobody = ~0U;
  std::vector<Range> ranges;
  ranges.reserve(groups.size() * 3 + 1);
  const std::uint32_t per_block = geo.block_bytes / geo.desc_bytes;
  const Blk desc_blocks = std::min<Blk>((geo.groups_count + per_block - 1) / per_block, geo.first_meta_bg);
  ranges.push_back({0, desc_blocks + (geo.block_bytes == 1024 ? 2 : 1), kNobody});
  for (GroupNo g = 0; g < geo.groups_count; ++g) {
    if (!groups[g].trusted) continue;
    ranges.push_back({groups[g].block_bitmap, 1, g});
    ranges.push_back({groups[g].inode_bitmap, 1, g});
    ranges.push_back({groups[g].inode_table, geo.itable_blocks, g});
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.first < b.first; });
  std::size_t widest = 0;
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[widest].first + ranges[widest].count > ranges[i].first)
      for (const GroupNo g : {ranges[widest].group, ranges[i].group})
        if (g != kNobody) groups[g].trusted = false;
    if (ranges[i].first + ranges[i].count > ranges[widest].first + ranges[widest].count) widest = i;
  }
}

Geometry parse_geometry(const std::byte* s) {
  Geometry g;
  const auto u32 = [s](std::size_t at) { return load<le32>(s, at); };
  const auto u16 = [s](std::size_t at) { return load<le16>(s, at); };
  g.feature_compat = u32(0x5C);
  g.feature_incompat = u32(0x60);
  g.feature_ro_compat = u32(0x64);
  const bool dynamic = u32(0x4C) >= 1;
  g.block_bytes = 1024U << u32(0x18);
  g.cluster_blocks = g.bigalloc() ? 1U << (u32(0x1C) - u32(0x18)) : 1;
  g.inode_bytes = dynamic ? u16(0x58) : 128;
  g.first_ino = dynamic ? u32(0x54) : 11;
  g.desc_bytes = g.has_64bit() ? u16(0xFE) : 32;
  g.blocks_per_group = u32(0x20);
  g.clusters_per_group = g.blocks_per_group / g.cluster_blocks;
  g.inodes_per_group = u32(0x28);
  g.inodes_count = u32(0x00);
  g.blocks_count = u32(0x04) | (g.has_64bit() ? std::uint64_t{u32(0x150)} << 32 : 0);
  g.first_data_block = u32(0x14);
  g.itable_blocks = static_cast<std::uint32_t>(
      (std::uint64_t{g.inodes_per_group} * g.inode_bytes + g.block_bytes - 1) / g.block_bytes);
  g.groups_count = static_cast<std::uint32_t>((g.blocks_count - g.first_data_block + g.blocks_per_group - 1) / g.blocks_per_group);
  g.first_meta_bg = (g.feature_incompat & EXT2_FEATURE_INCOMPAT_META_BG) != 0 ? u32(0x104) : ~0U;
  g.reserved_gdt_blocks = u16(0xCE);
  g.mmp_block = (g.feature_incompat & EXT4_FEATURE_INCOMPAT_MMP) != 0 ? load<le64>(s, 0x168) : 0;
  g.journal_inum = u32(0xE0);
  g.usr_quota_inum = u32(0x240);
  g.grp_quota_inum = u32(0x244);
  g.prj_quota_inum = u32(0x26C);
  g.backup_bgs[0] = u32(0x24C);
  g.backup_bgs[1] = u32(0x250);
  g.want_extra_isize = u16(0x15E);
  std::memcpy(g.uuid, s + 0x68, sizeof g.uuid);
  g.csum_seed = (g.feature_incompat & 0x2000) != 0 ? u32(0x270) : crc32c(~0U, g.uuid, sizeof g.uuid);
  return g;
}

}  // namespace

bool Geometry::has_super(GroupNo group) const {
  if (group == 0) return true;
  if ((feature_compat & EXT4_FEATURE_COMPAT_SPARSE_SUPER2) != 0) return group == backup_bgs[0] || group == backup_bgs[1];
  if (group == 1 || (feature_ro_compat & EXT2_FEATURE_RO_COMPAT_SPARSE_SUPER) == 0) return true;
  return (group & 1) != 0 && (power_of(group, 3) || power_of(group, 5) || power_of(group, 7));
}

Result<Volume> Volume::load(image::Overlay& overlay) {
  alignas(8) std::byte raw[1024];
  E4_TRY(overlay.read(1024, raw));
  ext2_super_block super;
  static_assert(sizeof super == sizeof raw);
  std::memcpy(&super, raw, sizeof raw);
  E4_TRY(image::check_geometry(super, overlay.size()));
  Volume v;
  v.overlay_ = &overlay;
  v.geo_ = parse_geometry(raw);
  if (v.geo_.block_bytes != overlay.block_bytes())
    return make_error(ErrorKind::usage, "the overlay's block size is not the file system's");
  v.last_orphan_ = e4::load<le32>(raw, 0xE8);
  v.orphan_file_inum_ = e4::load<le32>(raw, 0x280);
  v.state_ = e4::load<le16>(raw, 0x3A);
  v.groups_.resize(v.geo_.groups_count);
  v.bits_.resize(v.geo_.groups_count);
  for (GroupNo g = 0; g < v.geo_.groups_count; ++g) {
    std::uint32_t offset = 0;
    const Blk block = v.descriptor_block(g, offset);
    if (block >= v.geo_.blocks_count)
      return make_error(ErrorKind::corrupt, "group " + std::to_string(g) + ": its descriptor lies outside the file system")
          .at_block(block);
    const auto data = E4_TRY(overlay.view(block));
    v.groups_[g] = v.parse_desc(g, data.subspan(offset, v.geo_.desc_bytes));
  }
  distrust_overlaps(v.geo_, v.groups_);
  return v;
}

Blk Volume::descriptor_block(GroupNo g, std::uint32_t& offset) const {
  const std::uint32_t per_block = geo_.block_bytes / geo_.desc_bytes;
  const std::uint32_t i = g / per_block;
  offset = g % per_block * geo_.desc_bytes;
  // The superblock's own block comes first: block 1 with 1 KiB blocks even where counting starts at 0 (bigalloc).
  const Blk first = geo_.block_bytes == 1024 ? 2 : 1;
  if (i < geo_.first_meta_bg) return first + i;
  const GroupNo home = i * per_block;
  if (home == 0) return first;
  return geo_.first_data_block + std::uint64_t{home} * geo_.blocks_per_group + (geo_.has_super(home) ? 1 : 0);
}

std::uint16_t Volume::desc_checksum(GroupNo g, std::span<const std::byte> raw) const {
  constexpr std::size_t kAt = 0x1E;
  if (geo_.metadata_csum()) {
    const std::byte zero[2] = {};
    std::uint32_t c = crc32c(crc32c_le32(geo_.csum_seed, g), raw.first(kAt));
    c = crc32c(c, zero);
    return static_cast<std::uint16_t>(crc32c(c, raw.subspan(kAt + 2)));
  }
  std::byte number[4];
  store<le32>(number, 0, g);
  std::uint16_t c = crc16(0xFFFF, geo_.uuid, sizeof geo_.uuid);
  c = crc16(c, number, sizeof number);
  c = crc16(c, raw.data(), kAt);
  if (raw.size() > kAt + 2) c = crc16(c, raw.data() + kAt + 2, static_cast<unsigned>(raw.size() - kAt - 2));
  return c;
}

GroupDesc Volume::parse_desc(GroupNo g, std::span<const std::byte> raw) const {
  GroupDesc d;
  const auto u32 = [raw](std::size_t at) { return e4::load<le32>(raw.data(), at); };
  const auto u16 = [raw](std::size_t at) { return e4::load<le16>(raw.data(), at); };
  d.block_bitmap = u32(0x00);
  d.inode_bitmap = u32(0x04);
  d.inode_table = u32(0x08);
  d.free_blocks = u16(0x0C);
  d.free_inodes = u16(0x0E);
  d.used_dirs = u16(0x10);
  if (geo_.desc_bytes >= 64) {
    d.block_bitmap |= std::uint64_t{u32(0x20)} << 32;
    d.inode_bitmap |= std::uint64_t{u32(0x24)} << 32;
    d.inode_table |= std::uint64_t{u32(0x28)} << 32;
    d.free_blocks |= std::uint32_t{u16(0x2C)} << 16;
    d.free_inodes |= std::uint32_t{u16(0x2E)} << 16;
    d.used_dirs |= std::uint32_t{u16(0x30)} << 16;
  }
  if (geo_.metadata_csum() || geo_.gdt_csum()) {
    d.flags = u16(0x12);
    d.itable_unused = u16(0x1C) | (geo_.desc_bytes >= 64 ? std::uint32_t{u16(0x32)} << 16 : 0);
    d.trusted = u16(0x1E) == desc_checksum(g, raw);
  }
  d.trusted = d.trusted && geo_.block_in_range(d.block_bitmap) && geo_.block_in_range(d.inode_bitmap) &&
              geo_.block_in_range(d.inode_table) && geo_.itable_blocks <= geo_.blocks_count - d.inode_table &&
              d.itable_unused <= geo_.inodes_per_group && d.free_inodes <= geo_.inodes_per_group;
  return d;
}

Result<Volume::InodePlace> Volume::inode_place(Ino ino) const {
  if (ino == 0 || ino > geo_.inodes_count)
    return make_error(ErrorKind::corrupt, "no such inode").at_inode(ino);
  const GroupNo g = geo_.group_of_inode(ino);
  if (!groups_[g].trusted)
    return make_error(ErrorKind::corrupt, "group " + std::to_string(g) + ": its descriptor is damaged").at_inode(ino);
  const std::uint64_t at = std::uint64_t{(ino - 1) % geo_.inodes_per_group} * geo_.inode_bytes;
  return InodePlace{groups_[g].inode_table + at / geo_.block_bytes, static_cast<std::uint32_t>(at % geo_.block_bytes)};
}

std::uint32_t Volume::bitmap_bytes(int which) const {
  return (which == kInodes ? geo_.inodes_per_group : geo_.clusters_per_group) / 8;
}

std::uint32_t Volume::clusters_in_group(GroupNo g) const {
  if (g + 1 < geo_.groups_count) return geo_.clusters_per_group;
  return static_cast<std::uint32_t>(geo_.clusters_count() - std::uint64_t{g} * geo_.clusters_per_group);
}

Result<std::vector<std::byte>> Volume::read_bitmap(GroupNo g, int which) const {
  const GroupDesc& d = groups_[g];
  const auto say = [&](const char* what) {
    return make_error(ErrorKind::corrupt, "group " + std::to_string(g) + ": " + what);
  };
  if (!d.trusted) return say("its descriptor is damaged");
  if (which == kInodes ? d.inode_uninit() : d.block_uninit()) return std::vector<std::byte>(geo_.block_bytes);
  const auto data = E4_TRY(overlay_->view(which == kInodes ? d.inode_bitmap : d.block_bitmap));
  std::vector<std::byte> map(data.begin(), data.end());
  if (geo_.metadata_csum()) {
    std::uint32_t offset = 0;
    const auto raw = E4_TRY(overlay_->view(descriptor_block(g, offset))).subspan(offset, geo_.desc_bytes);
    const std::uint32_t sum = crc32c(geo_.csum_seed, std::span<const std::byte>(map).first(bitmap_bytes(which)));
    const std::size_t low = which == kInodes ? 0x1A : 0x18, high = which == kInodes ? 0x3A : 0x38;
    const bool wide = geo_.desc_bytes >= 64;
    const std::uint32_t stored = e4::load<le16>(raw.data(), low) |
                                 (wide ? std::uint32_t{e4::load<le16>(raw.data(), high)} << 16 : 0U);
    if (stored != (wide ? sum : sum & 0xFFFF))
      return say(which == kInodes ? "inode bitmap: wrong checksum" : "block bitmap: wrong checksum");
  }
  return map;
}

Result<std::vector<std::byte>> Volume::inode_bitmap(GroupNo g) const {
  if (groups_[g].trusted && groups_[g].inode_uninit()) return std::vector<std::byte>();
  if (bits_[g] != nullptr && !bits_[g]->edit[kInodes].empty()) {
    const auto live = bits_[g]->edit[kInodes];
    return std::vector<std::byte>(live.begin(), live.end());
  }
  return read_bitmap(g, kInodes);
}

std::uint32_t Volume::used_inode_slots(GroupNo g, std::span<const std::byte> inode_bitmap) const {
  if (inode_bitmap.empty()) return 0;
  const std::uint32_t by_desc = geo_.inodes_per_group - groups_[g].itable_unused;
  std::uint32_t last = geo_.inodes_per_group;
  while (last > by_desc && !test_bit(inode_bitmap, last - 1)) --last;
  return std::max(last, by_desc);
}

Result<Volume::GroupBits*> Volume::bits(GroupNo g, int which) {
  if (bits_[g] == nullptr) bits_[g] = std::make_unique<GroupBits>();
  GroupBits& b = *bits_[g];
  if (b.bad[which]) return make_error(ErrorKind::corrupt, "group " + std::to_string(g) + ": its bitmap is damaged");
  if (b.look(which).empty()) {
    auto map = read_bitmap(g, which);
    if (!map) {
      b.bad[which] = true;
      return Error(std::move(map).error());
    }
    b.copy[which] = std::move(*map);
  }
  return &b;
}

Result<Volume::GroupBits*> Volume::edit_bits(GroupNo g, int which) {
  GroupBits* b = E4_TRY(bits(g, which));
  if (b->edit[which].empty()) {
    const GroupDesc& d = groups_[g];
    b->edit[which] = E4_TRY(overlay_->edit(which == kInodes ? d.inode_bitmap : d.block_bitmap));
    b->copy[which].clear();
  }
  if (b->desc.empty()) {
    std::uint32_t offset = 0;
    const Blk block = descriptor_block(g, offset);
    b->desc = E4_TRY(overlay_->edit(block)).subspan(offset, geo_.desc_bytes);
  }
  if (!b->touched) {
    b->touched = true;
    touched_.push_back(g);
  }
  counts_touched_ = true;
  return b;
}

Result<bool> Volume::inode_in_use(Ino ino) {
  const GroupBits* b = E4_TRY(bits(geo_.group_of_inode(ino), kInodes));
  return test_bit(b->look(kInodes), (ino - 1) % geo_.inodes_per_group);
}

Result<bool> Volume::cluster_in_use(Blk block) {
  const std::uint64_t c = geo_.cluster_of(block);
  const GroupBits* b = E4_TRY(bits(static_cast<GroupNo>(c / geo_.clusters_per_group), kBlocks));
  return test_bit(b->look(kBlocks), static_cast<std::uint32_t>(c % geo_.clusters_per_group));
}

Result<void> Volume::free_inode(Ino ino, bool directory) {
  const GroupNo g = geo_.group_of_inode(ino);
  GroupBits* b = E4_TRY(edit_bits(g, kInodes));
  const std::uint32_t i = (ino - 1) % geo_.inodes_per_group;
  if (!test_bit(b->edit[kInodes], i)) return make_error(ErrorKind::corrupt, "inode is already free").at_inode(ino);
  flip_bit(b->edit[kInodes], i);
  GroupDesc& d = groups_[g];
  if (d.free_inodes < geo_.inodes_per_group) ++d.free_inodes;
  if (directory && d.used_dirs > 0) --d.used_dirs;
  return {};
}

Result<void> Volume::free_cluster(Blk block) {
  const std::uint64_t c = geo_.cluster_of(block);
  const auto g = static_cast<GroupNo>(c / geo_.clusters_per_group);
  GroupBits* b = E4_TRY(edit_bits(g, kBlocks));
  const auto i = static_cast<std::uint32_t>(c % geo_.clusters_per_group);
  if (!test_bit(b->edit[kBlocks], i)) return make_error(ErrorKind::corrupt, "block is already free").at_block(block);
  flip_bit(b->edit[kBlocks], i);
  if (groups_[g].free_blocks < clusters_in_group(g)) ++groups_[g].free_blocks;
  return {};
}

Result<Ino> Volume::allocate_inode(GroupNo goal) {
  for (GroupNo n = 0; n < geo_.groups_count; ++n) {
    const GroupNo g = (goal + n) % geo_.groups_count;
    // A group whose table was never used would need its bitmap and table initialised first: there are others.
    if (!groups_[g].trusted || groups_[g].inode_uninit() || groups_[g].free_inodes == 0) continue;
    auto found = bits(g, kInodes);
    if (!found) continue;
    const Ino base = g * geo_.inodes_per_group + 1;
    for (std::uint32_t i = base < geo_.first_ino ? geo_.first_ino - base : 0; i < geo_.inodes_per_group; ++i) {
      if (test_bit((*found)->look(kInodes), i)) continue;
      GroupBits* b = E4_TRY(edit_bits(g, kInodes));
      flip_bit(b->edit[kInodes], i);
      GroupDesc& d = groups_[g];
      --d.free_inodes;
      d.itable_unused = std::min(d.itable_unused, geo_.inodes_per_group - (i + 1));
      return base + i;
    }
  }
  return make_error(ErrorKind::no_space, "no free inode");
}

Result<Blk> Volume::allocate_cluster(Blk goal) {
  const std::uint64_t start = geo_.block_in_range(goal) ? geo_.cluster_of(goal) : 0;
  const auto first = static_cast<GroupNo>(start / geo_.clusters_per_group);
  for (GroupNo n = 0; n <= geo_.groups_count; ++n) {
    const GroupNo g = (first + n) % geo_.groups_count;
    if (!groups_[g].trusted || groups_[g].block_uninit() || groups_[g].free_blocks == 0) continue;
    auto found = bits(g, kBlocks);
    if (!found) continue;
    const std::uint32_t end = clusters_in_group(g);
    for (auto i = n == 0 ? static_cast<std::uint32_t>(start % geo_.clusters_per_group) : 0U; i < end; ++i) {
      if (test_bit((*found)->look(kBlocks), i)) continue;
      const Blk block =
          geo_.first_data_block + (std::uint64_t{g} * geo_.clusters_per_group + i) * geo_.cluster_blocks;
      if (!geo_.block_in_range(block)) continue;
      GroupBits* b = E4_TRY(edit_bits(g, kBlocks));
      flip_bit(b->edit[kBlocks], i);
      --groups_[g].free_blocks;
      return block;
    }
  }
  return make_error(ErrorKind::no_space, "no free block");
}

Blk Volume::find_free_run(std::uint32_t clusters) {
  Blk best = 0;
  std::uint32_t best_length = 0;
  for (GroupNo g = 0; g < geo_.groups_count; ++g) {
    if (!groups_[g].trusted || groups_[g].block_uninit() || groups_[g].free_blocks <= best_length) continue;
    const auto held = bits(g, kBlocks);
    if (!held) continue;
    const auto map = (*held)->look(kBlocks);
    std::uint32_t length = 0;
    for (std::uint32_t i = 0, end = clusters_in_group(g); i < end && best_length < clusters; ++i) {
      length = test_bit(map, i) ? 0 : length + 1;
      if (length <= best_length) continue;
      best_length = length;
      best = geo_.first_data_block + (std::uint64_t{g} * geo_.clusters_per_group + i + 1 - length) * geo_.cluster_blocks;
    }
    if (best_length >= clusters) break;
  }
  return best;
}

void Volume::write_counts(GroupNo g, std::span<std::byte> desc) const {
  const GroupDesc& d = groups_[g];
  store<le16>(desc.data(), 0x0C, d.free_blocks & 0xFFFF);
  store<le16>(desc.data(), 0x0E, d.free_inodes & 0xFFFF);
  store<le16>(desc.data(), 0x10, d.used_dirs & 0xFFFF);
  const bool csum = geo_.metadata_csum() || geo_.gdt_csum();
  if (csum) store<le16>(desc.data(), 0x1C, d.itable_unused & 0xFFFF);
  if (desc.size() < 64) return;
  store<le16>(desc.data(), 0x2C, d.free_blocks >> 16);
  store<le16>(desc.data(), 0x2E, d.free_inodes >> 16);
  store<le16>(desc.data(), 0x30, d.used_dirs >> 16);
  if (csum) store<le16>(desc.data(), 0x32, d.itable_unused >> 16);
}

Result<void> Volume::seal_group(GroupNo g) {
  GroupBits& b = *bits_[g];
  write_counts(g, b.desc);
  if (geo_.metadata_csum()) {
    for (const int which : {kInodes, kBlocks}) {
      if (b.edit[which].empty()) continue;
      const std::uint32_t sum = crc32c(geo_.csum_seed, std::span<const std::byte>(b.edit[which]).first(bitmap_bytes(which)));
      store<le16>(b.desc.data(), which == kInodes ? 0x1A : 0x18, sum & 0xFFFF);
      if (b.desc.size() >= 64) store<le16>(b.desc.data(), which == kInodes ? 0x3A : 0x38, sum >> 16);
    }
  }
  if (geo_.metadata_csum() || geo_.gdt_csum()) store<le16>(b.desc.data(), 0x1E, desc_checksum(g, b.desc));
  b.touched = false;
  return {};
}

Result<std::span<std::byte>> Volume::edit_super() {
  super_touched_ = true;
  const bool small = geo_.block_bytes == 1024;
  return E4_TRY(overlay_->edit(small ? 1 : 0)).subspan(small ? 0 : 1024, 1024);
}

Result<void> Volume::set_last_orphan(Ino ino) {
  if (last_orphan_ == ino) return {};
  store<le32>(E4_TRY(edit_super()).data(), 0xE8, ino);
  last_orphan_ = ino;
  return {};
}

Result<void> Volume::set_orphan_file(Ino ino, bool feature) {
  const auto s = E4_TRY(edit_super());
  geo_.feature_compat = (geo_.feature_compat & ~0x1000U) | (feature ? 0x1000U : 0U);
  orphan_file_inum_ = ino;
  store<le32>(s.data(), 0x5C, geo_.feature_compat);
  store<le32>(s.data(), 0x280, ino);
  return {};
}

Result<void> Volume::set_orphan_present(bool present) {
  if (orphan_present() == present) return {};
  const auto s = E4_TRY(edit_super());
  geo_.feature_ro_compat = (geo_.feature_ro_compat & ~0x10000U) | (present ? 0x10000U : 0U);
  store<le32>(s.data(), 0x64, geo_.feature_ro_compat);
  return {};
}

Result<void> Volume::seal() {
  for (const GroupNo g : touched_) E4_TRY(seal_group(g));
  touched_.clear();
  if (counts_touched_) {
    std::uint64_t blocks = 0, inodes = 0;
    for (const GroupDesc& d : groups_) {
      blocks += d.free_blocks;
      inodes += d.free_inodes;
    }
    blocks *= geo_.cluster_blocks;
    const auto s = E4_TRY(edit_super());
    store<le32>(s.data(), 0x0C, blocks & 0xFFFFFFFF);
    if (geo_.has_64bit()) store<le32>(s.data(), 0x158, blocks >> 32);
    store<le32>(s.data(), 0x10, inodes);
    counts_touched_ = false;
  }
  if (super_touched_) {
    const auto s = E4_TRY(edit_super());
    if (geo_.metadata_csum()) store<le32>(s.data(), 0x3FC, crc32c(~0U, s.data(), 0x3FC));
    super_touched_ = false;
  }
  return {};
}

void Volume::forget_spans() {
  E4_ASSERT(touched_.empty() && !super_touched_);
  for (auto& b : bits_) b.reset();
}

}  // namespace e4::orphan
