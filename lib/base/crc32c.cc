// SPDX-License-Identifier: GPL-2.0-only
#include "base/crc32c.h"

#include <array>
#include <cstring>

#include "base/endian.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace e4 {
namespace {

constexpr std::uint32_t kPoly = 0x82F63B78;

using Table = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Table make_table() {
  Table t{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int k = 0; k < 8; ++k) c = (c & 1) ? (c >> 1) ^ kPoly : c >> 1;
    t[0][i] = c;
  }
  for (std::size_t i = 0; i < 256; ++i)
    for (std::size_t k = 1; k < 8; ++k) t[k][i] = (t[k - 1][i] >> 8) ^ t[0][t[k - 1][i] & 0xFF];
  return t;
}
constexpr Table kTable = make_table();

#if defined(__x86_64__)
// Advancing a crc over `n` zero bytes is a linear map of its 32 bits; with it
// three independent streams run through the three-cycle instruction at once.
using Shift = std::array<std::array<std::uint32_t, 256>, 4>;

constexpr std::uint32_t zeros(std::uint32_t c, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) c = (c >> 8) ^ kTable[0][c & 0xFF];
  return c;
}
Shift make_shift(std::size_t n) {
  Shift s{};
  std::array<std::uint32_t, 32> bit{};
  for (std::size_t b = 0; b < 32; ++b) bit[b] = zeros(1U << b, n);
  for (std::size_t k = 0; k < 4; ++k)
    for (std::uint32_t v = 0; v < 256; ++v)
      for (std::size_t b = 0; b < 8; ++b)
        if (v & (1U << b)) s[k][v] ^= bit[8 * k + b];
  return s;
}
std::uint32_t shift(const Shift& s, std::uint32_t c) {
  return s[0][c & 0xFF] ^ s[1][(c >> 8) & 0xFF] ^ s[2][(c >> 16) & 0xFF] ^ s[3][c >> 24];
}

constexpr std::size_t kLane = 336;  // bytes of each of the three streams in one round; 12 rounds of 84 words in 4 KiB

[[gnu::target("sse4.2")]] std::uint32_t crc32c_sse42(std::uint32_t start, const void* data, std::size_t bytes) {
  static const Shift one = make_shift(kLane), two = make_shift(2 * kLane);
  const auto* p = static_cast<const unsigned char*>(data);
  std::uint64_t c = start;
  auto word = [](const unsigned char* q) {
    std::uint64_t w;
    std::memcpy(&w, q, 8);
    return w;
  };
  while (bytes >= 3 * kLane) {
    std::uint64_t a = c, b = 0, d = 0;
    for (std::size_t i = 0; i < kLane; i += 8) {
      a = _mm_crc32_u64(a, word(p + i));
      b = _mm_crc32_u64(b, word(p + kLane + i));
      d = _mm_crc32_u64(d, word(p + 2 * kLane + i));
    }
    c = shift(two, static_cast<std::uint32_t>(a)) ^ shift(one, static_cast<std::uint32_t>(b)) ^ d;
    p += 3 * kLane;
    bytes -= 3 * kLane;
  }
  for (; bytes >= 8; bytes -= 8, p += 8) c = _mm_crc32_u64(c, word(p));
  auto r = static_cast<std::uint32_t>(c);
  for (; bytes != 0; --bytes, ++p) r = _mm_crc32_u8(r, *p);
  return r;
}
#endif

}  // namespace

namespace detail {

std::uint32_t crc32c_portable(std::uint32_t c, const void* data, std::size_t bytes) {
  const auto* p = static_cast<const unsigned char*>(data);
  for (; bytes >= 8; bytes -= 8, p += 8) {
    std::uint32_t lo = load<le32>(p) ^ c, hi = load<le32>(p, 4);
    c = kTable[7][lo & 0xFF] ^ kTable[6][(lo >> 8) & 0xFF] ^ kTable[5][(lo >> 16) & 0xFF] ^ kTable[4][lo >> 24] ^
        kTable[3][hi & 0xFF] ^ kTable[2][(hi >> 8) & 0xFF] ^ kTable[1][(hi >> 16) & 0xFF] ^ kTable[0][hi >> 24];
  }
  for (; bytes != 0; --bytes, ++p) c = (c >> 8) ^ kTable[0][(c ^ *p) & 0xFF];
  return c;
}

}  // namespace detail

std::uint32_t crc32c(std::uint32_t start, const void* data, std::size_t bytes) {
#if defined(__x86_64__)
  static const bool has_sse42 = __builtin_cpu_supports("sse4.2") != 0;
  if (has_sse42) return crc32c_sse42(start, data, bytes);
#endif
  return detail::crc32c_portable(start, data, bytes);
}

std::uint32_t crc32c_le32(std::uint32_t start, std::uint32_t value) {
  le32 v;
  v.set(value);
  return crc32c(start, &v, sizeof v);
}

std::uint32_t crc32c_le64(std::uint32_t start, std::uint64_t value) {
  le64 v;
  v.set(value);
  return crc32c(start, &v, sizeof v);
}

}  // namespace e4
