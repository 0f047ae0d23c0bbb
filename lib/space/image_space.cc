// SPDX-License-Identifier: GPL-2.0-only
#include "space/image_space.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "alloc/bits.h"
#include "base/endian.h"

namespace e4::space {

namespace {

/// On disk bit i is bit i % 8 of byte i / 8: little-endian words.
void to_host(std::span<std::uint64_t> words) {
  if constexpr (std::endian::native == std::endian::big)
    for (auto& w : words) w = byteswap(w);
}

/// The kernel's choice at mount: stripe width, else stride, each only if it fits a group.
std::uint32_t stripe_of(const ext2_super_block& s) {
  const std::uint32_t width = s.s_raid_stripe_width, stride = s.s_raid_stride;
  if (width > 1 && width <= s.s_blocks_per_group) return width;
  return stride > 1 && stride <= s.s_blocks_per_group ? stride : 0;
}

}  // namespace

alloc::Geometry geometry_of(const ext2_super_block& s) {
  auto* p = const_cast<ext2_super_block*>(&s);  // libext2fs's inline getters want it so; they only read
  alloc::Geometry g;
  g.block_bytes = 1024U << s.s_log_block_size;
  const bool bigalloc = ext2fs_has_feature_bigalloc(p) != 0;
  g.cluster_bits = bigalloc ? s.s_log_cluster_size - s.s_log_block_size : 0;
  g.blocks_per_group = s.s_blocks_per_group;
  g.clusters_per_group = bigalloc ? s.s_clusters_per_group : s.s_blocks_per_group;
  g.blocks_count = ext2fs_blocks_count(p);
  g.first_data_block = s.s_first_data_block;
  g.inodes_per_group = s.s_inodes_per_group;
  g.flex_bg = ext2fs_has_feature_flex_bg(p) != 0;
  g.log_groups_per_flex = g.flex_bg ? s.s_log_groups_per_flex : 0;
  g.checksummed_descriptors = ext2fs_has_feature_gdt_csum(p) != 0 || ext2fs_has_feature_metadata_csum(p) != 0;
  g.extents = ext2fs_has_feature_extents(p) != 0;
  return g;
}

alloc::MountOptions mount_options_of(const ext2_super_block& s) {
  auto* p = const_cast<ext2_super_block*>(&s);
  alloc::MountOptions m;
  m.has_journal = ext2fs_has_feature_journal(p) != 0;
  m.delalloc = true;
  switch (s.s_default_mount_opts & EXT3_DEFM_JMODE) {
    case EXT3_DEFM_JMODE_DATA: m.data_mode = alloc::DataMode::journal; break;
    case EXT3_DEFM_JMODE_WBACK: m.data_mode = alloc::DataMode::writeback; break;
    default: m.data_mode = alloc::DataMode::ordered; break;
  }
  if (!m.has_journal) m.data_mode = alloc::DataMode::writeback;
  if (m.data_mode == alloc::DataMode::journal) m.delalloc = false;
  m.discard = (s.s_default_mount_opts & EXT4_DEFM_DISCARD) != 0;
  if ((s.s_default_mount_opts & EXT4_DEFM_NODELALLOC) != 0) m.delalloc = false;
  m.stripe_blocks = stripe_of(s);
  m.root_blocks = ext2fs_r_blocks_count(p);
  return m;
}

ImageBitmaps::ImageBitmaps(image::Filsys& fs, bool check_checksums)
    : fs_(fs), geometry_(geometry_of(fs.super())), check_checksums_(check_checksums) {}

alloc::GroupDescriptor ImageBitmaps::descriptor(GroupNo group) {
  ext2_filsys fs = fs_.raw();
  alloc::GroupDescriptor d;
  d.free_clusters = ext2fs_bg_free_blocks_count(fs, group);
  d.block_uninit = geometry_.checksummed_descriptors && ext2fs_bg_flags_test(fs, group, EXT2_BG_BLOCK_UNINIT) != 0;
  return d;
}

void ImageBitmaps::mark_layout(GroupNo group, std::span<std::uint64_t> words) const {
  std::ranges::fill(words, 0);
  ext2_filsys fs = fs_.raw();
  const Blk first = geometry_.first_block(group);
  const auto mark = [&](Blk block, std::uint64_t count) {
    // Only what lies inside this group: with flex_bg the bitmaps and tables of most groups do not.
    if (count == 0 || block < first || block - first >= geometry_.blocks_per_group) return;
    const std::uint64_t from = block - first;
    const std::uint64_t to = std::min<std::uint64_t>(from + count, geometry_.blocks_per_group);
    const std::uint64_t c0 = from >> geometry_.cluster_bits;
    const std::uint64_t c1 = (to + geometry_.cluster_blocks() - 1) >> geometry_.cluster_bits;
    alloc::bits::set_range(words.data(), static_cast<std::uint32_t>(c0), static_cast<std::uint32_t>(c1 - c0));
  };
  blk64_t super = 0, old_desc = 0, new_desc = 0;
  blk_t used = 0;
  ext2fs_super_and_bgd_loc2(fs, group, &super, &old_desc, &new_desc, &used);
  if (super != 0 || group == 0) mark(super, 1);
  if (old_desc != 0) {
    const bool meta_bg = ext2fs_has_feature_meta_bg(fs->super) != 0;
    const std::uint64_t desc = meta_bg ? fs->super->s_first_meta_bg : fs->desc_blocks;
    mark(old_desc, desc + fs->super->s_reserved_gdt_blocks);
  }
  if (new_desc != 0) mark(new_desc, 1);
  mark(ext2fs_block_bitmap_loc(fs, group), 1);
  mark(ext2fs_inode_bitmap_loc(fs, group), 1);
  mark(ext2fs_inode_table_loc(fs, group), fs->inode_blocks_per_group);
}

std::uint32_t ImageBitmaps::metadata_clusters(GroupNo group) {
  std::vector<std::uint64_t> words(geometry_.bitmap_bits() / 64);
  mark_layout(group, words);
  return geometry_.clusters_in(group) - alloc::bits::count_zero(words.data(), 0, geometry_.clusters_in(group));
}

Result<void> ImageBitmaps::read_bitmap(GroupNo group, std::span<std::uint64_t> words) {
  if (descriptor(group).block_uninit) {
    mark_layout(group, words);
    return {};
  }
  ext2_filsys fs = fs_.raw();
  const Blk at = ext2fs_block_bitmap_loc(fs, group);
  if (at <= geometry_.first_data_block || at >= geometry_.blocks_count)
    return make_error(ErrorKind::corrupt, "block bitmap outside the file system").at_block(at);
  MutexLock held(read_mutex_);
  E4_TRY(fs_.device().read(at * geometry_.block_bytes, std::as_writable_bytes(words)));
  if (check_checksums_ && ext2fs_has_feature_metadata_csum(fs->super) != 0 &&
      ext2fs_block_bitmap_csum_verify(fs, group, reinterpret_cast<char*>(words.data()),
                                      static_cast<int>(geometry_.clusters_per_group / 8)) == 0)
    return make_error(ErrorKind::corrupt, "wrong checksum").at_block(at);
  to_host(words);
  return {};
}

Result<std::unique_ptr<Space>> Space::load(image::Filsys& fs, const SpaceOptions& options) {
  std::unique_ptr<Space> space(new Space(fs, options));
  const alloc::Geometry& g = space->bitmaps_.geometry();
  const alloc::MountOptions mount = options.mount.value_or(mount_options_of(fs.super()));
  const alloc::Tunables tunables = options.tunables.value_or(alloc::Tunables::defaults(g, mount));
  space->allocator_ = E4_TRY(alloc::Allocator::create(g, mount, tunables, options.policy, space->bitmaps_));
  return space;
}

Result<void> Space::store_group(GroupNo group) {
  ext2_filsys fs = fs_.raw();
  const alloc::Geometry& g = bitmaps_.geometry();
  std::vector<std::uint64_t> words(g.bitmap_bits() / 64);
  // An inode's first use of a group clears BLOCK_UNINIT before anybody has read the bitmap: then it is the layout.
  if (!allocator_->copy_bitmap(group, words)) bitmaps_.mark_layout(group, words);
  const std::uint32_t clusters = g.clusters_in(group);
  alloc::bits::set_range(words.data(), clusters, g.bitmap_bits() - clusters);
  to_host(words);
  const Blk at = ext2fs_block_bitmap_loc(fs, group);
  if (at <= g.first_data_block || at >= g.blocks_count)
    return make_error(ErrorKind::corrupt, "group " + std::to_string(group) + ": block bitmap outside the file system").at_block(at);
  E4_TRY(fs_.device().write(at * g.block_bytes, std::as_bytes(std::span(words))));
  ext2fs_bg_free_blocks_count_set(fs, group, allocator_->descriptor_free(group));
  if (!allocator_->block_uninit(group)) ext2fs_bg_flags_clear(fs, group, EXT2_BG_BLOCK_UNINIT);
  if (ext2fs_has_feature_metadata_csum(fs->super) != 0)
    E4_EXT2(ext2fs_block_bitmap_csum_set(fs, group, reinterpret_cast<char*>(words.data()),
                                         static_cast<int>(g.clusters_per_group / 8)),
            "group " + std::to_string(group) + ": bitmap checksum");
  ext2fs_group_desc_csum_set(fs, group);
  allocator_->clear_dirty(group);
  return {};
}

Result<std::uint32_t> Space::store(bool backups) {
  std::uint32_t written = 0;
  for (GroupNo group = 0; group < bitmaps_.geometry().groups(); ++group) {
    if (!allocator_->group_dirty(group)) continue;
    E4_TRY(store_group(group));
    ++written;
  }
  if (written == 0) return written;
  ext2_filsys fs = fs_.raw();
  ext2fs_free_blocks_count_set(fs->super, static_cast<blk64_t>(std::max<std::int64_t>(0, allocator_->free_clusters_count()))
                                              << bitmaps_.geometry().cluster_bits);
  ext2fs_mark_super_dirty(fs);
  E4_TRY(fs_.flush(backups));
  return written;
}

}  // namespace e4::space
