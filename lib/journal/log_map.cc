// SPDX-License-Identifier: GPL-2.0-only
#include "journal/log_map.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_set>

#include "base/crc32c.h"
#include "base/endian.h"

namespace e4::journal {

namespace {

constexpr std::uint16_t kExtentMagic = 0xF30A;
constexpr std::uint32_t kHeaderBytes = 12, kEntryBytes = 12;
constexpr int kMaxDepth = 5;
constexpr std::uint32_t kInitMaxLen = 32768;  // longer: unwritten
// A journal of 1 GiB in single 4 KiB blocks has 2^18 pieces. The limit keeps a
// crafted map from filling memory.
constexpr std::size_t kMaxRuns = std::size_t{1} << 20;

class Walk {
 public:
  Walk(image::Device& device, const MapSource& source) : device_(device), source_(source) {}

  Result<FileMap> run() {
    if (load<le16>(source_.i_block.data()) == kExtentMagic) {
      const int depth = load<le16>(source_.i_block.data(), 6);
      E4_TRY(extents(source_.i_block, depth, 0));
    } else {
      E4_TRY(block_map());
    }
    map_.mapped = next_;
    return std::move(map_);
  }

 private:
  Error bad(const std::string& text, Blk block, Where where = Where::here()) const {
    Error e = make_error(ErrorKind::corrupt, "journal: " + text, 0, where);
    e.ino = source_.ino;
    if (block != 0) e.block = block;
    return e;
  }

  [[nodiscard]] bool done() const { return hole_ || next_ >= source_.file_blocks; }

  // Takes over `count` blocks mapped at file block `lblk`.
  Result<void> add(std::uint32_t lblk, std::uint64_t count, Blk physical, bool written) {
    if (done()) return {};
    if (lblk > next_ || physical == 0 || !written) {
      hole_ = true;
      return {};
    }
    if (lblk < next_) return bad(fmt::format("file block {} is mapped twice", lblk), 0);
    if (physical >= source_.fs_blocks || count > source_.fs_blocks - physical) {
      return bad(fmt::format("file block {} lies outside the file system", lblk), physical);
    }
    count = std::min<std::uint64_t>(count, source_.file_blocks - next_);
    const auto n = static_cast<std::uint32_t>(count);
    if (!map_.runs.empty() && map_.runs.back().physical + map_.runs.back().blocks == physical) {
      map_.runs.back().blocks += n;
    } else {
      if (map_.runs.size() >= kMaxRuns) return bad("in too many pieces", 0);
      map_.runs.push_back({.log_block = next_, .blocks = n, .physical = physical});
    }
    next_ += n;
    return {};
  }

  Result<std::vector<std::byte>> tree_block(Blk block) {
    if (block == 0 || block >= source_.fs_blocks) return bad("mapping block outside the file system", block);
    if (!seen_.insert(block).second) return bad("mapping block is used twice", block);
    map_.tree.push_back(block);
    std::vector<std::byte> data(source_.block_bytes);
    E4_TRY(device_.read(block * source_.block_bytes, data));
    return data;
  }

  Result<void> extents(std::span<const std::byte> node, int depth, Blk where) {
    const std::uint32_t entries = load<le16>(node.data(), 2), max = load<le16>(node.data(), 4);
    if (load<le16>(node.data()) != kExtentMagic || load<le16>(node.data(), 6) != depth || depth > kMaxDepth ||
        max > (node.size() - kHeaderBytes) / kEntryBytes || entries > max) {
      return bad("bad extent header", where);
    }
    if (where != 0 && source_.tree_seed) {
      const std::size_t covered = kHeaderBytes + std::size_t{max} * kEntryBytes;
      if (covered + 4 > node.size() ||
          crc32c(*source_.tree_seed, node.first(covered)) != load<le32>(node.data(), covered)) {
        return bad("bad extent block checksum", where);
      }
    }
    for (std::uint32_t i = 0; i < entries && !done(); ++i) {
      const std::byte* e = node.data() + kHeaderBytes + std::size_t{i} * kEntryBytes;
      if (depth > 0) {
        const Blk child = load<le32>(e, 4) | static_cast<Blk>(load<le16>(e, 8)) << 32;
        const std::vector<std::byte> block = E4_TRY(tree_block(child));
        E4_TRY(extents(block, depth - 1, child));
        continue;
      }
      const std::uint32_t len = load<le16>(e, 4);
      const Blk physical = load<le32>(e, 8) | static_cast<Blk>(load<le16>(e, 6)) << 32;
      if (len == 0) return bad("extent of length 0", where);
      const bool written = len <= kInitMaxLen;
      E4_TRY(add(load<le32>(e), written ? len : len - kInitMaxLen, physical, written));
    }
    return {};
  }

  // One (in)direct pointer; `level` 0 is data.
  Result<void> pointer(Blk block, int level) {
    if (done()) return {};
    if (level == 0) return add(next_, 1, block, true);
    if (block == 0) {
      hole_ = true;
      return {};
    }
    const std::vector<std::byte> data = E4_TRY(tree_block(block));
    for (std::size_t at = 0; at < data.size() && !done(); at += 4) {
      E4_TRY(pointer(load<le32>(data.data(), at), level - 1));
    }
    return {};
  }

  Result<void> block_map() {
    for (std::size_t i = 0; i < 15; ++i) {
      E4_TRY(pointer(load<le32>(source_.i_block.data(), i * 4), i < 12 ? 0 : static_cast<int>(i) - 11));
    }
    return {};
  }

  image::Device& device_;
  const MapSource& source_;
  FileMap map_;
  std::unordered_set<Blk> seen_;
  std::uint32_t next_ = 0;  // first file block not mapped yet
  bool hole_ = false;
};

}  // namespace

Result<FileMap> map_file(image::Device& device, const MapSource& source) { return Walk(device, source).run(); }

}  // namespace e4::journal
