// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace e4::testing_support {

/// Damages the text of a trace as crashes, bad disks, editors and liars do: lines lost, doubled, moved, cut or made
/// up, numbers replaced by extremes. What it does follows from the seed alone.
class TraceMutator {
 public:
  explicit TraceMutator(std::string_view text);
  [[nodiscard]] std::string damaged(std::uint64_t seed) const;

 private:
  void change(std::vector<std::string>& lines, std::mt19937_64& random) const;
  std::vector<std::string> lines_;
};

/// Bytes of a file with one to four of: bits flipped, a run overwritten, cut off, a piece repeated.
std::string damaged_bytes(std::string bytes, std::uint64_t seed);

/// A raw image with some fields of superblock, group descriptors and bitmaps changed; three times in four the
/// superblock's checksum is made right again, so that the damage gets past it.
std::string damaged_image(std::string image, std::uint64_t seed);

}  // namespace e4::testing_support
