// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <ext2fs/ext2_fs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/endian.h"
#include "base/result.h"
#include "image/device.h"

namespace e4::check {

inline constexpr std::uint64_t kSuperOffset = 1024;  // bytes from the start of the file system

/// The 1024 bytes of one superblock copy, as on disk. Fields are read and
/// written by their offset (ext4_fs.h), so byte order is right everywhere and
/// nothing that is not meant to change does.
class SuperCopy {
 public:
  static Result<SuperCopy> read(image::Device& device, std::uint64_t offset_bytes = kSuperOffset);
  Result<void> write(image::Device& device, std::uint64_t offset_bytes = kSuperOffset) const;

  [[nodiscard]] std::uint16_t u16(std::size_t at) const { return load<le16>(bytes_.data(), at); }
  [[nodiscard]] std::uint32_t u32(std::size_t at) const { return load<le32>(bytes_.data(), at); }
  void set_u16(std::size_t at, std::uint16_t v) { store<le16>(bytes_.data(), at, v); }
  void set_u32(std::size_t at, std::uint32_t v) { store<le32>(bytes_.data(), at, v); }
  /// For image::check_geometry and feature_bits, which take the bytes as they are.
  [[nodiscard]] ext2_super_block raw() const;

  [[nodiscard]] bool has_checksum() const;
  [[nodiscard]] std::uint32_t stored_checksum() const { return u32(0x3FC); }
  [[nodiscard]] std::uint32_t computed_checksum() const;
  [[nodiscard]] bool checksum_ok() const { return !has_checksum() || stored_checksum() == computed_checksum(); }
  /// Puts the right checksum in, if the file system has them.
  void seal();

  [[nodiscard]] std::uint32_t block_bytes() const { return 1024U << (u32(0x18) & 7U); }
  [[nodiscard]] Blk blocks_count() const;
  [[nodiscard]] Blk free_blocks_count() const;
  void set_free_blocks_count(Blk blocks);
  [[nodiscard]] bool is_64bit() const { return (u32(0x60) & 0x80) != 0; }

  bool operator==(const SuperCopy&) const = default;

 private:
  std::array<std::byte, 1024> bytes_{};
};

/// Geometry, magic and checksum: empty when this copy can be used, else why not.
std::string why_unusable(const SuperCopy& super);

struct BackupCopy {
  SuperCopy super;
  Blk block = 0;  // in blocks of its own block size
};
/// Looks for a usable backup where mke2fs puts them: every block size, the
/// default group size (and that of `hint`, the damaged primary), groups 1 and
/// the powers of 3, 5 and 7. The newest by s_wtime wins. Nothing found: empty.
std::vector<BackupCopy> find_backups(image::Device& device, const SuperCopy& hint);

}  // namespace e4::check
