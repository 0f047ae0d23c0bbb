// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "journal/format.h"

namespace e4::journal {

enum class Checksums { none, v1, v2, v3 };

/// How log blocks are laid out; follows from the journal superblock alone.
struct LogFormat {
  std::uint32_t block_bytes = 4096;
  Checksums checksums = Checksums::none;
  bool wide = false;          // 64bit: block numbers have a high half
  bool async_commit = false;
  bool fast_commit = false;
  std::uint32_t seed = 0;     // crc32c(~0, s_uuid): start of every v2/v3 checksum

  [[nodiscard]] bool sealed() const { return checksums == Checksums::v2 || checksums == Checksums::v3; }
  /// Bytes one tag takes in a descriptor, its UUID not counted: 8, 10, 12, 14 or 16.
  [[nodiscard]] std::uint32_t tag_bytes() const;
  /// Bytes of the checksum at the end of descriptor and revoke blocks: 4 or 0.
  [[nodiscard]] std::uint32_t tail_bytes() const { return sealed() ? 4 : 0; }
  /// Bytes of one revoke record: 8 with 64bit, else 4.
  [[nodiscard]] std::uint32_t revoke_bytes() const { return wide ? 8 : 4; }
  /// How many blocks one descriptor can carry when its first tag has a UUID.
  [[nodiscard]] std::uint32_t tags_per_descriptor() const;
  [[nodiscard]] std::string describe() const;  // "csum v3, 64bit"
};

/// The journal superblock (log block 0): the 1024 bytes as on disk, checked.
struct Superblock {
  SuperOnDisk raw{};
  LogFormat format;
  std::uint32_t fast_commit_blocks = 0;  // size of that area; 0 without the feature

  /// The ring is s_first .. ring_end-1. (Block ring_end itself is never used
  /// when there is a fast-commit area, which starts behind it.)
  [[nodiscard]] std::uint32_t ring_first() const { return raw.s_first; }
  [[nodiscard]] std::uint32_t ring_end() const { return raw.s_maxlen - fast_commit_blocks; }
  [[nodiscard]] std::uint32_t ring_blocks() const { return ring_end() - ring_first(); }
};

/// Checks and decodes a journal superblock the way the kernel's
/// journal_get_superblock and load_superblock do: magic, type, block size,
/// length against `file_blocks` (what the journal inode maps), s_first,
/// s_start, unknown features (incompatible), checksum combinations, checksum.
Result<Superblock> parse_superblock(std::span<const std::byte> bytes, std::uint32_t fs_block_bytes,
                                    std::uint64_t file_blocks);

/// Recomputes s_checksum where the format has one.
void seal_superblock(SuperOnDisk& raw);

/// A valid empty superblock, as mke2fs writes it (v2, no features).
SuperOnDisk make_superblock(std::uint32_t block_bytes, std::uint32_t maxlen_blocks, std::span<const std::uint8_t, 16> uuid);

}  // namespace e4::journal
