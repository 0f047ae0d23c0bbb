// SPDX-License-Identifier: GPL-2.0-only
#include "orphan/mapping.h"

#include <unordered_set>

#include "base/crc32c.h"
#include "orphan/extent.h"
#include "orphan/format.h"

namespace e4::orphan {
namespace {

/// Where a file's logical numbers end: 32 bits for extents.
constexpr std::uint64_t kLogicalEnd = std::uint64_t{1} << 32;

class ExtentWalk {
 public:
  ExtentWalk(Volume& volume, Ino ino, const InodeView& inode, Mapping& out)
      : volume_(volume), geo_(volume.geo()), seed_(inode_csum_seed(geo_.csum_seed, ino, inode.generation())), out_(out) {}

  Result<void> root(std::span<const std::byte> bytes) {
    const std::uint32_t depth = ExtentNode<const std::byte>(bytes).header().eh_depth;
    if (depth > kExtentDepthMax) {
      out_.problem = "extent tree deeper than 5";
      return {};
    }
    return node(bytes, depth, 0, kLogicalEnd);
  }

 private:
  /// Entries must lie in [low, high) and grow: with that a block reached twice cannot fit both places.
  Result<void> node(std::span<const std::byte> bytes, std::uint32_t depth, std::uint64_t low, std::uint64_t high) {
    const ExtentNode<const std::byte> n(bytes);
    if (out_.problem = n.header_problem(depth); !out_.ok()) return {};
    return depth == 0 ? leaf(n, low, high) : index(n, depth, low, high);
  }

  Result<void> leaf(const ExtentNode<const std::byte>& n, std::uint64_t low, std::uint64_t high) {
    const std::uint32_t entries = n.header().eh_entries;
    for (std::uint32_t i = 0; i < entries; ++i) {
      const Extent e = n.extent(i);
      const std::uint32_t blocks = e.blocks();
      if (blocks == 0) return fail("extent of length 0");
      if (e.ee_block < low) return fail("extents out of order");
      if (e.ee_block + std::uint64_t{blocks} > high) return fail("extent past the range of its node");
      if (!geo_.block_in_range(e.start()) || blocks > geo_.blocks_count - e.start())
        return fail("extent outside the file system");
      out_.runs.push_back({e.ee_block, e.start(), blocks, e.unwritten()});
      low = e.ee_block + std::uint64_t{blocks};
    }
    return {};
  }

  Result<void> index(const ExtentNode<const std::byte>& n, std::uint32_t depth, std::uint64_t low, std::uint64_t high) {
    const std::uint32_t entries = n.header().eh_entries;
    for (std::uint32_t i = 0; i < entries; ++i) {
      const ExtentIndex x = n.index(i);
      const std::uint64_t end = i + 1 < entries ? std::uint64_t{n.index(i + 1).ei_block} : high;
      if (x.ei_block < low || x.ei_block >= end || end > high) return fail("extent index out of order");
      if (!geo_.block_in_range(x.leaf())) return fail("extent tree block outside the file system");
      if (out_.meta.size() >= geo_.blocks_count) return fail("extent tree larger than the file system");
      out_.meta.push_back(x.leaf());
      const auto view = E4_TRY(volume_.overlay().view(x.leaf()));
      const std::vector<std::byte> child(view.begin(), view.end());
      if (geo_.metadata_csum() && !checksum_ok(child)) return fail("extent tree block with a wrong checksum");
      E4_TRY(node(child, depth - 1, x.ei_block, end));
      if (!out_.ok()) return {};
      low = end;
    }
    return {};
  }

  [[nodiscard]] bool checksum_ok(std::span<const std::byte> block) const {
    const ExtentHeader h = ExtentNode<const std::byte>(block).header();
    const std::size_t at = 12 + std::size_t{h.eh_max} * 12;
    if (at + 4 > block.size()) return false;
    return load<le32>(block.data(), at) == crc32c(seed_, block.first(at));
  }

  Result<void> fail(const char* what) {
    out_.problem = what;
    return {};
  }

  Volume& volume_;
  const Geometry& geo_;
  std::uint32_t seed_;
  Mapping& out_;
};

class BlockMapWalk {
 public:
  BlockMapWalk(Volume& volume, Mapping& out) : volume_(volume), geo_(volume.geo()), out_(out) {}

  Result<void> root(std::span<const std::byte> i_block) {
    for (std::uint32_t i = 0; i < 12 && out_.ok(); ++i) data(i, load<le32>(i_block.data(), i * 4));
    const std::uint64_t per = geo_.block_bytes / 4;
    std::uint64_t logical = 12, span = per;
    for (std::uint32_t level = 1; level <= 3 && out_.ok(); ++level) {
      const Blk block = load<le32>(i_block.data(), (11 + level) * 4);
      if (block != 0) E4_TRY(indirect(block, level, logical, span));
      logical += span;
      span *= per;
    }
    return {};
  }

 private:
  void data(std::uint64_t logical, Blk block) {
    if (block == 0) return;
    if (!geo_.block_in_range(block)) {
      out_.problem = "block number outside the file system";
      return;
    }
    if (!out_.runs.empty()) {
      Run& last = out_.runs.back();
      if (last.logical + last.blocks == logical && last.physical + last.blocks == block && last.blocks < kExtentInitMax) {
        ++last.blocks;
        return;
      }
    }
    out_.runs.push_back({logical, block, 1, false});
  }

  /// `span`: logical blocks that everything below `block` covers.
  Result<void> indirect(Blk block, std::uint32_t level, std::uint64_t logical, std::uint64_t span) {
    if (!geo_.block_in_range(block)) {
      out_.problem = "indirect block outside the file system";
      return {};
    }
    if (!seen_.insert(block).second) {
      out_.problem = "indirect block reached twice";
      return {};
    }
    out_.meta.push_back(block);
    const auto view = E4_TRY(volume_.overlay().view(block));
    const std::vector<std::byte> pointers(view.begin(), view.end());
    const std::uint64_t per = geo_.block_bytes / 4, step = span / per;
    for (std::uint64_t i = 0; i < per && out_.ok(); ++i, logical += step) {
      const Blk next = load<le32>(pointers.data(), i * 4);
      if (next == 0) continue;
      if (level == 1)
        data(logical, next);
      else
        E4_TRY(indirect(next, level - 1, logical, step));
    }
    return {};
  }

  Volume& volume_;
  const Geometry& geo_;
  Mapping& out_;
  std::unordered_set<Blk> seen_;
};

}  // namespace

void Mapping::clear() {
  runs.clear();
  meta.clear();
  problem.clear();
}

std::uint64_t end_block(const Geometry& geo, std::uint64_t size_bytes) {
  return size_bytes / geo.block_bytes + (size_bytes % geo.block_bytes != 0 ? 1 : 0);
}

Result<void> walk_mapping(Volume& volume, Ino ino, const InodeView& inode, Mapping& out) {
  out.clear();
  if (!inode.has_mapping(volume.geo())) return {};
  std::byte i_block[60];  // the inode's span does not outlive the first tree block
  std::memcpy(i_block, inode.i_block().data(), sizeof i_block);
  if (inode.has_extents()) {
    if (!volume.geo().has_extents()) {
      out.problem = "extents without the feature";
      return {};
    }
    return ExtentWalk(volume, ino, inode, out).root(i_block);
  }
  return BlockMapWalk(volume, out).root(i_block);
}

}  // namespace e4::orphan
