// SPDX-License-Identifier: GPL-2.0-only
#include "journal/crc32_be.h"

#include <array>

#include "base/endian.h"

namespace e4::journal {

namespace {

constexpr std::uint32_t kPolynomial = 0x04C11DB7;
using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

// tables[k][b]: what byte b does to the remainder when k more bytes follow it.
constexpr Tables make_tables() {
  Tables t{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t r = b << 24;
    for (int bit = 0; bit < 8; ++bit) r = (r & 0x80000000U) ? (r << 1) ^ kPolynomial : r << 1;
    t[0][b] = r;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t b = 0; b < 256; ++b) t[k][b] = (t[k - 1][b] << 8) ^ t[0][t[k - 1][b] >> 24];
  }
  return t;
}
constexpr Tables kTables = make_tables();

}  // namespace

std::uint32_t crc32_be(std::uint32_t start, std::span<const std::byte> data) {
  std::uint32_t r = start;
  const auto* p = reinterpret_cast<const unsigned char*>(data.data());
  std::size_t left = data.size();
  for (; left >= 8; left -= 8, p += 8) {
    const std::uint32_t a = r ^ load<be32>(p);
    const std::uint32_t b = load<be32>(p, 4);
    r = kTables[7][a >> 24] ^ kTables[6][(a >> 16) & 255] ^ kTables[5][(a >> 8) & 255] ^ kTables[4][a & 255] ^
        kTables[3][b >> 24] ^ kTables[2][(b >> 16) & 255] ^ kTables[1][(b >> 8) & 255] ^ kTables[0][b & 255];
  }
  for (; left > 0; --left, ++p) r = (r << 8) ^ kTables[0][(r >> 24) ^ *p];
  return r;
}

}  // namespace e4::journal
