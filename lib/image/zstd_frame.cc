// SPDX-License-Identifier: GPL-2.0-only
#include "image/zstd_frame.h"

#include <array>

#include "base/endian.h"

namespace e4::image::zstd {

Error damaged(const std::string& name, const char* what) {
  return make_error(ErrorKind::corrupt, name + ": zstd: " + what);
}

Result<FrameHead> parse_frame_head(std::span<const std::byte> in, const std::string& name) {
  if (in.size() < 6) return damaged(name, "the file ends in a frame head");
  const auto at = [&](std::size_t i) { return static_cast<std::uint8_t>(in[i]); };
  const std::uint8_t descriptor = at(4);
  const bool single_segment = (descriptor & 0x20) != 0;
  constexpr std::array<std::size_t, 4> kDictBytes{0, 1, 2, 4};
  std::size_t size_bytes = std::size_t{1} << (descriptor >> 6);
  if ((descriptor >> 6) == 0) size_bytes = single_segment ? 1 : 0;
  const std::size_t dict_at = 5 + (single_segment ? 0 : 1);
  const std::size_t dict_bytes = kDictBytes[descriptor & 3];
  FrameHead h;
  h.bytes = dict_at + dict_bytes + size_bytes;
  h.checksum = (descriptor & 4) != 0;
  if (in.size() < h.bytes) return damaged(name, "the file ends in a frame head");
  for (std::size_t i = 0; i < dict_bytes; ++i)
    if (at(dict_at + i) != 0) return damaged(name, "needs a dictionary");
  if (single_segment) {
    std::uint64_t content = 0;
    for (std::size_t i = 0; i < size_bytes; ++i) content |= std::uint64_t{at(dict_at + dict_bytes + i)} << (8 * i);
    if (size_bytes == 2) content += 256;
    unsigned log = 10;
    while (log < 31 && (std::uint64_t{1} << log) < content) ++log;
    h.window_descriptor = static_cast<std::uint8_t>((log - 10) << 3);
  } else {
    h.window_descriptor = at(5);
  }
  const std::uint64_t base = std::uint64_t{1} << (10 + (h.window_descriptor >> 3));
  h.window = base + base / 8 * (h.window_descriptor & 7);
  if (h.window > (std::uint64_t{1} << 31)) return damaged(name, "window larger than 2 GiB");
  return h;
}

Result<Block> parse_block(std::span<const std::byte> in, const std::string& name) {
  if (in.size() < 3) return damaged(name, "the file ends in a block head");
  const std::uint32_t word = static_cast<std::uint32_t>(in[0]) | static_cast<std::uint32_t>(in[1]) << 8 |
                             static_cast<std::uint32_t>(in[2]) << 16;
  const unsigned type = word >> 1 & 3;
  Block b{};
  b.last = (word & 1) != 0;
  b.size = word >> 3;
  if (type == 3 || b.size > kMaxBlockBytes) return damaged(name, "block of an unknown type or size");
  b.type = static_cast<Block::Type>(type);
  const std::size_t content = b.type == Block::Type::rle ? 1 : b.size;
  if (in.size() - 3 < content) return damaged(name, "the file ends in a block");
  b.head_and_content = in.first(3 + content);
  return b;
}

Result<std::span<const std::byte>> next_frame(std::span<const std::byte> in, const std::string& name) {
  constexpr std::uint32_t kSkippable = 0x184D2A50;
  while (!in.empty()) {
    if (in.size() < 8) return damaged(name, "trailing bytes that are no frame");
    const auto magic = load<le32>(in.data());
    if (magic == kMagic) break;
    if ((magic & 0xFFFFFFF0U) != kSkippable) return damaged(name, "not a zstd frame");
    const std::uint64_t n = std::uint64_t{8} + load<le32>(in.data(), 4);
    if (n > in.size()) return damaged(name, "the file ends in a skippable frame");
    in = in.subspan(n);
  }
  return in;
}

}  // namespace e4::image::zstd
