// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace e4::mkfs {

/// A number with an optional unit, in bytes: k, m, g, t are powers of 1024,
/// s is sectors of 512 bytes, and a bare number counts `unit_bytes`. Either
/// case. Errors: not a number, 0 not excluded, above 2^63 - 1 bytes.
Result<std::uint64_t> parse_bytes(std::string_view text, std::uint64_t unit_bytes);

/// A bare decimal number in [lo, hi].
Result<std::uint64_t> parse_number(std::string_view text, std::uint64_t lo, std::uint64_t hi);

constexpr bool is_power_of_two(std::uint64_t n) { return n != 0 && (n & (n - 1)) == 0; }
constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) { return a / b + (a % b != 0); }

}  // namespace e4::mkfs
