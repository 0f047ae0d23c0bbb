// SPDX-License-Identifier: GPL-2.0-only
#include "journal/write_order.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "image/filsys.h"
#include "journal/fs_super.h"
#include "journal/file_map.h"
#include "journal/layout.h"

namespace e4::journal {

namespace {

enum Step : std::size_t { kMaps, kFiles, kInodes, kOrphans, kSuper, kSteps };

// The orphan file's blocks, ascending; none if it cannot be followed (then they
// go out with the blocks of files, which is right for a file nobody can trust).
std::vector<MappedExtent> orphan_file(image::Overlay& overlay, image::Filsys& fs) {
  if ((fs.super().s_feature_compat & EXT4_FEATURE_COMPAT_ORPHAN_FILE) == 0) return {};
  ext2_inode inode{};
  const Ino ino = fs.super().s_orphan_file_inum;
  if (ino == 0 || ino > fs.super().s_inodes_count || ext2fs_read_inode(fs.raw(), ino, &inode) != 0) return {};
  std::array<std::byte, 60> i_block{};
  std::memcpy(i_block.data(), inode.i_block, sizeof inode.i_block);
  auto map = map_file(overlay, {.i_block = i_block,
                                .ino = ino,
                                .block_bytes = fs.block_bytes(),
                                .fs_blocks = ext2fs_blocks_count(&fs.super())});
  if (!map) return {};
  std::ranges::sort(map->extents, {}, &MappedExtent::physical);
  return std::move(map->extents);
}

Step step_of(MetaKind kind) {
  switch (kind) {
    case MetaKind::inode_table: return kInodes;
    case MetaKind::super:
    case MetaKind::descriptors:
    case MetaKind::block_bitmap:
    case MetaKind::inode_bitmap: return kMaps;
  }
  return kFiles;
}

}  // namespace

std::vector<std::vector<Blk>> in_place_steps(image::Overlay& overlay, const std::vector<Blk>& blocks) {
  std::optional<Layout> layout;
  std::vector<MappedExtent> orphans;
  if (auto fs = image::Filsys::open(overlay)) {
    layout.emplace(*fs);
    orphans = orphan_file(overlay, *fs);
  }
  std::vector<std::vector<Blk>> steps(kSteps);
  for (const Blk b : blocks) {
    Step step = kFiles;
    const auto kind = layout ? layout->find(b) : std::nullopt;
    const auto orphan = std::ranges::upper_bound(orphans, b, {}, &MappedExtent::physical);
    if (b == super_block(overlay.block_bytes())) {
      step = kSuper;
    } else if (kind) {
      step = step_of(*kind);
    } else if (orphan != orphans.begin() && b - std::prev(orphan)->physical < std::prev(orphan)->blocks) {
      step = kOrphans;
    }
    steps[step].push_back(b);
  }
  return steps;
}

}  // namespace e4::journal
