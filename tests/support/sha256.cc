// SPDX-License-Identifier: GPL-2.0-only
#include "support/sha256.h"

#include <fmt/core.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace e4::testing_support {

namespace {

using State = std::array<std::uint32_t, 8>;

// The constants are the fractional parts of roots of the first primes.
std::uint32_t fraction_bits(long double root) {
  return static_cast<std::uint32_t>((root - std::floor(root)) * 4294967296.0L);
}
struct Constants {
  State start{};
  std::array<std::uint32_t, 64> round{};
  Constants() {
    std::size_t n = 0;
    for (unsigned p = 2; n < round.size(); ++p) {
      bool prime = true;
      for (unsigned d = 2; d * d <= p; ++d) prime = prime && p % d != 0;
      if (!prime) continue;
      if (n < start.size()) start[n] = fraction_bits(std::sqrt(static_cast<long double>(p)));
      round[n++] = fraction_bits(std::cbrt(static_cast<long double>(p)));
    }
  }
};

void mix(State& h, const unsigned char* block, const Constants& k) {
  std::array<std::uint32_t, 64> w;
  for (std::size_t i = 0; i < 16; ++i)
    w[i] = std::uint32_t{block[4 * i]} << 24 | std::uint32_t{block[4 * i + 1]} << 16 | std::uint32_t{block[4 * i + 2]} << 8 | block[4 * i + 3];
  using std::rotr;
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + w[i - 7] + (rotr(a, 7) ^ rotr(a, 18) ^ (a >> 3)) + (rotr(b, 17) ^ rotr(b, 19) ^ (b >> 10));
  }
  State s = h;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t t1 = s[7] + (rotr(s[4], 6) ^ rotr(s[4], 11) ^ rotr(s[4], 25)) + ((s[4] & s[5]) ^ (~s[4] & s[6])) + k.round[i] + w[i];
    const std::uint32_t t2 = (rotr(s[0], 2) ^ rotr(s[0], 13) ^ rotr(s[0], 22)) + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
    s = {t1 + t2, s[0], s[1], s[2], s[3] + t1, s[4], s[5], s[6]};
  }
  for (std::size_t i = 0; i < 8; ++i) h[i] += s[i];
}

}  // namespace

std::string sha256_hex(const void* data, std::size_t bytes) {
  static const Constants k;
  State h = k.start;
  const auto* p = static_cast<const unsigned char*>(data);
  std::size_t left = bytes;
  for (; left >= 64; left -= 64, p += 64) mix(h, p, k);
  unsigned char last[128] = {};
  if (left != 0) std::memcpy(last, p, left);
  last[left] = 0x80;
  const std::size_t padded = left < 56 ? 64 : 128;
  for (std::size_t i = 0; i < 8; ++i) last[padded - 1 - i] = static_cast<unsigned char>((std::uint64_t{bytes} * 8) >> (8 * i));
  for (std::size_t at = 0; at < padded; at += 64) mix(h, last + at, k);
  std::string s;
  for (const std::uint32_t v : h) s += fmt::format("{:08x}", v);
  return s;
}

}  // namespace e4::testing_support
