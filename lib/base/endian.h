// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace e4 {

static_assert(std::endian::native == std::endian::little || std::endian::native == std::endian::big);

constexpr std::uint16_t byteswap(std::uint16_t v) { return __builtin_bswap16(v); }
constexpr std::uint32_t byteswap(std::uint32_t v) { return __builtin_bswap32(v); }
constexpr std::uint64_t byteswap(std::uint64_t v) { return __builtin_bswap64(v); }

/// An integer stored in a fixed byte order, alignment 1, trivially copyable:
/// a member of on-disk structures.
template <class T, std::endian Order>
struct [[gnu::packed]] Stored {
  std::uint8_t bytes[sizeof(T)];
  constexpr T get() const {
    T v = std::bit_cast<T>(bytes_copy());
    return Order == std::endian::native ? v : byteswap(v);
  }
  void set(T v) {
    if (Order != std::endian::native) v = byteswap(v);
    std::memcpy(bytes, &v, sizeof v);
  }
  constexpr operator T() const { return get(); }  // NOLINT(google-explicit-constructor)
  Stored& operator=(T v) { set(v); return *this; }

 private:
  struct Raw { std::uint8_t b[sizeof(T)]; };
  constexpr Raw bytes_copy() const {
    Raw r{};
    for (std::size_t i = 0; i < sizeof(T); ++i) r.b[i] = bytes[i];
    return r;
  }
};

using le16 = Stored<std::uint16_t, std::endian::little>;
using le32 = Stored<std::uint32_t, std::endian::little>;
using le64 = Stored<std::uint64_t, std::endian::little>;
using be16 = Stored<std::uint16_t, std::endian::big>;
using be32 = Stored<std::uint32_t, std::endian::big>;
using be64 = Stored<std::uint64_t, std::endian::big>;
static_assert(sizeof(le16) == 2 && sizeof(be64) == 8 && alignof(be64) == 1);

/// Unaligned reads and writes at a byte offset; the caller has checked the bounds.
template <class S>
auto load(const void* p, std::size_t offset = 0) {
  S s;
  std::memcpy(&s, static_cast<const char*>(p) + offset, sizeof s);
  return s.get();
}
template <class S, class T>
void store(void* p, std::size_t offset, T v) {
  S s;
  s.set(static_cast<decltype(s.get())>(v));
  std::memcpy(static_cast<char*>(p) + offset, &s, sizeof s);
}

}  // namespace e4
