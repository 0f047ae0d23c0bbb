// SPDX-License-Identifier: GPL-2.0-only
#include "replay/map_writer.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "base/endian.h"

namespace e4::replay {
namespace {

using image::Filsys;

constexpr std::uint32_t kHeaderBytes = 12, kEntryBytes = 12;

Result<Blk> take_free_block(Filsys& fs) {
  blk64_t b = 0;
  E4_EXT2(ext2fs_new_block2(fs.raw(), 0, fs.raw()->block_map, &b), "no free block for a map block");
  ext2fs_block_alloc_stats2(fs.raw(), b, +1);
  return b;
}

/// i_blocks of what is mapped: data clusters once each, a whole cluster for each map block.
std::uint64_t count_512(Filsys& fs, const std::vector<MappedRun>& runs, std::uint64_t map_blocks) {
  const std::uint64_t ratio = EXT2FS_CLUSTER_RATIO(fs.raw());
  std::uint64_t clusters = map_blocks;
  if (ratio == 1) {
    for (const auto& r : runs) clusters += r.len_blocks;
  } else {
    std::set<Blk> seen;
    for (const auto& r : runs)
      for (Blk c = r.pblk / ratio; c <= (r.pblk + r.len_blocks - 1) / ratio; ++c) seen.insert(c);
    clusters += seen.size();
  }
  return clusters * ratio * (fs.block_bytes() / 512);
}

void put_header(std::byte* at, std::uint32_t entries, std::uint32_t max, std::uint32_t depth) {
  store<le16>(at, 0, 0xF30AU);
  store<le16>(at, 2, entries);
  store<le16>(at, 4, max);
  store<le16>(at, 6, depth);
  store<le32>(at, 8, 0U);
}

void put_run(std::byte* at, const MappedRun& r) {
  store<le32>(at, 0, r.lblk);
  store<le16>(at, 4, r.unwritten ? r.len_blocks + 32768 : r.len_blocks);
  store<le16>(at, 6, static_cast<std::uint32_t>(r.pblk >> 32));
  store<le32>(at, 8, static_cast<std::uint32_t>(r.pblk));
}

void put_index(std::byte* at, Lblk lblk, Blk child) {
  store<le32>(at, 0, lblk);
  store<le32>(at, 4, static_cast<std::uint32_t>(child));
  store<le16>(at, 8, static_cast<std::uint32_t>(child >> 32));
  store<le16>(at, 10, 0U);
}

struct Child {
  Lblk lblk;
  Blk block;
};

}  // namespace

Result<MapResult> write_extent_map(Filsys& fs, Ino ino, ext2_inode_large& inode, const OwnedBlocks& owned,
                                   Lblk size_blocks) {
  const std::uint32_t bs = fs.block_bytes();
  const std::uint32_t capacity = (bs - kHeaderBytes) / kEntryBytes;
  const auto ratio = static_cast<std::uint32_t>(EXT2FS_CLUSTER_RATIO(fs.raw()));
  TreePlan plan = plan_tree(owned.runs, owned.meta, owned.loose, size_blocks, capacity, ratio);
  if (plan.extra_needed != 0) {
    // The size the trace told splits runs that the kernel had whole: let the
    // file reach to its last block, which needs the fewest entries there can be.
    Lblk end = size_blocks;
    for (const auto& r : owned.runs) end = std::max<Lblk>(end, r.lblk + r.len_blocks);
    plan = plan_tree(owned.runs, owned.meta, owned.loose, end, capacity, ratio);
  }
  std::uint64_t map_blocks = 0;
  for (auto& level : plan.levels) {
    map_blocks += level.size();
    for (Blk& b : level)
      if (b == 0) b = E4_TRY(take_free_block(fs));
  }
  // Leaves first, then the index levels over them, the root last.
  std::vector<Child> children;
  const auto depth = static_cast<std::uint32_t>(plan.levels.size());
  for (std::uint32_t up = 0; up < depth; ++up) {
    const auto& level = plan.levels[depth - 1 - up];
    const std::size_t entries = up == 0 ? plan.runs.size() : children.size();
    std::vector<Child> parents;
    std::size_t next = 0;
    for (std::size_t i = 0; i < level.size(); ++i) {
      const std::size_t count = (entries - next + (level.size() - i) - 1) / (level.size() - i);  // even shares
      std::vector<std::byte> block(bs);
      put_header(block.data(), static_cast<std::uint32_t>(count), capacity, up);
      parents.push_back({up == 0 ? plan.runs[next].lblk : children[next].lblk, level[i]});
      for (std::size_t k = 0; k < count; ++k, ++next) {
        std::byte* at = block.data() + kHeaderBytes + kEntryBytes * k;
        if (up == 0)
          put_run(at, plan.runs[next]);
        else
          put_index(at, children[next].lblk, children[next].block);
      }
      E4_EXT2(ext2fs_extent_block_csum_set(fs.raw(), ino, reinterpret_cast<ext3_extent_header*>(block.data())),
              "extent block");
      E4_TRY(fs.device().write(level[i] * bs, block));
    }
    children = std::move(parents);
  }
  auto* root = reinterpret_cast<std::byte*>(inode.i_block);
  std::memset(root, 0, sizeof inode.i_block);
  put_header(root, static_cast<std::uint32_t>(depth == 0 ? plan.runs.size() : children.size()), 4, depth);
  for (std::size_t k = 0; depth == 0 && k < plan.runs.size(); ++k)
    put_run(root + kHeaderBytes + kEntryBytes * k, plan.runs[k]);
  for (std::size_t k = 0; depth != 0 && k < children.size(); ++k)
    put_index(root + kHeaderBytes + kEntryBytes * k, children[k].lblk, children[k].block);
  inode.i_flags |= EXT4_EXTENTS_FL;
  MapResult r;
  for (const auto& run : plan.runs)
    if (!run.unwritten) r.written_lblk_end = std::uint64_t{run.lblk} + run.len_blocks;
  if (!plan.runs.empty()) r.last_lblk_end = std::uint64_t{plan.runs.back().lblk} + plan.runs.back().len_blocks;
  r.blocks_512 = count_512(fs, plan.runs, map_blocks);
  r.extra_blocks = plan.extra_needed;
  return r;
}

namespace {

/// A block of pointers, sparse while it is built.
struct Pointers {
  Blk block = 0;
  std::map<std::uint32_t, Blk> leaves;                        // lowest level: data blocks
  std::map<std::uint32_t, std::unique_ptr<Pointers>> below;   // other levels
};

std::uint64_t count_nodes(const Pointers& p) {
  std::uint64_t n = 1;
  for (const auto& [i, child] : p.below) n += count_nodes(*child);
  return n;
}

/// The tree under one of the three indirect slots of an inode.
class IndirectTree {
 public:
  explicit IndirectTree(std::uint32_t per_block) : per_block_(per_block) {}
  bool add(std::uint64_t lblk, Blk pblk, std::uint32_t (&direct)[12]) {
    if (lblk < 12) {
      direct[lblk] = static_cast<std::uint32_t>(pblk);
      return true;
    }
    lblk -= 12;
    std::uint64_t span = per_block_;
    for (int level = 0; level < 3; ++level, span *= per_block_) {
      if (lblk < span) {
        put(tops_[level], level, lblk, pblk);
        return true;
      }
      lblk -= span;
    }
    return false;  // past what three levels can map
  }
  [[nodiscard]] std::uint64_t nodes() const {
    std::uint64_t n = 0;
    for (const auto& t : tops_)
      if (t) n += count_nodes(*t);
    return n;
  }
  std::unique_ptr<Pointers> tops_[3];

 private:
  void put(std::unique_ptr<Pointers>& node, int level, std::uint64_t index, Blk pblk) {
    if (!node) node = std::make_unique<Pointers>();
    if (level == 0) {
      node->leaves[static_cast<std::uint32_t>(index)] = pblk;
      return;
    }
    std::uint64_t span = 1;
    for (int i = 0; i < level; ++i) span *= per_block_;
    put(node->below[static_cast<std::uint32_t>(index / span)], level - 1, index % span, pblk);
  }
  std::uint32_t per_block_;
};

Result<void> write_pointers(Filsys& fs, Pointers& p, std::vector<Blk>& meta, MapResult& result) {
  if (meta.empty()) {
    p.block = E4_TRY(take_free_block(fs));
    ++result.extra_blocks;
  } else {
    p.block = meta.back();
    meta.pop_back();
  }
  std::vector<std::byte> block(fs.block_bytes());
  for (const auto& [i, b] : p.leaves) store<le32>(block.data(), std::size_t{4} * i, static_cast<std::uint32_t>(b));
  for (auto& [i, child] : p.below) {
    E4_TRY(write_pointers(fs, *child, meta, result));
    store<le32>(block.data(), std::size_t{4} * i, static_cast<std::uint32_t>(child->block));
  }
  return fs.device().write(p.block * fs.block_bytes(), block);
}

}  // namespace

Result<MapResult> write_indirect_map(Filsys& fs, Ino ino, ext2_inode_large& inode, const OwnedBlocks& owned) {
  const std::uint32_t per_block = fs.block_bytes() / 4;
  std::map<std::uint64_t, Blk> blocks;
  std::vector<MappedRun> loose = owned.loose;
  for (const auto& r : owned.runs)
    for (std::uint32_t i = 0; i < r.len_blocks; ++i)
      if (!blocks.emplace(std::uint64_t{r.lblk} + i, r.pblk + i).second) loose.push_back({0, r.pblk + i, 1, false});
  std::vector<Blk> meta = owned.meta;
  std::sort(meta.rbegin(), meta.rend());
  auto append = [&](Blk b) { blocks.emplace(blocks.empty() ? 0 : blocks.rbegin()->first + 1, b); };
  for (const auto& r : loose)
    for (std::uint32_t i = 0; i < r.len_blocks; ++i) append(r.pblk + i);
  for (;;) {
    IndirectTree tree(per_block);
    std::uint32_t direct[12] = {};
    for (const auto& [lblk, pblk] : blocks)
      if (!tree.add(lblk, pblk, direct))
        return make_error(ErrorKind::corrupt, "a block lies past what an indirect map can hold").at_inode(ino);
    if (tree.nodes() < meta.size()) {  // what the map does not need becomes the file's next block
      append(meta.front());
      meta.erase(meta.begin());
      continue;
    }
    MapResult r;
    r.blocks_512 = (blocks.size() + tree.nodes()) * (fs.block_bytes() / 512);
    for (int i = 0; i < 12; ++i) inode.i_block[i] = direct[i];
    for (int i = 0; i < 3; ++i) {
      if (tree.tops_[i]) E4_TRY(write_pointers(fs, *tree.tops_[i], meta, r));
      inode.i_block[12 + i] = tree.tops_[i] ? static_cast<std::uint32_t>(tree.tops_[i]->block) : 0;
    }
    inode.i_flags &= ~static_cast<std::uint32_t>(EXT4_EXTENTS_FL);
    if (!blocks.empty()) r.last_lblk_end = blocks.rbegin()->first + 1;
    return r;
  }
}

}  // namespace e4::replay
