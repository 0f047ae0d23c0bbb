// SPDX-License-Identifier: GPL-2.0-only
#include "replay/image_state.h"

#include <algorithm>
#include <bit>

#include "image/container.h"

namespace e4::replay {
namespace {

alloc::Geometry geometry_of(image::Filsys& fs) {
  ext2_super_block& s = fs.super();
  alloc::Geometry g;
  g.block_bytes = fs.block_bytes();
  const bool bigalloc = ext2fs_has_feature_bigalloc(&s);
  g.cluster_bits = bigalloc ? s.s_log_cluster_size - s.s_log_block_size : 0;
  g.blocks_per_group = s.s_blocks_per_group;
  g.clusters_per_group = bigalloc ? s.s_clusters_per_group : s.s_blocks_per_group;
  g.blocks_count = ext2fs_blocks_count(&s);
  g.first_data_block = s.s_first_data_block;
  g.inodes_per_group = s.s_inodes_per_group;
  g.flex_bg = ext2fs_has_feature_flex_bg(&s);
  g.log_groups_per_flex = g.flex_bg ? s.s_log_groups_per_flex : 0;
  g.checksummed_descriptors = ext2fs_has_feature_gdt_csum(&s) || ext2fs_has_feature_metadata_csum(&s);
  g.extents = ext2fs_has_feature_extents(&s);
  return g;
}

void set_bits(std::span<std::uint64_t> words, std::uint64_t from, std::uint64_t to) {
  for (std::uint64_t i = from; i < to && i / 64 < words.size(); ++i) words[i / 64] |= std::uint64_t{1} << (i % 64);
}

}  // namespace

Result<std::unique_ptr<ImageState>> ImageState::open(const std::string& path) {
  auto device = E4_TRY(image::open_container(path));
  image::Filsys fs = E4_TRY(image::Filsys::open(*device));
  const alloc::Geometry g = geometry_of(fs);
  return std::unique_ptr<ImageState>(new ImageState(std::move(device), std::move(fs), g));
}

bool ImageState::has_journal() const { return ext2fs_has_feature_journal(&fs_.super()); }
Blk ImageState::root_blocks() const { return ext2fs_r_blocks_count(&fs_.super()); }

alloc::GroupDescriptor ImageState::descriptor(GroupNo group) {
  alloc::GroupDescriptor d;
  d.free_clusters = ext2fs_bg_free_blocks_count(fs_.raw(), group);
  d.block_uninit = geometry_.checksummed_descriptors && ext2fs_bg_flags_test(fs_.raw(), group, EXT2_BG_BLOCK_UNINIT) != 0;
  return d;
}

void ImageState::mark_layout(GroupNo group, std::span<std::uint64_t> words) const {
  std::fill(words.begin(), words.end(), 0);
  ext2_filsys fs = fs_.raw();
  const Blk first = geometry_.first_block(group);
  const auto mark = [&](Blk block, std::uint64_t count) {
    // Only what lies inside this group: with flex_bg the bitmaps and tables of most groups do not.
    if (count == 0 || block < first || block - first >= geometry_.blocks_per_group) return;
    const std::uint64_t from = block - first;
    const std::uint64_t to = std::min<std::uint64_t>(from + count, geometry_.blocks_per_group);
    set_bits(words, from >> geometry_.cluster_bits, (to + geometry_.cluster_blocks() - 1) >> geometry_.cluster_bits);
  };
  blk64_t super = 0, old_desc = 0, new_desc = 0;
  blk_t used = 0;
  ext2fs_super_and_bgd_loc2(fs, group, &super, &old_desc, &new_desc, &used);
  if (super != 0 || group == 0) mark(super, 1);
  if (old_desc != 0) mark(old_desc, std::uint64_t{fs->desc_blocks} + fs->super->s_reserved_gdt_blocks);
  if (new_desc != 0) mark(new_desc, 1);
  mark(ext2fs_block_bitmap_loc(fs, group), 1);
  mark(ext2fs_inode_bitmap_loc(fs, group), 1);
  mark(ext2fs_inode_table_loc(fs, group), fs->inode_blocks_per_group);
}

std::uint32_t ImageState::metadata_clusters(GroupNo group) {
  std::vector<std::uint64_t> words(geometry_.bitmap_bits() / 64);
  mark_layout(group, words);
  std::uint32_t n = 0;
  for (const std::uint64_t w : words) n += static_cast<std::uint32_t>(std::popcount(w));
  return n;
}

Result<void> ImageState::read_bitmap(GroupNo group, std::span<std::uint64_t> words) {
  if (descriptor(group).block_uninit) {
    mark_layout(group, words);
    return {};
  }
  const Blk at = ext2fs_block_bitmap_loc(fs_.raw(), group);
  if (at == 0 || at >= geometry_.blocks_count)
    return make_error(ErrorKind::corrupt, "group " + std::to_string(group) + ": block bitmap outside the file system");
  return device_->read(at * geometry_.block_bytes, std::as_writable_bytes(words));
}

std::optional<trace::InodeStart> ImageState::inode(Ino ino) {
  if (ino == 0 || ino > fs_.super().s_inodes_count) return std::nullopt;
  ext2_inode in{};
  if (ext2fs_read_inode(fs_.raw(), ino, &in) != 0 || in.i_links_count == 0 || in.i_mode == 0) return std::nullopt;
  trace::InodeStart s;
  s.size_bytes = EXT2_I_SIZE(&in);
  s.extents = (in.i_flags & EXT4_EXTENTS_FL) != 0;
  s.regular = LINUX_S_ISREG(in.i_mode);
  return s;
}

}  // namespace e4::replay
