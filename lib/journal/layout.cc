// SPDX-License-Identifier: GPL-2.0-only
#include "journal/layout.h"

#include <algorithm>

namespace e4::journal {

Layout::Layout(image::Filsys& fs) {
  ext2_filsys raw = fs.raw();
  const bool meta_bg = ext2fs_has_feature_meta_bg(raw->super);
  const std::uint64_t old_blocks =
      meta_bg ? std::min<std::uint64_t>(raw->desc_blocks, raw->super->s_first_meta_bg) : raw->desc_blocks;
  for (GroupNo g = 0; g < raw->group_desc_count; ++g) {
    blk64_t super = 0, old_desc = 0, new_desc = 0;
    blk_t used = 0;
    ext2fs_super_and_bgd_loc2(raw, g, &super, &old_desc, &new_desc, &used);
    if (super != 0 || g == 0) ranges_.push_back({super, 1, MetaKind::super});
    if (old_desc != 0 && old_blocks != 0) ranges_.push_back({old_desc, old_blocks, MetaKind::descriptors});
    if (new_desc != 0) ranges_.push_back({new_desc, 1, MetaKind::descriptors});
    ranges_.push_back({ext2fs_block_bitmap_loc(raw, g), 1, MetaKind::block_bitmap});
    ranges_.push_back({ext2fs_inode_bitmap_loc(raw, g), 1, MetaKind::inode_bitmap});
    ranges_.push_back({ext2fs_inode_table_loc(raw, g), raw->inode_blocks_per_group, MetaKind::inode_table});
  }
  std::ranges::sort(ranges_, {}, &Range::from);
}

std::optional<MetaKind> Layout::find(Blk b) const {
  const auto it = std::ranges::upper_bound(ranges_, b, {}, &Range::from);
  if (it == ranges_.begin()) return std::nullopt;
  const Range& r = *std::prev(it);
  if (b - r.from < r.blocks) return r.kind;
  return std::nullopt;
}

std::optional<Blk> Layout::first_in(Blk from, std::uint64_t blocks) const {
  if (find(from)) return from;
  const auto it = std::ranges::upper_bound(ranges_, from, {}, &Range::from);
  if (it != ranges_.end() && it->from - from < blocks) return it->from;
  return std::nullopt;
}

}  // namespace e4::journal
