// SPDX-License-Identifier: GPL-2.0-only
#include "replay/materialize.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "base/endian.h"
#include "orphan/format.h"

namespace e4::replay {
namespace {

using Kind = FileTable::Kind;

int collect_blocks(ext2_filsys, blk64_t* block, e2_blkcnt_t lblk, blk64_t, int, void* data) {
  auto& list = *static_cast<std::vector<std::pair<e2_blkcnt_t, Blk>>*>(data);
  list.emplace_back(lblk, *block);
  return 0;
}

bool is_directory(std::uint32_t mode) { return LINUX_S_ISDIR(mode); }

}  // namespace

Materializer::Materializer(image::Filsys fs)
    : fs_(std::move(fs)),
      table_([this](Ino ino, FileTable::File& file, std::map<Blk, FileTable::Piece>& owned) {
        return load_inode(ino, file, owned);
      }) {}

Result<std::unique_ptr<Materializer>> Materializer::open(image::Device& device) {
  auto fs = E4_TRY(image::Filsys::open(device, {.writable = true}));
  E4_TRY(fs.read_bitmaps());
  return std::unique_ptr<Materializer>(new Materializer(std::move(fs)));
}

Result<void> Materializer::load_inode(Ino ino, FileTable::File& file, std::map<Blk, FileTable::Piece>& owned) {
  if (ino == 0 || ino > fs_.super().s_inodes_count)
    return make_error(ErrorKind::corrupt, "the trace names an inode this file system does not have").at_inode(ino);
  file.mode = LINUX_S_IFREG | 0600;
  if (ext2fs_test_inode_bitmap2(fs_.raw()->inode_map, ino) == 0) return {};
  ext2_inode inode{};
  E4_EXT2(ext2fs_read_inode(fs_.raw(), ino, &inode), "inode");
  file.in_image = true;
  file.mode = inode.i_mode;
  file.links = inode.i_links_count;
  file.size_bytes = EXT2_I_SIZE(&inode);
  if (ext2fs_inode_has_valid_blocks2(fs_.raw(), &inode) == 0) return {};
  std::vector<std::pair<e2_blkcnt_t, Blk>> list;
  E4_EXT2(ext2fs_block_iterate3(fs_.raw(), ino, BLOCK_FLAG_READ_ONLY, nullptr, collect_blocks, &list), "blocks of an inode");
  for (const auto& [lblk, block] : list) {
    FileTable::Piece p{ino, 1, lblk >= 0 ? static_cast<Lblk>(lblk) : 0, lblk >= 0 ? Kind::data : Kind::meta};
    if (p.kind == Kind::meta) p.len_blocks = static_cast<std::uint32_t>(EXT2FS_CLUSTER_RATIO(fs_.raw()));
    if (p.kind == Kind::data) {
      if (auto it = owned.upper_bound(block); it != owned.begin()) {
        auto& [start, q] = *std::prev(it);
        if (q.kind == Kind::data && start + q.len_blocks == block && q.lblk + q.len_blocks == p.lblk) {
          ++q.len_blocks;
          continue;
        }
      }
    }
    owned[block] = p;
  }
  return {};
}

Result<void> Materializer::allocate_event(const trace::Event& e, Blk block, std::uint32_t len_clusters) {
  if (len_clusters == 0) return {};
  const auto ratio = static_cast<std::uint32_t>(EXT2FS_CLUSTER_RATIO(fs_.raw()));
  const std::uint64_t blocks = std::uint64_t{len_clusters} * ratio;
  const Blk end = ext2fs_blocks_count(&fs_.super());
  if (block < fs_.super().s_first_data_block || block >= end)
    return make_error(ErrorKind::corrupt, "the trace allocates a block this file system does not have").at_block(block);
  const auto len = static_cast<std::uint32_t>(std::min(blocks, end - block));
  const FileTable::File* f = E4_TRY(table_.find(e.ino));
  // Who asked: regular-file data says so in its flags; a directory's or
  // symlink's block is requested like a tree block, but then with a position
  // or as the first block of all.
  constexpr std::uint32_t kHintData = 0x20;
  Kind kind = Kind::meta;
  Lblk lblk = e.req.logical;
  if ((e.req.flags & kHintData) != 0) {
    kind = Kind::data;
  } else if (LINUX_S_ISDIR(f->mode) || LINUX_S_ISLNK(f->mode)) {
    bool first = true;
    if (lblk == 0)
      for (const auto& [b, p] : table_.pieces())
        if (p.ino == e.ino && p.kind == Kind::data) {
          first = false;
          break;
        }
    if (lblk != 0 || first) kind = Kind::data;
  }
  if (kind == Kind::data) lblk -= lblk % ratio;
  E4_TRY(table_.allocate(e.ino, kind, lblk, block, len));
  ext2fs_block_alloc_stats_range(fs_.raw(), block, len, +1);
  return {};
}

Result<void> Materializer::allocated(const trace::Event& request, Blk block, std::uint32_t len_clusters) {
  return allocate_event(request, block, len_clusters);
}

Result<void> Materializer::freed(Ino ino, Blk block, std::uint64_t blocks) {
  const Blk end = ext2fs_blocks_count(&fs_.super());
  if (block < fs_.super().s_first_data_block || block >= end || blocks > end - block)
    return make_error(ErrorKind::corrupt, "the trace frees a block this file system does not have").at_block(block);
  (void)E4_TRY(table_.free(ino, block, blocks));
  ext2fs_block_alloc_stats_range(fs_.raw(), block, static_cast<blk_t>(blocks), -1);
  return {};
}

Result<void> Materializer::apply(const trace::Event& e) {
  using K = trace::Kind;
  const std::uint64_t bs = fs_.block_bytes();
  switch (e.kind) {
    case K::allocate_blocks:
      return allocate_event(e, e.req.block, e.req.len);
    case K::mballoc_free: {
      if (e.extent.group >= fs_.raw()->group_desc_count || e.extent.start < 0)
        return make_error(ErrorKind::corrupt, "the trace frees in a group this file system does not have");
      const std::uint64_t ratio = EXT2FS_CLUSTER_RATIO(fs_.raw());
      const Blk block = ext2fs_group_first_block2(fs_.raw(), e.extent.group) + static_cast<Blk>(e.extent.start) * ratio;
      const Blk end = ext2fs_blocks_count(&fs_.super());
      return freed(e.ino, block, std::min<std::uint64_t>(e.extent.len * ratio, block < end ? end - block : 0));
    }
    case K::allocate_inode:
      table_.create(e.ino, e.inode.mode & 0xFFFFU, static_cast<Ino>(e.inode.dir));
      return {};
    case K::free_inode:
      return table_.release(e.ino);
    case K::unlink_exit:
      return e.range.ret == 0 ? table_.unlink(e.ino) : Result<void>{};
    case K::write_end:
      return table_.grow(e.ino, static_cast<std::uint64_t>(std::max<std::int64_t>(e.range.pos, 0)) + e.range.copied);
    case K::begin_ordered_truncate:
      return table_.set_size(e.ino, static_cast<std::uint64_t>(std::max<std::int64_t>(e.range.pos, 0)));
    case K::fallocate_enter:
      // The size follows when the call succeeds; growing it now only decides what counts as unwritten.
      if ((e.range.mode & trace::kFallocKeepSize) == 0 && e.range.pos >= 0 && e.range.len > 0)
        return table_.grow(e.ino, static_cast<std::uint64_t>(e.range.pos + e.range.len));
      return {};
    case K::collapse_range:
    case K::insert_range: {
      // Printed before the kernel looks at the arguments: what it refuses must do nothing here.
      const std::uint64_t unit = bs * EXT2FS_CLUSTER_RATIO(fs_.raw());
      if (e.range.pos < 0 || e.range.len <= 0) return {};
      const auto pos = static_cast<std::uint64_t>(e.range.pos), len = static_cast<std::uint64_t>(e.range.len);
      if (pos % unit != 0 || len % unit != 0 || (pos + len) / bs > UINT32_MAX) return {};
      const FileTable::File* f = E4_TRY(table_.find(e.ino));
      const std::uint64_t size = f->size_bytes;
      const auto from = static_cast<Lblk>(pos / bs), count = static_cast<Lblk>(len / bs);
      if (e.kind == K::collapse_range) {
        if (pos + len >= size) return {};
        E4_TRY(table_.collapse(e.ino, from, count));
        return table_.set_size(e.ino, size - len);
      }
      if (pos >= size) return {};
      E4_TRY(table_.insert(e.ino, from, count));
      return table_.set_size(e.ino, size + len);
    }
    default:
      return {};
  }
}

OwnedBlocks Materializer::owned_by(Ino ino) const {
  OwnedBlocks o;
  const auto it = owned_.find(ino);
  if (it == owned_.end()) return o;
  const auto ratio = static_cast<std::uint32_t>(EXT2FS_CLUSTER_RATIO(fs_.raw()));
  for (const auto& [block, p] : it->second) {
    if (p.kind == Kind::data) o.runs.push_back({p.lblk, block, p.len_blocks, false});
    if (p.kind == Kind::loose) o.loose.push_back({0, block, p.len_blocks, true});
    if (p.kind == Kind::meta)
      for (std::uint32_t i = 0; i < p.len_blocks; i += ratio) o.meta.push_back(block + i);
  }
  return o;
}

std::uint8_t Materializer::type_of(Ino ino) {
  std::uint32_t mode = 0;
  if (const auto it = table_.files().find(ino); it != table_.files().end()) {
    mode = it->second.mode;
  } else {
    ext2_inode inode{};
    if (ext2fs_read_inode(fs_.raw(), ino, &inode) == 0) mode = inode.i_mode;
  }
  if (LINUX_S_ISDIR(mode)) return EXT2_FT_DIR;
  if (LINUX_S_ISLNK(mode)) return EXT2_FT_SYMLINK;
  if (LINUX_S_ISCHR(mode)) return EXT2_FT_CHRDEV;
  if (LINUX_S_ISBLK(mode)) return EXT2_FT_BLKDEV;
  if (LINUX_S_ISFIFO(mode)) return EXT2_FT_FIFO;
  if (LINUX_S_ISSOCK(mode)) return EXT2_FT_SOCK;
  return EXT2_FT_REG_FILE;
}

Result<void> Materializer::remove_inode(Ino ino, const FileTable::File& file) {
  if (ext2fs_test_inode_bitmap2(fs_.raw()->inode_map, ino) == 0) return {};
  ext2_inode inode{};
  E4_EXT2(ext2fs_read_inode(fs_.raw(), ino, &inode), "inode");
  inode.i_links_count = 0;
  inode.i_dtime = std::max(options_.now, fs_.super().s_inodes_count);
  inode.i_size = 0;
  inode.i_size_high = 0;
  inode.i_blocks = 0;
  inode.osd2.linux2.l_i_blocks_hi = 0;
  inode.i_file_acl = 0;
  inode.osd2.linux2.l_i_file_acl_high = 0;
  std::memset(inode.i_block, 0, sizeof inode.i_block);
  inode.i_flags &= ~static_cast<std::uint32_t>(EXT4_EXTENTS_FL | EXT4_INLINE_DATA_FL);
  E4_EXT2(ext2fs_write_inode(fs_.raw(), ino, &inode), "inode");
  ext2fs_inode_alloc_stats2(fs_.raw(), ino, -1, is_directory(file.mode) ? 1 : 0);
  ++result_.inodes_removed;
  return {};
}

Result<void> Materializer::write_inode(Ino ino, const FileTable::File& file) {
  const bool fresh = file.created || !file.in_image;
  ext2_inode_large inode{};
  const auto* dir = dirs_.contains(ino) ? &dirs_[ino] : nullptr;
  const std::size_t bytes = std::min<std::size_t>(EXT2_INODE_SIZE(fs_.raw()->super), sizeof inode);
  if (!fresh)
    E4_EXT2(ext2fs_read_inode_full(fs_.raw(), ino, reinterpret_cast<ext2_inode*>(&inode), static_cast<int>(bytes)), "inode");
  if (fresh) {
    inode.i_mode = static_cast<std::uint16_t>(file.mode);
    if ((file.mode & LINUX_S_IFMT) == 0) inode.i_mode = static_cast<std::uint16_t>(file.mode | LINUX_S_IFREG);
    inode.i_atime = inode.i_mtime = inode.i_ctime = options_.now;
    if (bytes > EXT2_GOOD_OLD_INODE_SIZE) {
      inode.i_extra_isize = 32;
      inode.i_crtime = options_.now;
    }
  }
  inode.i_dtime = 0;
  OwnedBlocks owned = owned_by(ino);
  std::uint64_t size = file.size_bytes;
  if (dir != nullptr) {
    owned.runs.clear();
    owned.loose.clear();
    owned.meta = dir->rewrite ? owned.meta : std::vector<Blk>{};
    for (std::size_t i = 0; i < dir->blocks.size(); ++i) owned.runs.push_back({static_cast<Lblk>(i), dir->blocks[i], 1, false});
    size = dir->blocks.size() * std::uint64_t{fs_.block_bytes()};
    inode.i_flags &= ~static_cast<std::uint32_t>(EXT2_INDEX_FL);
    std::uint32_t subdirs = 0;
    for (const Name& n : dir->names) subdirs += type_of(n.ino) == EXT2_FT_DIR ? 1 : 0;
    inode.i_links_count = static_cast<std::uint16_t>(subdirs + 2 > EXT2_LINK_MAX ? 1 : subdirs + 2);
  } else if (fresh) {
    inode.i_links_count = 1;
  } else if (file.links > 0) {
    inode.i_links_count = static_cast<std::uint16_t>(file.links);
  }
  const bool empty = owned.runs.empty() && owned.loose.empty() && owned.meta.empty();
  if (LINUX_S_ISLNK(inode.i_mode) && fresh) {
    if (empty) {
      size = 1;
      std::memcpy(inode.i_block, "x", 2);
    } else {  // its text is not in the trace; any path long enough to need a block will do
      size = 64;
      std::vector<std::byte> text(fs_.block_bytes());
      std::memset(text.data(), 'x', size);
      if (!owned.runs.empty()) {
        owned.runs.resize(1);
        owned.runs[0].lblk = 0;
        owned.runs[0].len_blocks = 1;  // of its cluster
        E4_TRY(fs_.device().write(owned.runs[0].pblk * fs_.block_bytes(), text));
      }
    }
  }
  const bool mapped = LINUX_S_ISREG(inode.i_mode) || LINUX_S_ISDIR(inode.i_mode) || (LINUX_S_ISLNK(inode.i_mode) && !empty);
  if (mapped && (inode.i_flags & EXT4_INLINE_DATA_FL) == 0) {
    const bool extents = fresh ? ext2fs_has_feature_extents(&fs_.super()) != 0 : (inode.i_flags & EXT4_EXTENTS_FL) != 0;
    const std::uint64_t bs = fs_.block_bytes();
    const auto size_blocks = static_cast<Lblk>(std::min<std::uint64_t>((size + bs - 1) / bs, UINT32_MAX - 1));
    MapResult map;
    if (extents) {
      map = E4_TRY(write_extent_map(fs_, ino, inode, owned, size_blocks));
      if (LINUX_S_ISREG(inode.i_mode) && map.written_lblk_end > size_blocks) size = map.written_lblk_end * bs;
    } else {
      map = E4_TRY(write_indirect_map(fs_, ino, inode, owned));
      if (LINUX_S_ISREG(inode.i_mode)) size = std::max(size, map.last_lblk_end * bs);
    }
    result_.extra_blocks += map.extra_blocks;
    std::uint64_t count = map.blocks_512;
    const Blk acl = inode.i_file_acl | std::uint64_t{inode.osd2.linux2.l_i_file_acl_high} << 32;
    if (acl != 0 && ext2fs_test_block_bitmap2(fs_.raw()->block_map, acl) == 0) {
      inode.i_file_acl = 0;  // freed by the trace
      inode.osd2.linux2.l_i_file_acl_high = 0;
    } else if (acl != 0) {
      count += static_cast<std::uint64_t>(EXT2FS_CLUSTER_RATIO(fs_.raw())) * (bs / 512);
    }
    inode.i_blocks = static_cast<std::uint32_t>(count);
    inode.osd2.linux2.l_i_blocks_hi = static_cast<std::uint16_t>(count >> 32);
  }
  inode.i_size = static_cast<std::uint32_t>(size);
  inode.i_size_high = static_cast<std::uint32_t>(size >> 32);
  if (std::find(orphans_.begin(), orphans_.end(), ino) != orphans_.end()) inode.i_links_count = 0;
  if (ext2fs_test_inode_bitmap2(fs_.raw()->inode_map, ino) == 0)
    ext2fs_inode_alloc_stats2(fs_.raw(), ino, +1, is_directory(inode.i_mode) ? 1 : 0);
  E4_EXT2(ext2fs_write_inode_full(fs_.raw(), ino, reinterpret_cast<ext2_inode*>(&inode), static_cast<int>(bytes)), "inode");
  ++result_.inodes_written;
  return {};
}

Result<void> Materializer::write_orphans() {
  if (orphans_.empty()) return {};
  result_.orphans = orphans_.size();
  std::vector<Ino> waiting = orphans_;
  std::sort(waiting.begin(), waiting.end());
  std::size_t next = 0;
  if (ext2fs_has_feature_orphan_file(&fs_.super()) != 0) {
    const Ino file = fs_.super().s_orphan_file_inum;
    ext2_inode inode{};
    E4_EXT2(ext2fs_read_inode(fs_.raw(), file, &inode), "orphan file");
    std::vector<std::pair<e2_blkcnt_t, Blk>> list;
    E4_EXT2(ext2fs_block_iterate3(fs_.raw(), file, BLOCK_FLAG_READ_ONLY, nullptr, collect_blocks, &list), "orphan file");
    const std::uint32_t seed = orphan::inode_csum_seed(fs_.csum_seed(), file, inode.i_generation);
    std::vector<std::byte> block(fs_.block_bytes());
    for (const auto& [lblk, b] : list) {
      if (lblk < 0 || next == waiting.size()) continue;
      E4_TRY(fs_.device().read(b * fs_.block_bytes(), block));
      for (std::uint32_t s = 0; s < orphan::slots_per_block(fs_.block_bytes()) && next < waiting.size(); ++s)
        if (orphan::OrphanBlock(block).slot(s) == 0) orphan::set_slot(block, s, waiting[next++]);
      orphan::seal_orphan_block(block, seed, b, ext2fs_has_feature_metadata_csum(&fs_.super()) != 0);
      E4_TRY(fs_.device().write(b * fs_.block_bytes(), block));
    }
    ext2fs_set_feature_orphan_present(&fs_.super());
  }
  for (; next < waiting.size(); ++next) {  // overflow: chained through i_dtime, newest first
    ext2_inode inode{};
    E4_EXT2(ext2fs_read_inode(fs_.raw(), waiting[next], &inode), "inode");
    inode.i_dtime = fs_.super().s_last_orphan;
    E4_EXT2(ext2fs_write_inode(fs_.raw(), waiting[next], &inode), "inode");
    fs_.super().s_last_orphan = waiting[next];
    ++result_.orphans_on_list;
  }
  return {};
}

Result<Materialized> Materializer::finish(const MaterializeOptions& options) {
  options_ = options;
  // A directory whose first block is still to come does not exist yet.
  std::vector<Ino> unborn;
  owned_ = table_.by_owner();
  for (const auto& [ino, f] : table_.files())
    if (f.created && !f.gone && is_directory(f.mode) && owned_by(ino).runs.empty()) unborn.push_back(ino);
  for (const Ino ino : unborn) E4_TRY(table_.release(ino));

  for (const auto& [ino, f] : table_.files()) {
    if (f.in_image && (f.gone || f.created)) stale_names_.insert(ino);
    if (f.in_image && f.unlinked && !f.gone && options.crash) stale_names_.insert(ino);
    if (f.unlinked && !f.gone && options.crash) orphans_.push_back(ino);
  }
  for (const auto& [ino, f] : table_.files())
    if (f.in_image && (f.gone || f.created)) E4_TRY(remove_inode(ino, f));
  // Checksums of map and directory blocks start from the generation on disk: it must be the new one by then.
  for (const auto& [ino, f] : table_.files()) {
    if (f.gone || (!f.created && f.in_image)) continue;
    ext2_inode_large blank{};
    E4_EXT2(ext2fs_write_inode_full(fs_.raw(), ino, reinterpret_cast<ext2_inode*>(&blank), sizeof blank), "inode");
  }
  E4_TRY(gather_directories());
  choose_names();
  // Directories first: which names fit decides where the others go.
  for (auto& [ino, dir] : dirs_)
    if (dir.rewrite) E4_TRY(write_directory(ino));
  E4_TRY(place_leftover_names());
  std::set<Ino> todo;
  for (const auto& [ino, f] : table_.files())
    if (f.changed && !f.gone) todo.insert(ino);
  for (const auto& [ino, dir] : dirs_)
    if (dir.rewrite) todo.insert(ino);
  for (const Ino ino : todo) {
    const FileTable::File f = *E4_TRY(table_.find(ino));
    E4_TRY(write_inode(ino, f));
  }
  E4_TRY(write_orphans());
  fs_.super().s_wtime = options_.now;
  fs_.raw()->now = options_.now;
  ext2fs_mark_super_dirty(fs_.raw());
  ext2fs_mark_bb_dirty(fs_.raw());
  ext2fs_mark_ib_dirty(fs_.raw());
  E4_TRY(fs_.flush());
  return result_;
}

}  // namespace e4::replay
