// SPDX-License-Identifier: GPL-2.0-only
#include "journal/fc_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_set>

#include "base/assert.h"
#include "base/crc32c.h"
#include "base/endian.h"

namespace e4::journal {

namespace {

// Inodes from libext2fs come in host order, records in the disk's.
static_assert(std::endian::native == std::endian::little, "inode records would need swapping");

constexpr std::uint16_t kExtentMagic = 0xF30A;
constexpr std::uint32_t kHeaderBytes = 12, kEntryBytes = 12, kRootEntries = 4;
constexpr std::uint32_t kMaxWritten = 32768, kMaxUnwritten = 32767;
constexpr std::size_t kBlockAt = offsetof(ext2_inode, i_block), kBlockBytes = 60;
constexpr std::size_t kGenerationAt = offsetof(ext2_inode, i_generation);

Error bad(Ino ino, std::string text, Where where = Where::here()) {
  return make_error(ErrorKind::corrupt, std::move(text), 0, where).at_inode(ino);
}

void write_header(std::byte* node, std::size_t entries, std::uint32_t max, int depth) {
  store<le16>(node, 0, kExtentMagic);
  store<le16>(node, 2, entries);
  store<le16>(node, 4, max);
  store<le16>(node, 6, depth);
  store<le32>(node, 8, 0);
}

struct Entry {
  Lblk lblk;
  std::uint16_t len;  // leaf: with the unwritten mark; index: unused
  Blk target;
};

void write_entry(std::byte* p, const Entry& e, bool leaf) {
  store<le32>(p, 0, e.lblk);
  if (leaf) {
    store<le16>(p, 4, e.len);
    store<le16>(p, 6, static_cast<std::uint16_t>(e.target >> 32));
    store<le32>(p, 8, static_cast<std::uint32_t>(e.target));
  } else {
    store<le32>(p, 4, static_cast<std::uint32_t>(e.target));
    store<le16>(p, 8, static_cast<std::uint16_t>(e.target >> 32));
    store<le16>(p, 10, 0);
  }
}

std::vector<Entry> leaf_entries(const std::vector<MappedExtent>& list) {
  std::vector<Entry> entries;
  for (const MappedExtent& e : list) {
    const std::uint32_t most = e.unwritten ? kMaxUnwritten : kMaxWritten;
    for (std::uint32_t done = 0; done < e.blocks;) {
      const std::uint32_t n = std::min(most, e.blocks - done);
      entries.push_back({.lblk = e.lblk + done,
                         .len = static_cast<std::uint16_t>(e.unwritten ? n + kMaxWritten : n),
                         .target = e.physical + done});
      done += n;
    }
  }
  return entries;
}

bool maps_blocks(ext2_inode* inode) {
  if (inode->i_flags & EXT4_INLINE_DATA_FL) return false;
  if (LINUX_S_ISREG(inode->i_mode) || LINUX_S_ISDIR(inode->i_mode)) return true;
  return LINUX_S_ISLNK(inode->i_mode) && !ext2fs_is_fast_symlink(inode);
}

}  // namespace

Result<void> FcFiles::check_number(Ino ino) const {
  const ext2_super_block& super = fs_.super();
  if (ino == 0 || ino > super.s_inodes_count) return bad(ino, "inode number out of range");
  const bool reserved = ino < EXT2_FIRST_INO(&super) && ino != EXT2_ROOT_INO;
  if (reserved || ino == super.s_journal_inum || ino == super.s_usr_quota_inum || ino == super.s_grp_quota_inum ||
      ino == super.s_prj_quota_inum ||
      ((super.s_feature_compat & EXT4_FEATURE_COMPAT_ORPHAN_FILE) != 0 && ino == super.s_orphan_file_inum)) {
    return bad(ino, "fast commits never concern this inode");
  }
  return {};
}

Result<std::unique_ptr<FcFile>> FcFiles::read(Ino ino) {
  auto file = std::make_unique<FcFile>();
  file->ino = ino;
  file->raw.resize(std::max<std::size_t>(EXT2_INODE_SIZE(&fs_.super()), sizeof(ext2_inode_large)));
  E4_EXT2(ext2fs_read_inode2(fs_.raw(), ino, file->base(), static_cast<int>(EXT2_INODE_SIZE(&fs_.super())),
                             READ_INODE_NOCSUM),
          "fast commits: reading an inode");
  return file;
}

Result<void> FcFiles::read_map(FcFile& file) {
  file.map = {};
  file.map_changed = false;
  file.has_extents = (file.node().i_flags & EXT4_EXTENTS_FL) != 0;
  if (!maps_blocks(file.base())) return {};
  MapSource source{.i_block = std::span<const std::byte, kBlockBytes>(file.raw.data() + kBlockAt, kBlockBytes),
                   .ino = file.ino,
                   .block_bytes = fs_.block_bytes(),
                   .fs_blocks = ext2fs_blocks_count(&fs_.super())};
  const bool magic = load<le16>(file.raw.data(), kBlockAt) == kExtentMagic;
  if (magic != file.has_extents) return bad(file.ino, "block map and flags of the inode disagree");
  if (ext2fs_has_feature_metadata_csum(&fs_.super())) {
    source.tree_seed = crc32c_le32(crc32c_le32(fs_.csum_seed(), file.ino), file.node().i_generation);
  }
  file.map = E4_TRY(map_file(fs_.device(), source));
  file.extents = ExtentList(file.map.extents);
  return {};
}

Result<FcFile*> FcFiles::touch(Ino ino) {
  if (const auto it = files_.find(ino); it != files_.end()) return it->second.get();
  E4_TRY(check_number(ino));
  if (!ext2fs_test_inode_bitmap2(fs_.raw()->inode_map, ino)) return bad(ino, "inode is not in use");
  std::unique_ptr<FcFile> file = E4_TRY(read(ino));
  E4_TRY(read_map(*file));
  space_.held(file->map);
  return files_.emplace(ino, std::move(file)).first->second.get();
}

Result<FcFile*> FcFiles::replace(Ino ino, std::span<const std::byte> record) {
  E4_TRY(check_number(ino));
  const std::size_t inode_bytes = EXT2_INODE_SIZE(&fs_.super());
  ext2_inode_large wanted{};
  std::memcpy(&wanted, record.data(), std::min(record.size(), sizeof wanted));
  if (inode_bytes > EXT2_GOOD_OLD_INODE_SIZE && record.size() > EXT2_GOOD_OLD_INODE_SIZE &&
      (wanted.i_extra_isize > inode_bytes - EXT2_GOOD_OLD_INODE_SIZE || wanted.i_extra_isize % 4 != 0)) {
    return bad(ino, "record with a bad i_extra_isize");
  }
  if (wanted.i_mode == 0) return bad(ino, "record of an inode without a mode");
  const bool in_use = ext2fs_test_inode_bitmap2(fs_.raw()->inode_map, ino) != 0;
  const bool known = files_.contains(ino);
  std::unique_ptr<FcFile> fresh;
  FcFile* file = nullptr;
  bool was_dir = false;
  if (known || in_use) {
    if (known) {
      file = files_.at(ino).get();
    } else {
      fresh = E4_TRY(read(ino));
      file = fresh.get();
    }
    was_dir = file->is_dir();
    // Another generation: the number was used again since, and map and
    // attributes in the inode are those of a file that is gone. (No record
    // tells of it if it was an orphan already when the log ended.)
    const bool same = file->node().i_generation == wanted.i_generation;
    if (!known) {
      const Result<void> mapped = read_map(*file);
      if (mapped) space_.held(file->map);
      else if (same) return mapped.error();
    }
    if (!same) {
      E4_TRY(forget(*file));
      std::ranges::fill(file->raw, std::byte{0});
    }
  } else {
    fresh = std::make_unique<FcFile>();
    fresh->ino = ino;
    fresh->raw.assign(std::max(inode_bytes, sizeof(ext2_inode_large)), std::byte{0});
    file = fresh.get();
  }

  std::byte* raw = file->raw.data();
  std::memcpy(raw, record.data(), kBlockAt);
  std::memcpy(raw + kGenerationAt, record.data() + kGenerationAt, record.size() - kGenerationAt);
  ext2_inode* node = file->base();
  file->has_extents = (node->i_flags & EXT4_EXTENTS_FL) != 0;
  if (node->i_flags & EXT4_INLINE_DATA_FL) {
    std::memcpy(raw + kBlockAt, record.data() + kBlockAt, kBlockBytes);
    file->has_extents = false;
    file->extents = {};
    file->map = {};
  } else if (node->i_flags & EXT4_EXTENTS_FL) {
    if (load<le16>(raw, kBlockAt) != kExtentMagic) {
      std::memset(raw + kBlockAt, 0, kBlockBytes);
      write_header(raw + kBlockAt, 0, kRootEntries, 0);
      file->extents = {};
      file->map = {};
    }
  } else if (!LINUX_S_ISREG(node->i_mode) && !LINUX_S_ISDIR(node->i_mode)) {
    // A short symlink's target or a device number; the kernel forgets these.
    std::memcpy(raw + kBlockAt, record.data() + kBlockAt, kBlockBytes);
  }
  if (!in_use && !ext2fs_test_inode_bitmap2(fs_.raw()->inode_map, ino)) {
    ext2fs_inode_alloc_stats2(fs_.raw(), ino, +1, file->is_dir() ? 1 : 0);
  } else if (was_dir != file->is_dir()) {
    const dgrp_t group = ext2fs_group_of_ino(fs_.raw(), ino);
    const std::uint32_t dirs = ext2fs_bg_used_dirs_count(fs_.raw(), group);
    ext2fs_bg_used_dirs_count_set(fs_.raw(), group, file->is_dir() ? dirs + 1 : dirs - std::min(dirs, 1U));
    ext2fs_group_desc_csum_set(fs_.raw(), group);
    ext2fs_mark_super_dirty(fs_.raw());
  }
  if (fresh) files_.emplace(ino, std::move(fresh));
  E4_TRY(sync(*file));
  return file;
}

// The blocks were noted as held: settle() gives back what nobody holds in the end.
Result<void> FcFiles::forget(FcFile& file) {
  file.extents = {};
  file.map = {};
  file.map_changed = false;
  file.entries_changed = false;
  const Blk acl = ext2fs_file_acl_block(fs_.raw(), file.base());
  if (acl == 0 || !space_.may_hold_data(acl, 1) || !ext2fs_test_block_bitmap2(fs_.raw()->block_map, acl)) return {};
  std::vector<char> block(fs_.block_bytes());
  __u32 users = 0;
  E4_EXT2(ext2fs_adjust_ea_refcount3(fs_.raw(), acl, block.data(), -1, &users, file.ino),
          "fast commits: releasing an attribute block");
  if (users == 0) ext2fs_block_alloc_stats2(fs_.raw(), acl, -1);
  return {};
}

Result<void> FcFiles::reload(FcFile& file) {
  std::unique_ptr<FcFile> again = E4_TRY(read(file.ino));
  file.raw = std::move(again->raw);
  E4_TRY(read_map(file));
  space_.held(file.map);
  return {};
}

Result<void> FcFiles::sync(FcFile& file) {
  if (file.map_changed) E4_TRY(write_tree(file));
  E4_EXT2(ext2fs_write_inode_full(fs_.raw(), file.ino, file.base(), static_cast<int>(EXT2_INODE_SIZE(&fs_.super()))),
          "fast commits: writing an inode");
  return {};
}

// Builds the tree anew from the list, leaves first, in the old tree's blocks
// as far as they go.
Result<void> FcFiles::write_tree(FcFile& file) {
  const std::uint32_t bs = fs_.block_bytes();
  const std::uint32_t per_node = (bs - kHeaderBytes) / kEntryBytes;
  const bool checksums = ext2fs_has_feature_metadata_csum(&fs_.super());
  const std::uint32_t seed = crc32c_le32(crc32c_le32(fs_.csum_seed(), file.ino), file.node().i_generation);
  std::vector<Blk> spare = std::move(file.map.tree);
  std::vector<Blk> tree;
  std::vector<Entry> entries = leaf_entries(file.extents.list());
  Blk goal = entries.empty() ? 0 : entries[0].target;
  int depth = 0;
  while (entries.size() > kRootEntries) {
    std::vector<Entry> parents;
    std::vector<std::byte> node(bs);
    for (std::size_t i = 0; i < entries.size(); i += per_node) {
      const std::size_t n = std::min<std::size_t>(per_node, entries.size() - i);
      if (spare.empty()) {
        spare.push_back(E4_TRY(space_.allocate(goal)));
      }
      const Blk block = spare.back();
      spare.pop_back();
      tree.push_back(block);
      std::ranges::fill(node, std::byte{0});
      write_header(node.data(), n, per_node, depth);
      for (std::size_t k = 0; k < n; ++k) {
        write_entry(node.data() + kHeaderBytes + k * kEntryBytes, entries[i + k], depth == 0);
      }
      if (checksums) {
        const std::size_t covered = kHeaderBytes + std::size_t{per_node} * kEntryBytes;
        store<le32>(node.data(), covered, crc32c(seed, node.data(), covered));
      }
      E4_TRY(fs_.device().write(block * bs, node));
      parents.push_back({.lblk = entries[i].lblk, .len = 0, .target = block});
    }
    entries = std::move(parents);
    ++depth;
  }
  std::byte* root = file.raw.data() + kBlockAt;
  std::memset(root, 0, kBlockBytes);
  write_header(root, entries.size(), kRootEntries, depth);
  for (std::size_t k = 0; k < entries.size(); ++k) {
    write_entry(root + kHeaderBytes + k * kEntryBytes, entries[k], depth == 0);
  }
  file.map.extents = file.extents.list();
  file.map.tree = std::move(tree);
  file.map_changed = false;
  return {};
}

void FcFiles::count_blocks(FcFile& file) {
  const int ratio_bits = fs_.raw()->cluster_ratio_bits;
  std::uint64_t clusters = 0;
  Blk last = ~Blk{0};  // a cluster may be split over two extents in a row
  for (const MappedExtent& e : file.map.extents) {
    const Blk from = e.physical >> ratio_bits, to = (e.physical + e.blocks - 1) >> ratio_bits;
    clusters += to - from + 1 - (from == last ? 1 : 0);
    last = to;
  }
  std::unordered_set<Blk> tree;
  for (const Blk b : file.map.tree) tree.insert(b >> ratio_bits);
  clusters += tree.size();
  if (ext2fs_file_acl_block(fs_.raw(), file.base()) != 0) ++clusters;
  const std::uint64_t blocks = clusters << ratio_bits;
  const std::uint64_t units = (file.node().i_flags & EXT4_HUGE_FILE_FL) ? blocks : blocks * (fs_.block_bytes() / 512);
  file.node().i_blocks = static_cast<std::uint32_t>(units);
  if (ext2fs_has_feature_huge_file(&fs_.super())) {
    file.node().osd2.linux2.l_i_blocks_hi = static_cast<std::uint16_t>(units >> 32);
  }
}

BlockSet FcFiles::held() {
  BlockSet set;
  for (const auto& [ino, file] : files_) {
    set.add(file->map);
    const Blk acl = ext2fs_file_acl_block(fs_.raw(), file->base());
    if (acl != 0 && space_.may_hold_data(acl, 1)) set.add(acl);
  }
  return set;
}

}  // namespace e4::journal
