// SPDX-License-Identifier: GPL-2.0-only
#include "journal/file_map.h"

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
    return std::move(map_);
  }

 private:
  Error bad(const std::string& text, Blk block, Where where = Where::here()) const {
    Error e = make_error(ErrorKind::corrupt, text, 0, where);
    e.ino = source_.ino;
    if (block != 0) e.block = block;
    return e;
  }

  [[nodiscard]] bool done() const { return next_ >= source_.file_blocks; }

  // Takes over `count` blocks mapped at file block `lblk`.
  Result<void> add(std::uint64_t lblk, std::uint64_t count, Blk physical, bool unwritten) {
    if (lblk < next_) return bad(fmt::format("file block {} is mapped twice or out of order", lblk), 0);
    if (lblk >= source_.file_blocks) {
      next_ = source_.file_blocks;
      return {};
    }
    if (physical == 0 || physical >= source_.fs_blocks || count > source_.fs_blocks - physical) {
      return bad(fmt::format("file block {} lies outside the file system", lblk), physical);
    }
    const auto n = static_cast<std::uint32_t>(std::min<std::uint64_t>(count, source_.file_blocks - lblk));
    next_ = lblk + n;
    if (!map_.extents.empty()) {
      MappedExtent& last = map_.extents.back();
      if (last.end() == lblk && last.physical + last.blocks == physical && last.unwritten == unwritten) {
        last.blocks += n;
        return {};
      }
    }
    if (map_.extents.size() >= kMaxPieces) return bad("in too many pieces", 0);
    map_.extents.push_back({.lblk = static_cast<Lblk>(lblk), .blocks = n, .physical = physical, .unwritten = unwritten});
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
      const bool unwritten = len > kInitMaxLen;
      E4_TRY(add(load<le32>(e), unwritten ? len - kInitMaxLen : len, physical, unwritten));
    }
    return {};
  }

  // One (in)direct pointer covering `span` file blocks from `lblk`; level 0 is data.
  Result<void> pointer(std::uint64_t lblk, Blk block, int level) {
    if (block == 0 || lblk >= source_.file_blocks) return {};
    if (level == 0) return add(lblk, 1, block, false);
    const std::vector<std::byte> data = E4_TRY(tree_block(block));
    const std::uint64_t step = span(level - 1);
    for (std::size_t at = 0; at < data.size() && !done(); at += 4, lblk += step) {
      E4_TRY(pointer(lblk, load<le32>(data.data(), at), level - 1));
    }
    return {};
  }

  [[nodiscard]] std::uint64_t span(int level) const {
    std::uint64_t n = 1;
    for (int i = 0; i < level; ++i) n *= source_.block_bytes / 4;
    return n;
  }

  Result<void> block_map() {
    std::uint64_t lblk = 0;
    for (std::size_t i = 0; i < 15; ++i) {
      const int level = i < 12 ? 0 : static_cast<int>(i) - 11;
      E4_TRY(pointer(lblk, load<le32>(source_.i_block.data(), i * 4), level));
      lblk += span(level);
    }
    return {};
  }

  image::Device& device_;
  const MapSource& source_;
  FileMap map_;
  std::unordered_set<Blk> seen_;
  std::uint64_t next_ = 0;  // first file block behind what is mapped so far
};

}  // namespace

Result<FileMap> map_file(image::Device& device, const MapSource& source) { return Walk(device, source).run(); }

}  // namespace e4::journal
