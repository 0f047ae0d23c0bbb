// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/endian.h"
#include "base/units.h"

// The extent tree on disk: a header, then entries of 12 bytes; a block's
// checksum stands right behind its last possible entry.
namespace e4::orphan {

inline constexpr std::uint16_t kExtentMagic = 0xF30A;
inline constexpr std::uint16_t kExtentDepthMax = 5;
inline constexpr std::uint32_t kExtentInitMax = 32768;  // ee_len above: unwritten, of ee_len - 32768 blocks

struct ExtentHeader {
  le16 eh_magic, eh_entries, eh_max, eh_depth;
  le32 eh_generation;
};
struct Extent {
  le32 ee_block;
  le16 ee_len, ee_start_hi;
  le32 ee_start_lo;
  [[nodiscard]] Blk start() const { return ee_start_lo | Blk{ee_start_hi} << 32; }
  [[nodiscard]] bool unwritten() const { return ee_len > kExtentInitMax; }
  [[nodiscard]] std::uint32_t blocks() const { return unwritten() ? ee_len - kExtentInitMax : ee_len; }
};
struct ExtentIndex {
  le32 ei_block, ei_leaf_lo;
  le16 ei_leaf_hi, ei_unused;
  [[nodiscard]] Blk leaf() const { return ei_leaf_lo | Blk{ei_leaf_hi} << 32; }
};
static_assert(sizeof(ExtentHeader) == 12 && sizeof(Extent) == 12 && sizeof(ExtentIndex) == 12);

/// Header and entries of one node, the inode's 60 bytes or a block. Const or not by the span's element type.
template <class Byte>
class ExtentNode {
 public:
  explicit ExtentNode(std::span<Byte> bytes) : bytes_(bytes) {}
  template <class T>
  [[nodiscard]] T get(std::size_t at) const {
    T v;
    std::memcpy(&v, bytes_.data() + at, sizeof v);
    return v;
  }
  [[nodiscard]] ExtentHeader header() const { return get<ExtentHeader>(0); }
  [[nodiscard]] Extent extent(std::uint32_t i) const { return get<Extent>(12 + std::size_t{i} * 12); }
  [[nodiscard]] ExtentIndex index(std::uint32_t i) const { return get<ExtentIndex>(12 + std::size_t{i} * 12); }
  void put_header(const ExtentHeader& h) { std::memcpy(bytes_.data(), &h, sizeof h); }
  void put_extent(std::uint32_t i, const Extent& e) { std::memcpy(bytes_.data() + 12 + std::size_t{i} * 12, &e, sizeof e); }
  /// Entries the span has room for, with or without a checksum behind them.
  [[nodiscard]] std::uint32_t room() const { return static_cast<std::uint32_t>((bytes_.size() - 12) / 12); }
  /// What is wrong with the header of a node expected at `depth`; empty when sane.
  [[nodiscard]] std::string header_problem(std::uint32_t depth) const {
    const ExtentHeader h = header();
    if (h.eh_magic != kExtentMagic) return "extent header without magic";
    if (h.eh_depth != depth) return "extent header of the wrong depth";
    if (h.eh_max == 0 || h.eh_max > room()) return "extent header with an impossible eh_max";
    if (h.eh_entries > h.eh_max) return "extent header with more entries than it has room for";
    if (h.eh_entries == 0 && depth > 0) return "extent index without entries";
    return {};
  }

 private:
  std::span<Byte> bytes_;
};

}  // namespace e4::orphan
