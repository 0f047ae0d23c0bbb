// SPDX-License-Identifier: GPL-2.0-only
#include <algorithm>

#include "alloc/buddy.h"

namespace e4::alloc {

namespace {

using Word = bits::Word;
constexpr Word kEven = 0x5555555555555555ULL;

// The two operations of the inner loop, in a portable and a fast form.
struct PortableOps {
  /// Moves the even bits to the low half.
  static Word even_bits(Word x) {
    x &= kEven;
    x = (x | (x >> 1)) & 0x3333333333333333ULL;
    x = (x | (x >> 2)) & 0x0F0F0F0F0F0F0F0FULL;
    x = (x | (x >> 4)) & 0x00FF00FF00FF00FFULL;
    x = (x | (x >> 8)) & 0x0000FFFF0000FFFFULL;
    return (x | (x >> 16)) & 0x00000000FFFFFFFFULL;
  }
  static std::uint32_t count(Word x) { return static_cast<std::uint32_t>(std::popcount(x)); }
};

#if defined(__x86_64__)
// Assembly and not intrinsics: those would need the whole caller compiled for that CPU.
struct Bmi2Ops {
  static Word even_bits(Word x) {
    Word r;
    __asm__("pextq %2, %1, %0" : "=r"(r) : "r"(x), "r"(kEven));
    return r;
  }
  static std::uint32_t count(Word x) {
    Word r;
    __asm__("popcntq %1, %0" : "=r"(r) : "r"(x) : "cc");
    return static_cast<std::uint32_t>(r);
  }
};
#endif

struct Built {
  std::uint32_t free = 0, frags = 0;
  std::uint32_t* counts;
  Word* levels;
  std::uint16_t* starts;
};

/// Level by level: a chunk of order o+1 is free when both its halves are; a
/// free chunk whose parent is not free is a piece. That is the canonical
/// split, since its pieces are the greatest aligned chunks inside each run.
template <class Ops>
void build_levels(const BuddyShape& shape, const Word* bitmap, Built& out) {
  Word buffer[65536 * 8 / 64 / 2];  // free chunks of the level at hand, from order 1 up
  Word carry = 0;
  Word any = 0;
  std::uint32_t count0 = 0, begin = 0, free = 0;
  const std::uint32_t granule_words = 1U << (shape.granule_bits - 6);  // two or more
  const auto fold0 = [&](Word x) {
    free += Ops::count(x);
    begin += Ops::count(x & ~((x << 1) | carry));
    carry = x >> 63;
    const Word both = x & (x >> 1) & kEven;
    count0 += Ops::count(x & ~(both | (both << 1)));
    return Ops::even_bits(both);
  };
  for (std::uint32_t w = 0; w < shape.bitmap_words; w += 2) {
    const Word low = fold0(~bitmap[w]), high = fold0(~bitmap[w + 1]);
    buffer[w / 2] = low | (high << 32);
    any |= buffer[w / 2];
    if (((w + 2) & (granule_words - 1)) == 0) {
      out.starts[w >> (shape.granule_bits - 6)] = static_cast<std::uint16_t>(begin);
      out.frags += begin;
      begin = 0;
    }
  }
  out.counts[0] = count0;
  out.free = free;

  std::uint32_t words = shape.bitmap_words / 2;
  for (unsigned o = 1; o < shape.orders; ++o) {
    Word* level = out.levels + shape.level_at[o];
    if (any == 0) {
      std::fill(level, out.levels + shape.level_words, ~Word{0});
      std::fill(out.counts + o, out.counts + shape.orders, 0U);
      return;
    }
    std::uint32_t count = 0;
    any = 0;
    if (o == shape.orders - 1) {
      for (std::uint32_t w = 0; w < words; ++w) {
        count += Ops::count(buffer[w]);
        level[w] = ~buffer[w];
      }
    } else if (words == 1) {
      const Word x = buffer[0], both = x & (x >> 1) & kEven, piece = x & ~(both | (both << 1));
      count = Ops::count(piece);
      level[0] = ~piece;
      any = buffer[0] = Ops::even_bits(both);
    } else {
      const auto fold = [&count](Word x, Word& out_level) {
        const Word both = x & (x >> 1) & kEven, piece = x & ~(both | (both << 1));
        count += Ops::count(piece);
        out_level = ~piece;
        return Ops::even_bits(both);
      };
      for (std::uint32_t w = 0; w < words; w += 2) {
        const Word low = fold(buffer[w], level[w]), high = fold(buffer[w + 1], level[w + 1]);
        buffer[w / 2] = low | (high << 32);
        any |= buffer[w / 2];
      }
      words /= 2;
    }
    out.counts[o] = count;
  }
}

}  // namespace

BuddyShape::BuddyShape(std::uint32_t block_bytes)
    : bits(block_bytes * 8),
      orders(static_cast<std::uint32_t>(std::countr_zero(block_bytes)) + 2),
      bitmap_words(bits / 64),
      level_words(0),
      granule_bits(static_cast<unsigned>(std::countr_zero(bits / kGranules))) {
  for (unsigned o = 1; o < orders; ++o) {
    level_at[o] = level_words;
    level_words += std::max(1U, (bits >> o) / 64);
  }
}

void Buddy::build(std::uint32_t clusters) {
  starts_ = {};
  longest_.fill(kUnknown);
  Built out{0, 0, counts_.data(), levels_, starts_.data()};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt")) {
    build_levels<Bmi2Ops>(*shape_, bits_, out);
  } else {
    build_levels<PortableOps>(*shape_, bits_, out);
  }
#else
  build_levels<PortableOps>(*shape_, bits_, out);
#endif
  free_ = out.free;
  frags_ = out.frags;
  lo_hint_ = bits::next_zero(bits_, 0, clusters);
  order_mask_ = 0;
  for (unsigned o = 0; o < shape_->orders; ++o)
    if (counts_[o] != 0) order_mask_ |= 1U << o;
}

}  // namespace e4::alloc
