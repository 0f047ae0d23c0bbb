// SPDX-License-Identifier: GPL-2.0-only
#include "journal/descriptor.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/crc32c.h"
#include "base/endian.h"

namespace e4::journal {

namespace {
constexpr std::uint32_t kUuidBytes = 16;
constexpr std::uint32_t kHeaderBytes = sizeof(BlockHeader);

std::uint32_t tail_crc(std::span<const std::byte> block, const LogFormat& format) {
  const std::uint32_t zero = 0;
  const std::uint32_t body = crc32c(format.seed, block.first(block.size() - 4));
  return crc32c(body, &zero, sizeof zero);
}
}  // namespace

Header parse_header(std::span<const std::byte> block) {
  if (block.size() < kHeaderBytes || load<be32>(block.data()) != kMagic) return {};
  return {.is_log_block = true, .type = load<be32>(block.data(), 4), .tid = load<be32>(block.data(), 8)};
}

void write_header(std::span<std::byte> block, std::uint32_t type, Tid tid) {
  E4_ASSERT(block.size() >= kHeaderBytes);
  store<be32>(block.data(), 0, kMagic);
  store<be32>(block.data(), 4, type);
  store<be32>(block.data(), 8, tid);
}

void read_tags(std::span<const std::byte> block, const LogFormat& format, std::vector<Tag>& tags) {
  tags.clear();
  const std::size_t tag_bytes = format.tag_bytes();
  const std::size_t end = block.size() - format.tail_bytes();
  for (std::size_t at = kHeaderBytes; at + tag_bytes <= end;) {
    const std::byte* p = block.data() + at;
    Tag tag;
    tag.block = load<be32>(p);
    if (format.checksums == Checksums::v3) {
      tag.flags = load<be32>(p, 4);
      tag.checksum = load<be32>(p, 12);
    } else {
      tag.checksum = load<be16>(p, 4);
      tag.flags = load<be16>(p, 6);
    }
    if (format.wide) tag.block |= static_cast<Blk>(load<be32>(p, 8)) << 32;
    tags.push_back(tag);
    if (tag.flags & kTagLast) break;
    at += tag_bytes + ((tag.flags & kTagSameUuid) ? 0 : kUuidBytes);
  }
}

void write_descriptor(std::span<std::byte> block, const LogFormat& format, Tid tid, std::span<const Tag> tags,
                      std::span<const std::uint8_t, 16> uuid) {
  E4_ASSERT(tags.size() <= format.tags_per_descriptor());
  std::ranges::fill(block, std::byte{0});
  write_header(block, kDescriptorBlock, tid);
  std::size_t at = kHeaderBytes;
  for (std::size_t i = 0; i < tags.size(); ++i) {
    std::byte* p = block.data() + at;
    std::uint32_t flags = tags[i].flags & kTagEscape;
    if (i > 0) flags |= kTagSameUuid;
    if (i + 1 == tags.size()) flags |= kTagLast;
    store<be32>(p, 0, static_cast<std::uint32_t>(tags[i].block));
    if (format.checksums == Checksums::v3) {
      store<be32>(p, 4, flags);
      store<be32>(p, 12, tags[i].checksum);
    } else {
      store<be16>(p, 4, tags[i].checksum & 0xFFFF);
      store<be16>(p, 6, flags);
    }
    if (format.wide) store<be32>(p, 8, static_cast<std::uint32_t>(tags[i].block >> 32));
    at += format.tag_bytes();
    if (i == 0) {
      std::memcpy(block.data() + at, uuid.data(), kUuidBytes);
      at += kUuidBytes;
    }
  }
  seal_tail(block, format);
}

std::uint32_t data_checksum(const LogFormat& format, Tid tid, std::span<const std::byte> stored) {
  be32 sequence;
  sequence.set(tid);
  return crc32c(crc32c(format.seed, &sequence, sizeof sequence), stored);
}

bool data_checksum_ok(const LogFormat& format, Tid tid, const Tag& tag, std::span<const std::byte> stored) {
  switch (format.checksums) {
    case Checksums::none:
    case Checksums::v1: return true;
    case Checksums::v2: return (data_checksum(format, tid, stored) & 0xFFFF) == (tag.checksum & 0xFFFF);
    case Checksums::v3: return data_checksum(format, tid, stored) == tag.checksum;
  }
  return false;
}

bool tail_checksum_ok(std::span<const std::byte> block, const LogFormat& format) {
  return !format.sealed() || load<be32>(block.data(), block.size() - 4) == tail_crc(block, format);
}

void seal_tail(std::span<std::byte> block, const LogFormat& format) {
  if (format.sealed()) store<be32>(block.data(), block.size() - 4, tail_crc(block, format));
}

bool needs_escape(std::span<const std::byte> block) { return load<be32>(block.data()) == kMagic; }
void unescape(std::span<std::byte> block) { store<be32>(block.data(), 0, kMagic); }

}  // namespace e4::journal
