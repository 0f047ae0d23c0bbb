// SPDX-License-Identifier: GPL-2.0-only
#include "orphan/xattr.h"

#include "base/crc32c.h"

namespace e4::orphan {
namespace {

constexpr std::uint32_t kEntryBytes = 16, kHeaderBytes = 32;
constexpr std::uint8_t kIndexSystem = 7;

/// Entries from `at` up to a zero word; values are counted from `base`.
bool parse(std::span<const std::byte> raw, std::uint32_t at, std::uint32_t base, std::vector<Attribute>& out) {
  for (;;) {
    if (at + 4 > raw.size()) return false;
    if (load<le32>(raw.data(), at) == 0) return true;
    if (at + kEntryBytes > raw.size()) return false;
    Attribute a;
    const auto name_len = std::to_integer<std::uint8_t>(raw[at]);
    a.name_index = std::to_integer<std::uint8_t>(raw[at + 1]);
    a.value_inum = load<le32>(raw.data(), at + 4);
    a.value_bytes = load<le32>(raw.data(), at + 8);
    a.entry_offset = at;
    if (at + kEntryBytes + name_len > raw.size()) return false;
    a.name = {reinterpret_cast<const char*>(raw.data()) + at + kEntryBytes, name_len};
    if (a.value_inum == 0 && a.value_bytes != 0) {
      a.value_offset = base + load<le16>(raw.data(), at + 2);
      if (a.value_offset > raw.size() || a.value_bytes > raw.size() - a.value_offset) return false;
    }
    out.push_back(a);
    at += (kEntryBytes + name_len + 3) & ~3U;
  }
}

std::uint32_t block_checksum(const Geometry& geo, Blk where, std::span<const std::byte> block) {
  static constexpr std::byte kZero[4] = {};
  std::uint32_t c = crc32c_le64(geo.csum_seed, where);
  c = crc32c(c, block.first(16));
  c = crc32c(c, kZero);
  return crc32c(c, block.subspan(20));
}

}  // namespace

bool inode_attributes(const InodeView& inode, std::vector<Attribute>& out) {
  const auto raw = inode.raw();
  const std::uint32_t extra = inode.extra_isize();
  if (raw.size() <= 128) return true;
  if (extra % 4 != 0 || extra > raw.size() - 128) return false;
  const std::uint32_t at = 128 + extra;
  if (at + 8 > raw.size() || load<le32>(raw.data(), at) != kXattrMagic) return true;
  return parse(raw, at + 4, at + 4, out);
}

bool XattrBlock::sane(const Geometry& geo, Blk where) const {
  if (magic() != kXattrMagic || blocks() != 1 || refcount() == 0) return false;
  return !geo.metadata_csum() || load<le32>(raw.data(), 16) == block_checksum(geo, where, raw);
}

bool block_attributes(std::span<const std::byte> block, std::vector<Attribute>& out) {
  return parse(block, kHeaderBytes, 0, out);
}

void set_xattr_refcount(const Geometry& geo, Blk where, std::span<std::byte> block, std::uint32_t refs) {
  store<le32>(block.data(), 4, refs);
  if (geo.metadata_csum()) store<le32>(block.data(), 16, block_checksum(geo, where, block));
}

const Attribute* find_inline_data(const std::vector<Attribute>& attributes) {
  for (const Attribute& a : attributes)
    if (a.name_index == kIndexSystem && a.name == "data" && a.value_inum == 0) return &a;
  return nullptr;
}

void rehash_attribute(std::span<std::byte> inode, const Attribute& attribute) {
  const std::size_t at = attribute.entry_offset + 12;
  if (load<le32>(inode.data(), at) == 0) return;
  std::uint32_t hash = 0;
  for (const char c : attribute.name)
    hash = (hash << 5) ^ (hash >> 27) ^ static_cast<unsigned char>(c);
  // The value by whole words; the last one is padded with zeros.
  for (std::uint32_t i = 0; i < attribute.value_bytes; i += 4) {
    std::uint32_t word = 0;
    for (std::uint32_t k = 0; k < 4 && i + k < attribute.value_bytes; ++k)
      word |= std::to_integer<std::uint32_t>(inode[attribute.value_offset + i + k]) << (8 * k);
    hash = (hash << 16) ^ (hash >> 16) ^ word;
  }
  store<le32>(inode.data(), at, hash);
}

}  // namespace e4::orphan
