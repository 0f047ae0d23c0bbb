// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/endian.h"
#include "base/result.h"
#include "orphan/volume.h"

namespace e4::orphan {

// File types in i_mode, and the inode flags that matter here.
inline constexpr std::uint16_t kModeTypeMask = 0xF000, kModeFifo = 0x1000, kModeChar = 0x2000, kModeDir = 0x4000,
                               kModeBlock = 0x6000, kModeRegular = 0x8000, kModeSymlink = 0xA000, kModeSocket = 0xC000;
inline constexpr std::uint32_t kFlagEncrypt = 0x800, kFlagIndex = 0x1000, kFlagHugeFile = 0x40000, kFlagExtents = 0x80000,
                               kFlagVerity = 0x100000, kFlagEaInode = 0x200000, kFlagInlineData = 0x10000000;

/// An on-disk inode's bytes with its fields by their kernel names. The span
/// (s_inode_size bytes) must outlive it.
class InodeView {
 public:
  explicit InodeView(std::span<const std::byte> raw) : raw_(raw) {}
  [[nodiscard]] std::uint16_t mode() const { return u16(0x00); }
  [[nodiscard]] std::uint16_t type() const { return mode() & kModeTypeMask; }
  [[nodiscard]] std::uint32_t uid() const { return u16(0x02) | std::uint32_t{u16(0x78)} << 16; }
  [[nodiscard]] std::uint32_t gid() const { return u16(0x18) | std::uint32_t{u16(0x7A)} << 16; }
  [[nodiscard]] std::uint64_t size() const;
  [[nodiscard]] std::uint32_t dtime() const { return u32(0x14); }
  [[nodiscard]] std::uint16_t links() const { return u16(0x1A); }
  [[nodiscard]] std::uint32_t flags() const { return u32(0x20); }
  [[nodiscard]] std::span<const std::byte> i_block() const { return raw_.subspan(0x28, 60); }
  [[nodiscard]] std::uint32_t generation() const { return u32(0x64); }
  [[nodiscard]] Blk file_acl() const { return u32(0x68) | std::uint64_t{u16(0x76)} << 32; }
  [[nodiscard]] std::uint16_t extra_isize() const { return raw_.size() > 128 ? u16(0x80) : 0; }
  [[nodiscard]] std::uint32_t project() const { return raw_.size() >= 160 && extra_isize() >= 32 ? u32(0x9C) : 0; }
  /// i_blocks in bytes, in whichever unit the inode counts.
  [[nodiscard]] std::uint64_t held_bytes(const Geometry& geo) const;
  /// References to an attribute inode (i_ctime and i_version carry them).
  [[nodiscard]] std::uint64_t ea_refcount() const { return std::uint64_t{u32(0x0C)} << 32 | u32(0x24); }
  [[nodiscard]] bool has_extents() const { return (flags() & kFlagExtents) != 0; }
  [[nodiscard]] bool has_inline_data() const { return (flags() & kFlagInlineData) != 0; }
  /// A symlink whose target is in i_block: no blocks of its own.
  [[nodiscard]] bool is_fast_symlink(const Geometry& geo) const;
  /// Whether i_block holds a block mapping at all.
  [[nodiscard]] bool has_mapping(const Geometry& geo) const;
  [[nodiscard]] std::span<const std::byte> raw() const { return raw_; }

 private:
  [[nodiscard]] std::uint32_t u32(std::size_t at) const { return load<le32>(raw_.data(), at); }
  [[nodiscard]] std::uint16_t u16(std::size_t at) const { return load<le16>(raw_.data(), at); }
  std::span<const std::byte> raw_;
};

/// Right checksum for this number (always true without metadata_csum).
bool inode_checksum_ok(const Geometry& geo, Ino ino, std::span<const std::byte> raw);
/// Recomputes the checksum fields.
void seal_inode(const Geometry& geo, Ino ino, std::span<std::byte> raw);

void set_dtime(std::span<std::byte> raw, std::uint32_t value);
void set_size(std::span<std::byte> raw, std::uint64_t bytes);
/// Stores i_blocks; `bytes` is a multiple of 512.
void set_held_bytes(const Geometry& geo, std::span<std::byte> raw, std::uint64_t bytes);
void set_file_acl(std::span<std::byte> raw, Blk block);
void set_ea_refcount(std::span<std::byte> raw, std::uint64_t refs);
/// Empties i_block: an extent root without entries, or zeros.
void clear_mapping(std::span<std::byte> raw);

/// Reads inodes; remembers the last table block. Spans live until the next
/// call of any kind on the overlay or this reader.
class InodeTable {
 public:
  explicit InodeTable(Volume& volume) : volume_(&volume) {}
  Result<std::span<const std::byte>> view(Ino ino);
  /// For editing; stays valid until the block is settled in the overlay.
  Result<std::span<std::byte>> edit(Ino ino);

 private:
  Volume* volume_;
};

}  // namespace e4::orphan
