// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

// The outer structure of a zstd file (RFC 8878): frames, and blocks in them.
namespace e4::image::zstd {

inline constexpr std::uint32_t kMagic = 0xFD2FB528;
inline constexpr std::size_t kMaxBlockBytes = 128 * 1024;

struct FrameHead {
  std::size_t bytes = 0;               // of the head itself
  std::uint64_t window = 0;            // bytes
  std::uint8_t window_descriptor = 0;
  bool checksum = false;               // 4 bytes behind the last block
};
Result<FrameHead> parse_frame_head(std::span<const std::byte> in, const std::string& name);

struct Block {
  enum class Type : std::uint8_t { raw, rle, compressed } type;
  bool last;
  std::uint32_t size;                  // raw, rle: of the content; compressed: in the file
  std::span<const std::byte> head_and_content;
  [[nodiscard]] std::span<const std::byte> content() const { return head_and_content.subspan(3); }
  [[nodiscard]] bool is_hole() const { return type == Type::rle && head_and_content[3] == std::byte{0}; }
};
Result<Block> parse_block(std::span<const std::byte> in, const std::string& name);

/// Skips skippable frames; the rest starts with a frame, or is empty.
Result<std::span<const std::byte>> next_frame(std::span<const std::byte> in, const std::string& name);

Error damaged(const std::string& name, const char* what);

}  // namespace e4::image::zstd
