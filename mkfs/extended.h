// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace e4::mkfs {

using Uuid = std::array<std::uint8_t, 16>;

/// "8-4-4-4-12" hexadecimal digits, either case.
std::optional<Uuid> parse_uuid(std::string_view text);
std::string format_uuid(const Uuid& uuid);

/// The words of -E, parsed but not yet held against the layout. Texts keep
/// their unit until the block size is known.
struct Extended {
  std::optional<std::string> orphan_file_size;  // bare: blocks
  std::optional<Uuid> hash_seed;
  std::optional<bool> lazy_itable_init, lazy_journal_init, discard, assume_zeroed;
  std::uint32_t root_uid = 0, root_gid = 0;
  std::optional<std::uint32_t> root_perms;
  std::uint32_t stride_blocks = 0, stripe_blocks = 0;
  std::optional<std::string> resize;            // bare: blocks
  std::uint64_t offset_bytes = 0;
  std::optional<unsigned> num_backup_sb;        // 0..2
  bool packed_meta_blocks = false;
  bool test_fs = false;
  std::uint32_t mmp_interval_seconds = 0;       // 0: the kernel's default
  std::optional<std::string> encoding;
  bool encoding_strict = false;
};
/// Errors (usage) name the word; an unknown one lists all that are known.
Result<Extended> parse_extended(const std::vector<std::string>& words, std::uint32_t own_uid, std::uint32_t own_gid);
/// Every word of -E with the form of its value, for help and completions.
std::vector<std::string> extended_words();

/// The words of -J.
struct JournalWishes {
  std::optional<std::uint64_t> megabytes;
  std::optional<std::uint64_t> fast_commit_kilobytes;
  std::optional<std::string> location;  // bare: blocks
};
Result<JournalWishes> parse_journal(const std::vector<std::string>& words);

}  // namespace e4::mkfs
