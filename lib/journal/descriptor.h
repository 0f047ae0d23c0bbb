// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/units.h"
#include "journal/format.h"
#include "journal/superblock.h"

namespace e4::journal {

/// One block tag of a descriptor: the block behind it belongs to `block`.
struct Tag {
  Blk block = 0;
  std::uint32_t flags = 0;     // kTagEscape, kTagSameUuid, kTagLast
  std::uint32_t checksum = 0;  // v3: 32 bits; v2: the low 16; else unused

  [[nodiscard]] bool escaped() const { return (flags & kTagEscape) != 0; }
};

/// Whether `block` starts with the jbd2 magic and, if so, type and tid.
struct Header {
  bool is_log_block = false;
  std::uint32_t type = 0;
  Tid tid = 0;
};
Header parse_header(std::span<const std::byte> block);
void write_header(std::span<std::byte> block, std::uint32_t type, Tid tid);

/// The tags of a descriptor in order, up to the one flagged LAST or to where
/// the next would not fit. Never reads outside `block`, whatever it holds.
void read_tags(std::span<const std::byte> block, const LogFormat& format, std::vector<Tag>& tags);

/// Fills a whole descriptor. The first tag gets `uuid` behind it, the last one
/// LAST; flags ESCAPE and checksum are the caller's. At most
/// format.tags_per_descriptor() tags. Sealed if the format says so.
void write_descriptor(std::span<std::byte> block, const LogFormat& format, Tid tid, std::span<const Tag> tags,
                      std::span<const std::uint8_t, 16> uuid);

/// crc32c of a data block as stored in the log (still escaped), v2 and v3.
std::uint32_t data_checksum(const LogFormat& format, Tid tid, std::span<const std::byte> stored);
/// Whether the tag's checksum fits; true in formats that have none.
bool data_checksum_ok(const LogFormat& format, Tid tid, const Tag& tag, std::span<const std::byte> stored);

/// Checksum in the last four bytes of descriptor and revoke blocks (v2, v3):
/// ok is true in other formats, seal does nothing there.
bool tail_checksum_ok(std::span<const std::byte> block, const LogFormat& format);
void seal_tail(std::span<std::byte> block, const LogFormat& format);

/// Escaping: true if the first four bytes are the magic. unescape puts it back.
bool needs_escape(std::span<const std::byte> block);
void unescape(std::span<std::byte> block);

}  // namespace e4::journal
