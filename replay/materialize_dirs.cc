// SPDX-License-Identifier: GPL-2.0-only
// The directories of a materialized image. A trace holds no names, so every
// new inode is called "@NUMBER" in the directory it was made in: the kernel
// gave that directory blocks for names that are hardly ever shorter.
#include <fmt/core.h>

#include <algorithm>

#include "replay/materialize.h"

namespace e4::replay {
namespace {

using Kind = FileTable::Kind;

int collect_in_order(ext2_filsys, blk64_t* block, e2_blkcnt_t lblk, blk64_t, int, void* data) {
  if (lblk >= 0) static_cast<std::vector<Blk>*>(data)->push_back(*block);
  return 0;
}

}  // namespace

/// Reads the directories of the start image that still exist: all of them if
/// some name in them went stale, else those the trace touched or adds to.
Result<void> Materializer::gather_directories() {
  std::set<Ino> wanted;
  for (const auto& [ino, f] : table_.files()) {
    if (f.gone) continue;
    if (LINUX_S_ISDIR(f.mode) && f.changed) wanted.insert(ino);
    if (f.created && f.parent != 0) wanted.insert(f.parent);
  }
  wanted.insert(EXT2_ROOT_INO);
  if (!stale_names_.empty()) {
    ext2_inode_scan scan = nullptr;
    E4_EXT2(ext2fs_open_inode_scan(fs_.raw(), 0, &scan), "inode scan");
    ext2_ino_t ino = 0;
    ext2_inode inode{};
    errcode_t code = 0;
    while ((code = ext2fs_get_next_inode(scan, &ino, &inode)) == 0 && ino != 0)
      if (inode.i_links_count != 0 && LINUX_S_ISDIR(inode.i_mode)) wanted.insert(ino);
    ext2fs_close_inode_scan(scan);
    if (code != 0) return image::ext2_error(code, "inode scan");
  }
  for (const Ino ino : wanted) {
    const FileTable::File f = *E4_TRY(table_.find(ino));
    if (f.gone || !LINUX_S_ISDIR(f.mode)) continue;
    Directory d;
    d.parent = f.parent;
    d.rewrite = f.created;
    if (!f.created) {
      ext2_inode inode{};
      E4_EXT2(ext2fs_read_inode(fs_.raw(), ino, &inode), "directory");
      if ((inode.i_flags & (EXT4_INLINE_DATA_FL | EXT4_ENCRYPT_FL)) != 0) continue;  // names are not ours to repack
      E4_EXT2(ext2fs_block_iterate3(fs_.raw(), ino, BLOCK_FLAG_READ_ONLY, nullptr, collect_in_order, &d.blocks), "directory");
      std::vector<std::byte> block(fs_.block_bytes());
      for (const Blk b : d.blocks) {
        E4_TRY(fs_.device().read(b * fs_.block_bytes(), block));
        for (Name& n : parse_dir_block(fs_, block)) {
          if (n.name == "..") d.parent = n.ino;
          if (n.name == "." || n.name == "..") continue;
          if (stale_names_.contains(n.ino))
            d.rewrite = true;
          else
            d.names.push_back(std::move(n));
        }
      }
    }
    if (f.created || f.changed) {  // its blocks are those the trace left it
      std::vector<std::pair<Lblk, Blk>> list;
      std::vector<Blk> surplus;
      const auto it = owned_.find(ino);
      if (it != owned_.end()) {
        for (const auto& [block, p] : it->second)
          for (std::uint32_t i = 0; i < p.len_blocks; ++i) {
            if (p.kind == Kind::data) list.emplace_back(p.lblk + i, block + i);
            if (p.kind == Kind::loose) surplus.push_back(block + i);
          }
      }
      std::sort(list.begin(), list.end());
      std::vector<Blk> blocks;
      for (const auto& [lblk, b] : list) blocks.push_back(b);
      // Tree blocks the directory's own map does not need hold names instead.
      OwnedBlocks o = owned_by(ino);
      std::vector<MappedRun> runs;
      for (std::size_t i = 0; i < blocks.size(); ++i) runs.push_back({static_cast<Lblk>(i), blocks[i], 1, false});
      const std::uint32_t capacity = (fs_.block_bytes() - 12) / 12;
      while (!o.meta.empty()) {
        const TreePlan plan = plan_tree(runs, o.meta, {}, static_cast<Lblk>(runs.size()), capacity, 1);
        if (plan.runs.empty() || !plan.runs.back().unwritten) break;
        const Blk b = o.meta.back();
        o.meta.pop_back();
        runs.push_back({static_cast<Lblk>(runs.size()), b, 1, false});
        surplus.push_back(b);
      }
      if (auto mine = owned_.find(ino); mine != owned_.end()) {
        for (auto& [block, p] : mine->second)
          if (p.kind == Kind::meta && std::find(surplus.begin(), surplus.end(), block) != surplus.end()) p.kind = Kind::data;
      }
      blocks.insert(blocks.end(), surplus.begin(), surplus.end());
      if (blocks != d.blocks) {
        d.blocks = std::move(blocks);
        d.rewrite = true;
      }
    }
    dirs_[ino] = std::move(d);
  }
  return {};
}

void Materializer::choose_names() {
  for (const auto& [ino, f] : table_.files()) {
    const bool orphan = f.unlinked && options_.crash;
    if (!f.created || f.gone || orphan) continue;
    Name n{ino, type_of(ino), fmt::format("@{}", ino)};
    auto it = dirs_.find(f.parent);
    if (it == dirs_.end()) {
      leftover_.push_back(std::move(n));
      continue;
    }
    auto taken = [&] {
      return std::any_of(it->second.names.begin(), it->second.names.end(), [&](const Name& o) { return o.name == n.name; });
    };
    while (!it->second.names.empty() && it->second.names.front().name[0] == '@' && taken()) n.name += '_';
    if (n.type == EXT2_FT_DIR) dirs_[ino].parent = f.parent;
    it->second.names.push_back(std::move(n));
    it->second.rewrite = true;
  }
}

Result<void> Materializer::write_directory(Ino ino) {
  Directory& d = dirs_[ino];
  if (d.parent == 0) d.parent = EXT2_ROOT_INO;
  if (d.blocks.empty()) {  // of a damaged start state: not even "." has a place
    leftover_.insert(leftover_.end(), d.names.begin(), d.names.end());
    d.names.clear();
    return {};
  }
  const std::uint8_t dir_type = ext2fs_has_feature_filetype(&fs_.super()) != 0 ? EXT2_FT_DIR : 0;
  std::vector<Name> all{{ino, dir_type, "."}, {d.parent, dir_type, ".."}};
  all.insert(all.end(), d.names.begin(), d.names.end());
  std::vector<Name> rest;
  const auto packed = pack_dir_blocks(fs_, all, d.blocks.size(), rest);
  for (std::size_t i = 0; i < packed.size(); ++i) {
    std::vector<std::byte> block = packed[i];
    // Sets the checksum in the tail and writes through the device.
    E4_EXT2(ext2fs_write_dir_block4(fs_.raw(), d.blocks[i], block.data(), 0, ino), "directory block");
  }
  d.names.resize(d.names.size() - std::min(d.names.size(), rest.size()));
  leftover_.insert(leftover_.end(), rest.begin(), rest.end());
  d.rewrite = true;
  return {};
}

/// Names without room in their own directory go to the emptiest others, then
/// to new blocks of the root directory.
Result<void> Materializer::place_leftover_names() {
  if (leftover_.empty()) return {};
  result_.names_moved = leftover_.size();
  // lost+found is made large and empty for such a day.
  std::vector<Ino> order;
  for (const Name& n : dirs_[EXT2_ROOT_INO].names)
    if (n.name == "lost+found" && !dirs_.contains(n.ino)) {
      Directory d;
      d.parent = EXT2_ROOT_INO;
      E4_EXT2(ext2fs_block_iterate3(fs_.raw(), n.ino, BLOCK_FLAG_READ_ONLY, nullptr, collect_in_order, &d.blocks), "lost+found");
      dirs_[n.ino] = std::move(d);
      order.push_back(n.ino);
    }
  for (const auto& [ino, d] : dirs_)
    if (std::find(order.begin(), order.end(), ino) == order.end()) order.push_back(ino);
  for (const Ino ino : order) {
    if (leftover_.empty()) return {};
    if (std::any_of(leftover_.begin(), leftover_.end(), [&](const Name& n) { return n.ino == ino; })) continue;
    std::vector<Name> moved;
    moved.swap(leftover_);
    Directory& d = dirs_[ino];
    for (const Name& n : moved)
      if (n.type == EXT2_FT_DIR && dirs_.contains(n.ino)) dirs_[n.ino].parent = ino;
    d.names.insert(d.names.end(), moved.begin(), moved.end());
    E4_TRY(write_directory(ino));
  }
  Directory& root = dirs_[EXT2_ROOT_INO];
  while (!leftover_.empty()) {
    blk64_t b = 0;
    E4_EXT2(ext2fs_new_block2(fs_.raw(), 0, fs_.raw()->block_map, &b), "no free block for names");
    ext2fs_block_alloc_stats2(fs_.raw(), b, +1);
    ++result_.extra_blocks;
    root.blocks.push_back(b);
    std::vector<Name> moved;
    moved.swap(leftover_);
    for (const Name& n : moved)
      if (n.type == EXT2_FT_DIR && dirs_.contains(n.ino)) dirs_[n.ino].parent = EXT2_ROOT_INO;
    root.names.insert(root.names.end(), moved.begin(), moved.end());
    E4_TRY(write_directory(EXT2_ROOT_INO));
  }
  // A directory that moved must say so in its "..".
  for (auto& [ino, d] : dirs_)
    if (d.rewrite) E4_TRY(write_directory(ino));
  return {};
}

}  // namespace e4::replay
