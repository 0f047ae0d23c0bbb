// SPDX-License-Identifier: GPL-2.0-only
#include "journal/superblock.h"

#include <fmt/core.h>

#include <cstring>

#include "base/crc32c.h"

namespace e4::journal {

namespace {

Error bad(std::string text, Where where = Where::here()) {
  return make_error(ErrorKind::corrupt, "journal superblock: " + std::move(text), 0, where);
}

std::uint32_t super_crc(const SuperOnDisk& raw) {
  SuperOnDisk copy = raw;
  copy.s_checksum = 0;
  return crc32c(~0U, &copy, sizeof copy);
}

bool has_checksum(const SuperOnDisk& raw) {
  return raw.s_header.h_blocktype == kSuperV2 && (raw.s_feature_incompat & (kIncompatCsumV2 | kIncompatCsumV3)) != 0;
}

Result<LogFormat> format_of(const SuperOnDisk& raw) {
  LogFormat f;
  f.block_bytes = raw.s_blocksize;
  if (raw.s_header.h_blocktype == kSuperV1) return f;
  const std::uint32_t incompat = raw.s_feature_incompat;
  if (const std::uint32_t unknown = incompat & ~kIncompatKnown; unknown != 0) {
    return make_error(ErrorKind::incompatible,
                      fmt::format("journal superblock: unknown incompatible features {:#x}", unknown));
  }
  if (const std::uint32_t ro = raw.s_feature_ro_compat; ro != 0) {
    return make_error(ErrorKind::incompatible,
                      fmt::format("journal superblock: unknown read-only compatible features {:#x}", ro));
  }
  if (raw.s_nr_users > 1) {
    return make_error(ErrorKind::incompatible,
                      fmt::format("journal superblock: shared by {} file systems", raw.s_nr_users.get()));
  }
  const bool v1 = (raw.s_feature_compat & kCompatChecksum) != 0;
  const bool v2 = (incompat & kIncompatCsumV2) != 0;
  const bool v3 = (incompat & kIncompatCsumV3) != 0;
  if (v2 && v3) return bad("checksum versions 2 and 3 at the same time");
  if (v1 && (v2 || v3)) return bad("checksum version 1 together with 2 or 3");
  f.checksums = v3 ? Checksums::v3 : v2 ? Checksums::v2 : v1 ? Checksums::v1 : Checksums::none;
  f.wide = (incompat & kIncompat64bit) != 0;
  f.async_commit = (incompat & kIncompatAsyncCommit) != 0;
  f.fast_commit = (incompat & kIncompatFastCommit) != 0;
  f.seed = crc32c(~0U, raw.s_uuid, sizeof raw.s_uuid);
  if (f.sealed()) {
    if (raw.s_checksum_type != kChecksumTypeCrc32c) return bad(fmt::format("checksum type {}", raw.s_checksum_type));
    if (raw.s_checksum != super_crc(raw)) return bad("bad checksum");
  }
  return f;
}

}  // namespace

std::uint32_t LogFormat::tag_bytes() const {
  if (checksums == Checksums::v3) return 16;
  return 8 + (wide ? 4 : 0) + (checksums == Checksums::v2 ? 2 : 0);
}

std::uint32_t LogFormat::tags_per_descriptor() const {
  constexpr std::uint32_t kUuidBytes = 16;
  return (block_bytes - static_cast<std::uint32_t>(sizeof(BlockHeader)) - tail_bytes() - kUuidBytes) / tag_bytes();
}

std::string LogFormat::describe() const {
  std::string s;
  switch (checksums) {
    case Checksums::none: s = "no checksums"; break;
    case Checksums::v1: s = "checksums v1"; break;
    case Checksums::v2: s = "checksums v2"; break;
    case Checksums::v3: s = "checksums v3"; break;
  }
  if (wide) s += ", 64bit";
  if (async_commit) s += ", async commit";
  if (fast_commit) s += ", fast commit";
  return s;
}

Result<Superblock> parse_superblock(std::span<const std::byte> bytes, std::uint32_t fs_block_bytes,
                                    std::uint64_t file_blocks) {
  if (bytes.size() < kSuperBytes) return bad("cut short");
  Superblock s;
  std::memcpy(&s.raw, bytes.data(), sizeof s.raw);
  const SuperOnDisk& raw = s.raw;
  if (raw.s_header.h_magic != kMagic) return bad(fmt::format("bad magic {:#010x}", raw.s_header.h_magic.get()));
  const std::uint32_t type = raw.s_header.h_blocktype;
  if (type != kSuperV1 && type != kSuperV2) return bad(fmt::format("unknown type {}", type));
  if (raw.s_blocksize != fs_block_bytes) {
    return bad(fmt::format("block size {}, the file system's is {}", raw.s_blocksize.get(), fs_block_bytes));
  }
  s.format = E4_TRY(format_of(raw));
  if (s.format.fast_commit) {
    s.fast_commit_blocks = raw.s_num_fc_blks != 0 ? raw.s_num_fc_blks.get() : kDefaultFastCommitBlocks;
  }
  if (raw.s_maxlen > file_blocks) {
    return bad(fmt::format("{} blocks long, the journal file has {}", raw.s_maxlen.get(), file_blocks));
  }
  if (raw.s_maxlen < kMinLogBlocks || s.fast_commit_blocks > raw.s_maxlen - kMinLogBlocks) {
    return bad(fmt::format("too short: {} blocks, {} of them for fast commits", raw.s_maxlen.get(), s.fast_commit_blocks));
  }
  if (raw.s_first == 0 || raw.s_first >= s.ring_end()) {
    return bad(fmt::format("first log block {} is outside 1..{}", raw.s_first.get(), s.ring_end() - 1));
  }
  if (raw.s_start != 0 && (raw.s_start < raw.s_first || raw.s_start >= s.ring_end())) {
    return bad(fmt::format("log starts at block {}, outside {}..{}", raw.s_start.get(), raw.s_first.get(),
                           s.ring_end() - 1));
  }
  return s;
}

void seal_superblock(SuperOnDisk& raw) {
  if (has_checksum(raw)) raw.s_checksum = super_crc(raw);
}

SuperOnDisk make_superblock(std::uint32_t block_bytes, std::uint32_t maxlen_blocks,
                            std::span<const std::uint8_t, 16> uuid) {
  SuperOnDisk raw{};
  raw.s_header.h_magic = kMagic;
  raw.s_header.h_blocktype = kSuperV2;
  raw.s_blocksize = block_bytes;
  raw.s_maxlen = maxlen_blocks;
  raw.s_first = 1;
  raw.s_sequence = 1;
  raw.s_nr_users = 1;
  std::memcpy(raw.s_uuid, uuid.data(), uuid.size());
  std::memcpy(raw.s_users, uuid.data(), uuid.size());
  return raw;
}

}  // namespace e4::journal
