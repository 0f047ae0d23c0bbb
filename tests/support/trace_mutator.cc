// SPDX-License-Identifier: GPL-2.0-only
#include "support/trace_mutator.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/crc32c.h"

namespace e4::testing_support {
namespace {

std::size_t below(std::mt19937_64& random, std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(random() % n); }

std::string number(std::mt19937_64& random) {
  static constexpr std::array kExtremes = {
      "0",          "1",          "-1",         "-2147483648", "2147483647", "4294967295", "4294967296", "4294967280",
      "9223372036854775807",      "-9223372036854775808",      "18446744073709551615",     "99999999999999999999999",
      "32767",      "32768",      "65535",      "65536",       "8191",       "1048577",    "12",         "7"};
  return kExtremes[below(random, kExtremes.size())];
}

/// Replaces one number of the line, behind the event's name if there is one.
void replace_number(std::string& line, std::mt19937_64& random) {
  std::vector<std::pair<std::size_t, std::size_t>> found;
  std::size_t at = line.find(": ");
  at = at == std::string::npos || below(random, 8) == 0 ? 0 : at + 2;
  while ((at = line.find_first_of("0123456789", at)) != std::string::npos) {
    std::size_t end = line.find_first_not_of("0123456789", at);
    if (end == std::string::npos) end = line.size();
    found.emplace_back(at, end - at);
    at = end;
  }
  if (found.empty()) return;
  const auto [from, n] = found[below(random, found.size())];
  line.replace(from, n, number(random));
}

}  // namespace

TraceMutator::TraceMutator(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines_.emplace_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
}

void TraceMutator::change(std::vector<std::string>& lines, std::mt19937_64& random) const {
  const std::size_t n = lines.size();
  if (n == 0) return;
  const std::size_t i = below(random, n), j = below(random, n);
  switch (below(random, 12)) {
    case 0: lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(i)); return;
    case 1: lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(j), std::string(lines[i])); return;
    case 2: std::swap(lines[i], lines[j]); return;
    case 3: lines[i].resize(below(random, lines[i].size() + 1)); return;
    case 4:
      if (!lines[i].empty()) lines[i][below(random, lines[i].size())] = static_cast<char>(random());
      return;
    case 5: {  // a stretch is lost
      const std::size_t m = std::min(n - i, 1 + below(random, 200));
      lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(i), lines.begin() + static_cast<std::ptrdiff_t>(i + m));
      if (below(random, 2) == 0)
        lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(i), "CPU:" + std::to_string(below(random, 3)) + " [LOST " + number(random) + " EVENTS]");
      return;
    }
    case 6: {  // a whole kind of event is missing
      const std::size_t from = lines[i].find(": ");
      if (from == std::string::npos) return;
      const std::string kind = lines[i].substr(from, lines[i].find(": ", from + 2) - from + 1);
      std::erase_if(lines, [&](const std::string& l) { return l.find(kind) != std::string::npos; });
      return;
    }
    case 7: {  // one thread's lines come from another
      const std::string& other = lines[j];
      const std::size_t a = lines[i].find('['), b = other.find('[');
      if (a != std::string::npos && b != std::string::npos) lines[i].replace(0, a, other.substr(0, b));
      return;
    }
    default: replace_number(lines[i], random); return;
  }
}

std::string TraceMutator::damaged(std::uint64_t seed) const {
  std::mt19937_64 random(seed);
  std::vector<std::string> lines = lines_;
  for (std::size_t n = std::size_t{1} << below(random, 8); n > 0; --n) change(lines, random);
  std::string text;
  for (const std::string& l : lines) text += l + "\n";
  if (below(random, 4) == 0) text.resize(below(random, text.size() + 1));
  return text;
}

std::string damaged_bytes(std::string bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::size_t n = 1 + below(random, 4); n > 0 && !bytes.empty(); --n) {
    const std::size_t at = below(random, below(random, 2) == 0 ? bytes.size() : std::min<std::size_t>(bytes.size(), 256));
    switch (below(random, 4)) {
      case 0: bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(random, 8))); break;
      case 1: {
        const std::uint64_t word = below(random, 2) == 0 ? random() : ~std::uint64_t{0};
        std::memcpy(bytes.data() + at, &word, std::min<std::size_t>(1 + below(random, 8), bytes.size() - at));
        break;
      }
      case 2:
        if (below(random, 3) == 0) bytes.resize(at);
        break;
      default: bytes.insert(at, bytes.substr(below(random, bytes.size()), below(random, 300)));
    }
  }
  return bytes;
}

std::string damaged_image(std::string image, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  if (image.size() < 4096) return image;
  char* super = image.data() + 1024;
  std::uint32_t log_block = 0;
  std::memcpy(&log_block, super + 24, 4);
  const std::size_t block = std::size_t{1024} << std::min(log_block, 6U);
  for (std::size_t n = 1 + below(random, 3); n > 0; --n) {
    // Superblock fields up to the journal's backup, then anywhere in the first blocks (descriptors, bitmaps, inodes).
    const bool in_super = below(random, 3) != 0;
    const std::size_t at = in_super ? 1024 + below(random, below(random, 3) == 0 ? 1020 : 264) / 2 * 2
                                    : below(random, std::min(image.size() - 8, block * 64));
    static constexpr std::array<std::uint32_t, 10> kValues = {0, 1, 2, 31, 32, 64, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFF};
    const std::uint32_t value = below(random, 3) == 0 ? static_cast<std::uint32_t>(random()) : kValues[below(random, kValues.size())];
    const std::size_t size = std::size_t{1} << below(random, 3);
    if (below(random, 4) == 0) image[at] = static_cast<char>(image[at] ^ (1 << below(random, 8)));
    else std::memcpy(image.data() + at, &value, size);
  }
  if (below(random, 4) != 0) {
    const std::uint32_t sum = crc32c(~0U, super, 1020);
    std::memcpy(super + 1020, &sum, 4);
  }
  if (below(random, 10) == 0) image.resize(below(random, image.size()));
  return image;
}

}  // namespace e4::testing_support
