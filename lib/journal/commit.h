// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <span>

#include "base/units.h"
#include "journal/format.h"
#include "journal/superblock.h"

namespace e4::journal {

struct CommitTime {
  std::uint64_t sec = 0;
  std::uint32_t nsec = 0;
};
CommitTime commit_time(std::span<const std::byte> block);

/// v2, v3: the block's own checksum, over the whole block or, for a commit
/// block whose first sector alone reached the disk, over its header followed
/// by zeros. True in other formats.
bool commit_checksum_ok(std::span<const std::byte> block, const LogFormat& format);
/// v1: whether `transaction_crc` (crc32_be from ~0 over every descriptor and
/// data block) is the recorded one, or none was recorded.
bool commit_v1_checksum_ok(std::span<const std::byte> block, std::uint32_t transaction_crc);

/// Fills a whole commit block; `transaction_crc` is used by v1 only.
void write_commit(std::span<std::byte> block, const LogFormat& format, Tid tid, CommitTime time,
                  std::uint32_t transaction_crc);

}  // namespace e4::journal
