// SPDX-License-Identifier: GPL-2.0-only
#include "journal/commit.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/crc32c.h"
#include "base/endian.h"
#include "journal/descriptor.h"

namespace e4::journal {

namespace {

constexpr std::size_t kChecksumAt = offsetof(CommitOnDisk, h_chksum);

// crc32c of the commit block with its checksum word zero; `used`: bytes taken
// from the block, the rest counts as zeros.
std::uint32_t block_crc(std::span<const std::byte> block, std::uint32_t seed, std::size_t used) {
  std::array<std::byte, sizeof(CommitOnDisk)> head;
  std::memcpy(head.data(), block.data(), head.size());
  store<be32>(head.data(), kChecksumAt, 0U);
  std::uint32_t crc = crc32c(seed, head.data(), head.size());
  if (used > head.size()) return crc32c(crc, block.subspan(head.size()));
  static constexpr std::array<std::byte, 1024> kZeros{};
  for (std::size_t left = block.size() - head.size(); left > 0;) {
    const std::size_t n = std::min(left, kZeros.size());
    crc = crc32c(crc, kZeros.data(), n);
    left -= n;
  }
  return crc;
}

}  // namespace

CommitTime commit_time(std::span<const std::byte> block) {
  return {.sec = load<be64>(block.data(), offsetof(CommitOnDisk, h_commit_sec)),
          .nsec = load<be32>(block.data(), offsetof(CommitOnDisk, h_commit_nsec))};
}

bool commit_checksum_ok(std::span<const std::byte> block, const LogFormat& format) {
  if (!format.sealed()) return true;
  const std::uint32_t stored = load<be32>(block.data(), kChecksumAt);
  return stored == block_crc(block, format.seed, block.size()) ||
         stored == block_crc(block, format.seed, sizeof(CommitOnDisk));
}

bool commit_v1_checksum_ok(std::span<const std::byte> block, std::uint32_t transaction_crc) {
  const auto type = std::to_integer<std::uint8_t>(block[offsetof(CommitOnDisk, h_chksum_type)]);
  const auto size = std::to_integer<std::uint8_t>(block[offsetof(CommitOnDisk, h_chksum_size)]);
  const std::uint32_t stored = load<be32>(block.data(), kChecksumAt);
  if (type == 0 && size == 0 && stored == 0) return true;
  return type == kChecksumTypeCrc32 && size == 4 && stored == transaction_crc;
}

void write_commit(std::span<std::byte> block, const LogFormat& format, Tid tid, CommitTime time,
                  std::uint32_t transaction_crc) {
  std::ranges::fill(block, std::byte{0});
  write_header(block, kCommitBlock, tid);
  store<be64>(block.data(), offsetof(CommitOnDisk, h_commit_sec), time.sec);
  store<be32>(block.data(), offsetof(CommitOnDisk, h_commit_nsec), time.nsec);
  if (format.checksums == Checksums::v1) {
    block[offsetof(CommitOnDisk, h_chksum_type)] = std::byte{kChecksumTypeCrc32};
    block[offsetof(CommitOnDisk, h_chksum_size)] = std::byte{4};
    store<be32>(block.data(), kChecksumAt, transaction_crc);
  } else if (format.sealed()) {
    store<be32>(block.data(), kChecksumAt, block_crc(block, format.seed, block.size()));
  }
}

}  // namespace e4::journal
