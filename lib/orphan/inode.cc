// SPDX-License-Identifier: GPL-2.0-only
#include "orphan/inode.h"

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"
#include "orphan/format.h"

namespace e4::orphan {
namespace {

constexpr std::size_t kCsumLo = 0x7C, kExtraIsize = 0x80, kCsumHi = 0x82;

/// The high half of the checksum exists only where i_extra_isize reaches over it.
bool has_high_csum(std::span<const std::byte> raw) {
  return raw.size() > 128 && load<le16>(raw.data(), kExtraIsize) >= 4;
}

std::uint32_t checksum(const Geometry& geo, Ino ino, std::span<const std::byte> raw) {
  static constexpr std::byte kZero[2] = {};
  std::uint32_t c = inode_csum_seed(geo.csum_seed, ino, load<le32>(raw.data(), 0x64));
  c = crc32c(c, raw.first(kCsumLo));
  c = crc32c(c, kZero);
  if (raw.size() <= 128) return crc32c(c, raw.subspan(kCsumLo + 2));
  if (!has_high_csum(raw)) return crc32c(c, raw.subspan(kCsumLo + 2));
  c = crc32c(c, raw.subspan(kCsumLo + 2, kCsumHi - kCsumLo - 2));
  c = crc32c(c, kZero);
  return crc32c(c, raw.subspan(kCsumHi + 2));
}

}  // namespace

std::uint64_t InodeView::size() const {
  // i_size_high is i_dir_acl of old in everything but files and directories.
  const bool wide = type() == kModeRegular || type() == kModeDir;
  return u32(0x04) | (wide ? std::uint64_t{u32(0x6C)} << 32 : 0);
}

std::uint64_t InodeView::held_bytes(const Geometry& geo) const {
  if (!geo.has_huge_file()) return std::uint64_t{u32(0x1C)} * 512;
  const std::uint64_t n = u32(0x1C) | std::uint64_t{u16(0x74)} << 32;
  return n * ((flags() & kFlagHugeFile) != 0 ? geo.block_bytes : 512);
}

bool InodeView::is_fast_symlink(const Geometry& geo) const {
  if (type() != kModeSymlink || has_inline_data() || has_extents()) return false;
  // As the kernel decides: by size where attribute inodes are charged to i_blocks, else by blocks held.
  if (geo.has_ea_inode()) return size() != 0 && size() < 60;
  const std::uint64_t acl = file_acl() != 0 ? std::uint64_t{geo.cluster_blocks} * geo.block_bytes : 0;
  return size() < 60 && held_bytes(geo) <= acl;
}

bool InodeView::has_mapping(const Geometry& geo) const {
  if (has_inline_data()) return false;
  switch (type()) {
    case kModeRegular:
    case kModeDir: return true;
    case kModeSymlink: return !is_fast_symlink(geo);
    default: return false;
  }
}

bool inode_checksum_ok(const Geometry& geo, Ino ino, std::span<const std::byte> raw) {
  if (!geo.metadata_csum()) return true;
  const std::uint32_t c = checksum(geo, ino, raw);
  if (load<le16>(raw.data(), kCsumLo) != (c & 0xFFFF)) return false;
  return !has_high_csum(raw) || load<le16>(raw.data(), kCsumHi) == c >> 16;
}

void seal_inode(const Geometry& geo, Ino ino, std::span<std::byte> raw) {
  if (!geo.metadata_csum()) return;
  const std::uint32_t c = checksum(geo, ino, raw);
  store<le16>(raw.data(), kCsumLo, c & 0xFFFF);
  if (has_high_csum(raw)) store<le16>(raw.data(), kCsumHi, c >> 16);
}

void set_dtime(std::span<std::byte> raw, std::uint32_t value) { store<le32>(raw.data(), 0x14, value); }

void set_size(std::span<std::byte> raw, std::uint64_t bytes) {
  store<le32>(raw.data(), 0x04, bytes & 0xFFFFFFFF);
  store<le32>(raw.data(), 0x6C, bytes >> 32);
}

void set_held_bytes(const Geometry& geo, std::span<std::byte> raw, std::uint64_t bytes) {
  const std::uint32_t flags = load<le32>(raw.data(), 0x20);
  const std::uint64_t sectors = bytes / 512;
  if (!geo.has_huge_file()) {
    store<le32>(raw.data(), 0x1C, std::min<std::uint64_t>(sectors, 0xFFFFFFFF));
    return;
  }
  // The kernel counts in blocks only where sectors do not fit 48 bits, and goes back when they do again.
  const bool in_blocks = sectors >> 48 != 0;
  store<le32>(raw.data(), 0x20, in_blocks ? flags | kFlagHugeFile : flags & ~kFlagHugeFile);
  const std::uint64_t n = in_blocks ? bytes / geo.block_bytes : sectors;
  store<le32>(raw.data(), 0x1C, n & 0xFFFFFFFF);
  store<le16>(raw.data(), 0x74, n >> 32);
}

void set_file_acl(std::span<std::byte> raw, Blk block) {
  store<le32>(raw.data(), 0x68, block & 0xFFFFFFFF);
  store<le16>(raw.data(), 0x76, block >> 32);
}

void set_ea_refcount(std::span<std::byte> raw, std::uint64_t refs) {
  store<le32>(raw.data(), 0x0C, refs >> 32);
  store<le32>(raw.data(), 0x24, refs & 0xFFFFFFFF);
}

void clear_mapping(std::span<std::byte> raw) {
  std::memset(raw.data() + 0x28, 0, 60);
  if ((load<le32>(raw.data(), 0x20) & kFlagExtents) == 0) return;
  store<le16>(raw.data(), 0x28, 0xF30A);  // eh_magic; no entries, depth 0
  store<le16>(raw.data(), 0x2C, 4);       // eh_max
}

Result<std::span<const std::byte>> InodeTable::view(Ino ino) {
  const auto place = E4_TRY(volume_->inode_place(ino));
  return E4_TRY(volume_->overlay().view(place.block)).subspan(place.offset, volume_->geo().inode_bytes);
}

Result<std::span<std::byte>> InodeTable::edit(Ino ino) {
  const auto place = E4_TRY(volume_->inode_place(ino));
  return E4_TRY(volume_->overlay().edit(place.block)).subspan(place.offset, volume_->geo().inode_bytes);
}

}  // namespace e4::orphan
