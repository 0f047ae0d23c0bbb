// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "image/device.h"
#include "journal/format.h"
#include "journal/recovery.h"

namespace e4::journal {

/// The fast-commit area: log blocks ring_end+1 .. s_maxlen-1. Empty without
/// the feature.
struct FastCommitArea {
  std::uint32_t first = 0, blocks = 0;
};
FastCommitArea fast_commit_area(const Superblock& super);

/// One record. `value` has the length its tag asks for: fixed sizes exact,
/// names 1..255 bytes, inodes 128 bytes up to the file system's inode size.
struct FcRecord {
  std::uint16_t tag = 0;
  std::uint32_t log_block = 0;
  std::span<const std::byte> value{};
};

/// Whether `len` can be the length of the value of `tag`; false for unknown tags.
bool fc_length_ok(std::uint16_t tag, std::uint32_t len, std::uint32_t inode_bytes);

struct FastCommitScan {
  std::uint32_t records = 0;               // up to the last good TAIL, all tags counted
  std::uint32_t blocks = 0;
  std::uint32_t log_block = 0;             // of the problem
  std::optional<ProblemKind> problem{};
};

/// Finds out how much of the area belongs to transaction `expected`, the first
/// one the log does not have complete. A HEAD of another tid is a leftover and
/// means none. (Linux 6.18 ext4_fc_replay_scan.)
FastCommitScan scan_fast_commit_area(image::Device& device, const Log& log, Tid expected, std::uint32_t inode_bytes);

/// Calls `fn` for the first `records` records in order; the lengths were
/// checked by the scan and are checked again.
Result<void> for_each_fast_commit(image::Device& device, const Log& log, std::uint32_t records,
                                  std::uint32_t inode_bytes, const std::function<Result<void>(const FcRecord&)>& fn);

}  // namespace e4::journal
