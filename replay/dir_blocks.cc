// SPDX-License-Identifier: GPL-2.0-only
#include "replay/dir_blocks.h"

#include <cstring>

#include "base/endian.h"

namespace e4::replay {
namespace {

constexpr std::size_t kTailBytes = 12;

std::size_t record_bytes(std::size_t name_bytes) { return (8 + name_bytes + 3) & ~std::size_t{3}; }

std::size_t usable_bytes(image::Filsys& fs) {
  const bool tail = ext2fs_has_feature_metadata_csum(&fs.super()) != 0;
  return fs.block_bytes() - (tail ? kTailBytes : 0);
}

/// A record length as stored: with 64 KiB blocks 65536 is written as 0 (65532 and less stand as they are).
void put_record_length(std::byte* at, std::size_t bytes) {
  store<le16>(at, 4, bytes == 65536 ? 0U : static_cast<std::uint32_t>(bytes));
}

}  // namespace

std::vector<Name> parse_dir_block(image::Filsys& fs, const std::vector<std::byte>& block) {
  std::vector<Name> names;
  std::size_t at = 0;
  while (at + 8 <= block.size()) {
    std::size_t rec = load<le16>(block.data(), at + 4);
    if (block.size() == 65536 && (rec == 0 || rec == 65535)) rec = 65536;
    const auto ino = load<le32>(block.data(), at);
    const auto name_bytes = std::to_integer<std::size_t>(block[at + 6]);
    if (rec < 8 || rec % 4 != 0 || rec > block.size() - at || 8 + name_bytes > rec) break;
    if (ino != 0 && name_bytes != 0) {
      Name n;
      n.ino = ino;
      n.type = ext2fs_has_feature_filetype(&fs.super()) != 0 ? std::to_integer<std::uint8_t>(block[at + 7]) : 0;
      n.name.assign(reinterpret_cast<const char*>(block.data() + at + 8), name_bytes);
      names.push_back(std::move(n));
    }
    at += rec;
  }
  return names;
}

std::vector<std::vector<std::byte>> pack_dir_blocks(image::Filsys& fs, const std::vector<Name>& names, std::size_t blocks,
                                                    std::vector<Name>& rest) {
  const std::size_t usable = usable_bytes(fs);
  const bool filetype = ext2fs_has_feature_filetype(&fs.super()) != 0;
  std::vector<std::vector<std::byte>> out;
  std::size_t next = 0;
  for (std::size_t b = 0; b < blocks; ++b) {
    auto& block = out.emplace_back(fs.block_bytes());
    std::size_t at = 0, last = 0;
    while (next < names.size() && at + record_bytes(names[next].name.size()) <= usable) {
      const Name& n = names[next++];
      const std::size_t rec = record_bytes(n.name.size());
      store<le32>(block.data(), at, n.ino);
      put_record_length(block.data() + at, rec);
      block[at + 6] = static_cast<std::byte>(n.name.size());
      block[at + 7] = filetype ? static_cast<std::byte>(n.type) : std::byte{};
      std::memcpy(block.data() + at + 8, n.name.data(), n.name.size());
      last = at;
      at += rec;
    }
    put_record_length(block.data() + last, usable - last);  // the last entry reaches the end; an empty block is one free entry
    if (usable != fs.block_bytes()) {
      std::byte* tail = block.data() + usable;
      put_record_length(tail, kTailBytes);
      tail[7] = std::byte{0xDE};
    }
  }
  rest.assign(names.begin() + static_cast<std::ptrdiff_t>(next), names.end());
  return out;
}

}  // namespace e4::replay
