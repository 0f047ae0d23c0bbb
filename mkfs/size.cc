// SPDX-License-Identifier: GPL-2.0-only
#include "mkfs/size.h"

#include <charconv>
#include <string>

#include "base/units.h"

namespace e4::mkfs {

Result<std::uint64_t> parse_bytes(std::string_view text, std::uint64_t unit_bytes) {
  const std::string shown(text);
  std::uint64_t unit = unit_bytes;
  if (!text.empty()) {
    std::uint64_t suffix = 0;
    switch (text.back()) {
      case 'k': case 'K': suffix = kKiB; break;
      case 'm': case 'M': suffix = kMiB; break;
      case 'g': case 'G': suffix = kGiB; break;
      case 't': case 'T': suffix = 1024 * kGiB; break;
      case 's': case 'S': suffix = 512; break;
      default: break;
    }
    if (suffix != 0) {
      unit = suffix;
      text.remove_suffix(1);
    }
  }
  std::uint64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size())
    return make_error(ErrorKind::usage, "'" + shown + "' is not a size (a number, with k, m, g, t or s behind it)");
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(n, unit, &bytes) || bytes > INT64_MAX)
    return make_error(ErrorKind::usage, "size '" + shown + "' is too large");
  return bytes;
}

Result<std::uint64_t> parse_number(std::string_view text, std::uint64_t lo, std::uint64_t hi) {
  std::uint64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || n < lo || n > hi)
    return make_error(ErrorKind::usage, "'" + std::string(text) + "' is not a number from " + std::to_string(lo) +
                                            " to " + std::to_string(hi));
  return n;
}

}  // namespace e4::mkfs
