// SPDX-License-Identifier: GPL-2.0-only
#include "journal/fast_commit_format.h"

#include <fmt/core.h>

#include "base/crc32c.h"

namespace e4::journal {

namespace {

constexpr std::uint32_t kTlBytes = sizeof(FcTl);
constexpr std::uint32_t kGoodOldInodeBytes = 128;

// Walks records block by block. `fn(record, header_bytes)` says whether to go
// on; it gets only records whose length is right.
enum class Stop { area_end, bad_record, unreadable, asked };

template <class Fn>
Stop walk(image::Device& device, const Log& log, std::uint32_t inode_bytes, std::uint32_t* at, Fn&& fn) {
  const FastCommitArea area = fast_commit_area(log.super());
  const std::uint32_t bs = log.block_bytes();
  std::vector<std::byte> block(bs);
  for (std::uint32_t n = area.first; n < area.first + area.blocks; ++n) {
    *at = n;
    if (!log.read(device, n, block)) return Stop::unreadable;
    for (std::uint32_t off = 0; off + kTlBytes <= bs;) {
      const std::uint16_t tag = load<le16>(block.data(), off);
      const std::uint32_t len = load<le16>(block.data(), off + 2);
      if (len > bs - off - kTlBytes || !fc_length_ok(tag, len, inode_bytes)) return Stop::bad_record;
      const std::span<const std::byte> whole = std::span<const std::byte>(block).subspan(off, kTlBytes + len);
      if (!fn(FcRecord{.tag = tag, .log_block = n, .value = whole.subspan(kTlBytes)}, whole)) return Stop::asked;
      off += kTlBytes + len;
    }
  }
  return Stop::area_end;
}

}  // namespace

FastCommitArea fast_commit_area(const Superblock& super) {
  if (super.fast_commit_blocks < 2) return {};
  return {.first = super.ring_end() + 1, .blocks = super.fast_commit_blocks - 1};
}

bool fc_length_ok(std::uint16_t tag, std::uint32_t len, std::uint32_t inode_bytes) {
  switch (tag) {
    case kFcAddRange: return len == sizeof(FcAddRange);
    case kFcDelRange: return len == sizeof(FcDelRange);
    case kFcCreat:
    case kFcLink:
    case kFcUnlink: return len > sizeof(FcDentry) && len <= sizeof(FcDentry) + 255;
    case kFcInode: return len >= 4 + kGoodOldInodeBytes && len <= 4 + inode_bytes;
    case kFcPad: return true;
    case kFcTail: return len >= sizeof(FcTail);
    case kFcHead: return len == sizeof(FcHead);
    default: return false;
  }
}

FastCommitScan scan_fast_commit_area(image::Device& device, const Log& log, Tid expected, std::uint32_t inode_bytes) {
  FastCommitScan scan;
  std::uint32_t at = 0, seen = 0, crc = 0;
  bool ours = false;
  const std::uint32_t first = fast_commit_area(log.super()).first;
  const Stop stop = walk(device, log, inode_bytes, &at, [&](const FcRecord& r, std::span<const std::byte> whole) {
    ++seen;
    if (seen == 1 || r.tag == kFcHead) {
      if (r.tag != kFcHead || load<le32>(r.value.data(), offsetof(FcHead, fc_tid)) != expected) return false;
      ours = true;
      if (load<le32>(r.value.data(), offsetof(FcHead, fc_features)) != 0) {
        scan.problem = ProblemKind::fast_commit_features;
        return false;
      }
    }
    if (r.tag != kFcTail) {
      crc = crc32c(crc, whole);
      return true;
    }
    crc = crc32c(crc, whole.first(kTlBytes + offsetof(FcTail, fc_crc)));
    if (load<le32>(r.value.data(), offsetof(FcTail, fc_tid)) != expected ||
        load<le32>(r.value.data(), offsetof(FcTail, fc_crc)) != crc) {
      return false;
    }
    crc = 0;
    scan.records = seen;
    scan.blocks = r.log_block - first + 1;
    return true;
  });
  scan.log_block = at;
  // Behind the last good TAIL there is always something older. Worth a remark
  // only when not even the first fast commit of this transaction is whole.
  if (!scan.problem && ((ours && scan.records == 0) || stop == Stop::unreadable)) {
    scan.problem = ProblemKind::fast_commit_damaged;
  }
  return scan;
}

Result<void> for_each_fast_commit(image::Device& device, const Log& log, std::uint32_t records,
                                  std::uint32_t inode_bytes, const std::function<Result<void>(const FcRecord&)>& fn) {
  std::uint32_t at = 0, left = records;
  if (left == 0) return {};
  Result<void> outcome;
  walk(device, log, inode_bytes, &at, [&](const FcRecord& r, std::span<const std::byte>) {
    outcome = fn(r);
    return outcome.has_value() && --left > 0;
  });
  if (!outcome) return outcome;
  if (left > 0) {
    return make_error(ErrorKind::io, fmt::format("fast commits changed while being read, at log block {}", at));
  }
  return {};
}

}  // namespace e4::journal
