// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "orphan/inode.h"

namespace e4::orphan {

/// One extended attribute; offsets are bytes from the start of the inode or block it was found in.
struct Attribute {
  std::uint8_t name_index = 0;
  std::string_view name;            // into the caller's bytes
  std::uint32_t entry_offset = 0;
  std::uint32_t value_offset = 0;   // 0 when the value is in an attribute inode, or empty
  std::uint32_t value_bytes = 0;
  Ino value_inum = 0;
};

inline constexpr std::uint32_t kXattrMagic = 0xEA020000;

/// Attributes in the inode body; false when the area is malformed (what was sane so far is in `out`).
bool inode_attributes(const InodeView& inode, std::vector<Attribute>& out);

/// Header fields of an attribute block.
struct XattrBlock {
  explicit XattrBlock(std::span<const std::byte> block) : raw(block) {}
  std::span<const std::byte> raw;
  [[nodiscard]] std::uint32_t magic() const { return load<le32>(raw.data(), 0); }
  [[nodiscard]] std::uint32_t refcount() const { return load<le32>(raw.data(), 4); }
  [[nodiscard]] std::uint32_t blocks() const { return load<le32>(raw.data(), 8); }
  /// Magic, one block, a reference count, right checksum.
  [[nodiscard]] bool sane(const Geometry& geo, Blk where) const;
};
/// Attributes in a block; false when malformed.
bool block_attributes(std::span<const std::byte> block, std::vector<Attribute>& out);
/// Stores the count and recomputes the checksum.
void set_xattr_refcount(const Geometry& geo, Blk where, std::span<std::byte> block, std::uint32_t refs);

/// The value of system.data in the inode body (inline data past the first 60 bytes); nullptr if absent.
const Attribute* find_inline_data(const std::vector<Attribute>& attributes);

/// Recomputes e_hash of an attribute in the inode body after its value changed (0 stays 0: never hashed).
void rehash_attribute(std::span<std::byte> inode, const Attribute& attribute);

}  // namespace e4::orphan
