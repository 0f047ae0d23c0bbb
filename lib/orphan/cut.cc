// SPDX-License-Identifier: GPL-2.0-only
#include <algorithm>

#include "base/crc32c.h"
#include "orphan/extent.h"
#include "orphan/format.h"
#include "orphan/mapping.h"

// Taking the end off a mapping. Both maps are cut from the right; a tree block
// that becomes empty goes too, and is not written: nothing points to it.
namespace e4::orphan {
namespace {

Error changed_underfoot(Blk block) {
  return make_error(ErrorKind::corrupt, "mapping is not what it was when it was checked").at_block(block);
}

class ExtentCut {
 public:
  ExtentCut(Volume& volume, std::uint32_t seed, std::uint64_t end, bool apply, Cut& out)
      : volume_(volume), seed_(seed), end_(end), apply_(apply), out_(out) {}

  Result<void> root(std::span<std::byte> i_block) {
    ExtentNode<std::byte> n(i_block);
    const std::uint32_t depth = n.header().eh_depth;
    if (depth > kExtentDepthMax) return changed_underfoot(0);
    E4_TRY(node(i_block, depth, 0));
    if (ExtentHeader h = n.header(); h.eh_entries == 0) {
      h.eh_depth = 0;
      h.eh_max = static_cast<std::uint16_t>(n.room());
      n.put_header(h);
    }
    return {};
  }

 private:
  /// Cuts inside `bytes`; true if it changed.
  Result<bool> node(std::span<std::byte> bytes, std::uint32_t depth, Blk where) {
    ExtentNode<std::byte> n(bytes);
    if (!n.header_problem(depth).empty()) return changed_underfoot(where);
    return depth == 0 ? leaf(n) : index(n, depth);
  }

  Result<bool> leaf(ExtentNode<std::byte>& n) {
    ExtentHeader h = n.header();
    const std::uint32_t before = h.eh_entries;
    std::uint32_t entries = before;
    bool changed = false;
    while (entries > 0) {
      Extent e = n.extent(entries - 1);
      const std::uint64_t first = e.ee_block;
      const std::uint32_t blocks = e.blocks();
      if (first + blocks <= end_) break;
      changed = true;
      if (first >= end_) {
        out_.runs.push_back({first, e.start(), blocks, e.unwritten()});
        --entries;
        continue;
      }
      const auto keep = static_cast<std::uint32_t>(end_ - first);
      out_.runs.push_back({end_, e.start() + keep, blocks - keep, e.unwritten()});
      e.ee_len = static_cast<std::uint16_t>(e.unwritten() ? keep + kExtentInitMax : keep);
      n.put_extent(entries - 1, e);
      break;
    }
    h.eh_entries = static_cast<std::uint16_t>(entries);
    n.put_header(h);
    return changed;
  }

  Result<bool> index(ExtentNode<std::byte>& n, std::uint32_t depth) {
    ExtentHeader h = n.header();
    std::uint32_t entries = h.eh_entries;
    bool changed = false;
    while (entries > 0) {
      const Blk block = n.index(entries - 1).leaf();
      if (!volume_.geo().block_in_range(block)) return changed_underfoot(block);
      const auto view = E4_TRY(volume_.overlay().view(block));
      std::vector<std::byte> child(view.begin(), view.end());
      const bool child_changed = E4_TRY(node(child, depth - 1, block));
      const ExtentHeader ch = ExtentNode<std::byte>(child).header();
      if (ch.eh_entries == 0) {
        out_.meta.push_back(block);
        --entries;
        changed = true;
        continue;
      }
      if (child_changed && apply_) {
        const std::size_t at = 12 + std::size_t{ch.eh_max} * 12;
        if (volume_.geo().metadata_csum() && at + 4 <= child.size())
          store<le32>(child.data(), at, crc32c(seed_, std::span<const std::byte>(child).first(at)));
        const auto to = E4_TRY(volume_.overlay().edit(block));
        std::copy(child.begin(), child.end(), to.begin());
      }
      break;
    }
    h.eh_entries = static_cast<std::uint16_t>(entries);
    n.put_header(h);
    return changed;
  }

  Volume& volume_;
  std::uint32_t seed_;
  std::uint64_t end_;
  bool apply_;
  Cut& out_;
};

class BlockMapCut {
 public:
  BlockMapCut(Volume& volume, std::uint64_t end, bool apply, Cut& out)
      : volume_(volume), end_(end), apply_(apply), out_(out) {}

  Result<void> root(std::span<std::byte> i_block) {
    const std::uint64_t per = volume_.geo().block_bytes / 4;
    for (std::uint32_t i = 0; i < 12; ++i) data(i_block, i, i);
    std::uint64_t logical = 12, span = per;
    for (std::uint32_t level = 1; level <= 3; ++level, logical += span, span *= per)
      E4_TRY(pointer(i_block, 11 + level, level, logical, span));
    return {};
  }

 private:
  void data(std::span<std::byte> table, std::uint64_t i, std::uint64_t logical) {
    const Blk block = load<le32>(table.data(), i * 4);
    if (block == 0 || logical < end_) return;
    out_.runs.push_back({logical, block, 1, false});
    store<le32>(table.data(), i * 4, 0U);
  }

  /// The indirect block that entry `i` points to, covering [logical, logical + span).
  Result<void> pointer(std::span<std::byte> table, std::uint64_t i, std::uint32_t level, std::uint64_t logical,
                       std::uint64_t span) {
    const Blk block = load<le32>(table.data(), i * 4);
    if (block == 0 || logical + span <= end_) return {};
    if (!volume_.geo().block_in_range(block)) return changed_underfoot(block);
    const auto view = E4_TRY(volume_.overlay().view(block));
    std::vector<std::byte> child(view.begin(), view.end());
    const std::uint64_t per = volume_.geo().block_bytes / 4, step = span / per;
    for (std::uint64_t k = 0; k < per; ++k) {
      if (level == 1)
        data(child, k, logical + k);
      else
        E4_TRY(pointer(child, k, level - 1, logical + k * step, step));
    }
    if (std::all_of(child.begin(), child.end(), [](std::byte b) { return b == std::byte{0}; })) {
      out_.meta.push_back(block);
      store<le32>(table.data(), i * 4, 0U);
      return {};
    }
    if (!apply_) return {};
    const auto now = E4_TRY(volume_.overlay().view(block));
    if (!std::equal(child.begin(), child.end(), now.begin())) {
      const auto to = E4_TRY(volume_.overlay().edit(block));
      std::copy(child.begin(), child.end(), to.begin());
    }
    return {};
  }

  Volume& volume_;
  std::uint64_t end_;
  bool apply_;
  Cut& out_;
};

Result<Cut> cut(Volume& volume, Ino ino, std::span<std::byte> inode, std::uint64_t end, bool apply) {
  Cut out;
  const InodeView view(inode);
  if (!view.has_mapping(volume.geo())) return out;
  const auto i_block = inode.subspan(0x28, 60);
  if (view.has_extents()) {
    const std::uint32_t seed = inode_csum_seed(volume.geo().csum_seed, ino, view.generation());
    E4_TRY(ExtentCut(volume, seed, end, apply, out).root(i_block));
  } else {
    E4_TRY(BlockMapCut(volume, end, apply, out).root(i_block));
  }
  // Right to left it was cut; left to right it is given back, so that a shared cluster is met by neighbours.
  std::sort(out.runs.begin(), out.runs.end(), [](const Run& a, const Run& b) { return a.logical < b.logical; });
  return out;
}

}  // namespace

Result<Cut> cut_mapping(Volume& volume, Ino ino, std::span<std::byte> inode, std::uint64_t end) {
  return cut(volume, ino, inode, end, true);
}

Result<Cut> measure_cut(Volume& volume, Ino ino, std::span<const std::byte> inode, std::uint64_t end) {
  std::vector<std::byte> scratch(inode.begin(), inode.end());
  return cut(volume, ino, scratch, end, false);
}

}  // namespace e4::orphan
