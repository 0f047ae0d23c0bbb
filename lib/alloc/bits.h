// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

// Runs of bits in 64-bit words. Positions and limits count bits; bit i is bit
// i % 64 of word i / 64. The caller guarantees from <= limit and that the
// words cover the limit.
namespace e4::alloc::bits {

using Word = std::uint64_t;

inline bool test(const Word* w, std::uint32_t i) { return (w[i >> 6] >> (i & 63)) & 1; }
inline void set(Word* w, std::uint32_t i) { w[i >> 6] |= Word{1} << (i & 63); }
inline void clear(Word* w, std::uint32_t i) { w[i >> 6] &= ~(Word{1} << (i & 63)); }

namespace detail {
#if defined(__x86_64__)
inline const bool kPopcnt = __builtin_cpu_supports("popcnt") != 0;
#endif
template <bool kOne>
inline std::uint32_t find_next(const Word* w, std::uint32_t from, std::uint32_t limit) {
  if (from >= limit) return limit;
  std::uint32_t i = from >> 6;
  Word x = (kOne ? w[i] : ~w[i]) & (~Word{0} << (from & 63));
  const std::uint32_t last = (limit - 1) >> 6;
  while (x == 0) {
    if (++i > last) return limit;
    x = kOne ? w[i] : ~w[i];
  }
  return std::min(limit, i * 64 + static_cast<std::uint32_t>(std::countr_zero(x)));
}
/// Calls f(word index, mask) for each word of [from, from + len).
template <class F>
inline void for_words(std::uint32_t from, std::uint32_t len, F f) {
  while (len > 0) {
    const std::uint32_t at = from & 63, n = std::min(64 - at, len);
    f(from >> 6, (n == 64 ? ~Word{0} : ((Word{1} << n) - 1)) << at);
    from += n;
    len -= n;
  }
}
}  // namespace detail

/// Set bits of a word; by the CPU's instruction where there is one (the baseline x86-64 target has none, and the
/// compiler's fallback is a call).
inline std::uint32_t count(Word x) {
#if defined(__x86_64__)
  if (detail::kPopcnt) [[likely]] {
    Word r;
    __asm__("popcntq %1, %0" : "=r"(r) : "r"(x) : "cc");
    return static_cast<std::uint32_t>(r);
  }
#endif
  return static_cast<std::uint32_t>(std::popcount(x));
}
/// First set (clear) bit in [from, limit), else limit.
inline std::uint32_t next_one(const Word* w, std::uint32_t from, std::uint32_t limit) {
  return detail::find_next<true>(w, from, limit);
}
inline std::uint32_t next_zero(const Word* w, std::uint32_t from, std::uint32_t limit) {
  return detail::find_next<false>(w, from, limit);
}
/// Start of the run of clear bits that holds `at`, not before `from`.
inline std::uint32_t zeros_from(const Word* w, std::uint32_t at, std::uint32_t from) {
  std::uint32_t i = at >> 6;
  Word x = w[i] & (~Word{0} >> (63 - (at & 63)));
  while (x == 0) {
    if (i * 64 <= from) return from;
    x = w[--i];
  }
  return std::max(from, i * 64 + 64 - static_cast<std::uint32_t>(std::countl_zero(x)));
}
inline void set_range(Word* w, std::uint32_t from, std::uint32_t len) {
  detail::for_words(from, len, [w](std::uint32_t i, Word m) { w[i] |= m; });
}
inline void clear_range(Word* w, std::uint32_t from, std::uint32_t len) {
  detail::for_words(from, len, [w](std::uint32_t i, Word m) { w[i] &= ~m; });
}
inline bool all_zero(const Word* w, std::uint32_t from, std::uint32_t len) {
  return len == 0 || next_one(w, from, from + len) == from + len;
}
inline bool all_one(const Word* w, std::uint32_t from, std::uint32_t len) {
  return len == 0 || next_zero(w, from, from + len) == from + len;
}
inline std::uint32_t count_zero(const Word* w, std::uint32_t from, std::uint32_t len) {
  std::uint32_t n = 0;
  detail::for_words(from, len, [&](std::uint32_t i, Word m) { n += count(~w[i] & m); });
  return n;
}
/// Number of significant bits: 0 for 0, 1 for 1, 10 for 512.
inline unsigned width(std::uint64_t x) { return static_cast<unsigned>(std::bit_width(x)); }

}  // namespace e4::alloc::bits
