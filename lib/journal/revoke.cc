// SPDX-License-Identifier: GPL-2.0-only
#include "journal/revoke.h"

#include <algorithm>

#include "base/assert.h"
#include "base/endian.h"
#include "journal/descriptor.h"

namespace e4::journal {

namespace {
constexpr std::uint32_t kHeaderBytes = sizeof(RevokeHeader);
}

std::optional<std::uint32_t> revoke_records(std::span<const std::byte> block, const LogFormat& format) {
  const std::uint32_t used = load<be32>(block.data(), offsetof(RevokeHeader, r_count));
  if (used < kHeaderBytes || used > block.size() - format.tail_bytes()) return std::nullopt;
  return (used - kHeaderBytes) / format.revoke_bytes();
}

Blk revoke_record(std::span<const std::byte> block, const LogFormat& format, std::uint32_t i) {
  const std::size_t at = kHeaderBytes + std::size_t{i} * format.revoke_bytes();
  return format.wide ? load<be64>(block.data(), at) : load<be32>(block.data(), at);
}

std::uint32_t revokes_per_block(const LogFormat& format) {
  return (format.block_bytes - kHeaderBytes - format.tail_bytes()) / format.revoke_bytes();
}

void write_revoke(std::span<std::byte> block, const LogFormat& format, Tid tid, std::span<const Blk> blocks) {
  E4_ASSERT(blocks.size() <= revokes_per_block(format));
  std::ranges::fill(block, std::byte{0});
  write_header(block, kRevokeBlock, tid);
  std::size_t at = kHeaderBytes;
  for (const Blk b : blocks) {
    if (format.wide) {
      store<be64>(block.data(), at, b);
    } else {
      store<be32>(block.data(), at, b);
    }
    at += format.revoke_bytes();
  }
  store<be32>(block.data(), offsetof(RevokeHeader, r_count), at);
  seal_tail(block, format);
}

}  // namespace e4::journal
