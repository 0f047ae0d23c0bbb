// SPDX-License-Identifier: GPL-2.0-only
#include "alloc/buddy.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"

namespace e4::alloc {
namespace {

/// A buddy with its memory.
struct Owned {
  explicit Owned(std::uint32_t block_bytes, std::uint32_t clusters_in_group = 0)
      : shape(block_bytes),
        clusters(clusters_in_group ? clusters_in_group : shape.bits),
        bitmap(shape.bitmap_words),
        levels(shape.level_words) {
    buddy.attach(&shape, bitmap.data(), levels.data());
    bits::set_range(bitmap.data(), clusters, shape.bits - clusters);
  }
  BuddyShape shape;
  std::uint32_t clusters;
  std::vector<bits::Word> bitmap, levels;
  Buddy buddy;
};

/// The split by its definition, run by run from the left.
struct Naive {
  explicit Naive(const Owned& o) : pieces(o.shape.bits, -1) {
    const std::uint32_t cap = 1U << (o.shape.orders - 1);
    for (std::uint32_t p = 0; p < o.shape.bits;) {
      if (o.buddy.used(p)) {
        ++p;
        continue;
      }
      std::uint32_t end = p;
      while (end < o.shape.bits && !o.buddy.used(end)) ++end;
      ++frags;
      free += end - p;
      while (p < end) {
        std::uint32_t size = 1;
        while (size * 2 <= end - p && p % (size * 2) == 0 && size < cap) size *= 2;
        pieces[p] = static_cast<int>(std::countr_zero(size));
        ++counts[static_cast<std::size_t>(pieces[p])];
        p += size;
      }
    }
  }
  std::vector<int> pieces;  // order of the piece that begins here, else -1
  std::array<std::uint32_t, kMaxOrders> counts{};
  std::uint32_t free = 0, frags = 0;
};

void expect_canonical(const Owned& o) {
  const Naive n(o);
  ASSERT_EQ(o.buddy.free(), n.free);
  ASSERT_EQ(o.buddy.frags(), n.frags);
  ASSERT_EQ(o.buddy.counters().counters, n.counts);
  for (unsigned order = 1; order < o.shape.orders; ++order)
    for (std::uint32_t i = 0; i < o.shape.bits >> order; ++i)
      ASSERT_EQ(o.buddy.is_piece(order, i), n.pieces[i << order] == static_cast<int>(order)) << order << '/' << i;
}

void shred(Owned& o, Random& random, unsigned percent_free, std::uint32_t longest) {
  bits::set_range(o.bitmap.data(), 0, o.shape.bits);
  std::uint32_t freed = 0;
  for (std::uint32_t tries = 0; freed < o.clusters / 100 * percent_free && tries < 20000; ++tries) {
    const auto len = static_cast<std::uint32_t>(random.between(1, longest));
    const auto at = static_cast<std::uint32_t>(random.below(o.clusters));
    const std::uint32_t n = std::min(len, o.clusters - at);
    freed += n;
    bits::clear_range(o.bitmap.data(), at, n);
  }
  o.buddy.build(o.clusters);
}

TEST(Buddy, BuildGivesTheCanonicalSplit) {
  Random random(20261130);
  for (const std::uint32_t block_bytes : {1024U, 2048U, 4096U, 65536U}) {
    for (const std::uint32_t longest : {1U, 3U, 70U, 3000U}) {
      Owned o(block_bytes, random.one_in(2) ? 0 : block_bytes * 8 - 7);
      shred(o, random, 40, longest);
      expect_canonical(o);
      EXPECT_EQ(o.buddy.lo_hint(), o.buddy.next_free(0, o.clusters));
    }
    Owned empty(block_bytes);
    empty.buddy.build(empty.clusters);
    expect_canonical(empty);
    EXPECT_EQ(empty.buddy.top(), static_cast<int>(empty.shape.orders) - 1);
  }
}

TEST(Buddy, TakingAndGivingBackKeepTheSplit) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Owned o(1024, seed % 3 == 0 ? 8000 : 0);
    shred(o, random, static_cast<unsigned>(random.between(5, 100)), static_cast<std::uint32_t>(random.between(1, 600)));
    for (int step = 0; step < 400; ++step) {
      const auto at = static_cast<std::uint32_t>(random.below(o.clusters));
      const auto want = static_cast<std::uint32_t>(random.between(1, random.one_in(4) ? 900 : 20));
      const bool take = !o.buddy.used(at);
      const std::uint32_t stop = take ? o.buddy.next_used(at, o.clusters) : o.buddy.next_free(at, o.clusters);
      const std::uint32_t n = std::min(want, stop - at);
      if (take) {
        o.buddy.mark_used(at, n);
      } else {
        o.buddy.mark_free(at, n);
      }
      if (step % 20 == 0) expect_canonical(o);
      Owned again(1024, o.clusters);
      again.bitmap = o.bitmap;
      again.buddy.build(o.clusters);
      ASSERT_TRUE(o.buddy.same_split(again.buddy)) << "step " << step;
      ASSERT_LE(o.buddy.lo_hint(), again.buddy.lo_hint());
    }
  }
}

TEST(Buddy, BrokenPieceIsReported) {
  Owned o(4096);
  bits::set_range(o.bitmap.data(), 0, 78);
  o.buddy.build(o.clusters);
  // Pieces 2@78, 16@80, 32@96: the first two vanish whole, 22 are left when the third breaks.
  const Buddy::Broken b = o.buddy.mark_used(78, 40);
  EXPECT_EQ(b.tail, 22U);
  EXPECT_EQ(b.broken, 32U);
}

/// find_run by its definition: the rest of the piece at c, then whole pieces.
std::uint32_t naive_run(const Owned& o, const Naive& n, std::uint32_t c, std::uint32_t need) {
  if (o.buddy.used(c)) return 0;
  std::uint32_t p = c;
  while (n.pieces[p] < 0) --p;
  std::uint32_t end = p + (1U << n.pieces[p]);
  while (end - c < need && end < o.shape.bits && n.pieces[end] >= 0) end += 1U << n.pieces[end];
  return end - c;
}

TEST(Buddy, FindRunCountsWholePieces) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Owned o(1024, seed % 2 ? 8001 : 0);
    shred(o, random, static_cast<unsigned>(random.between(5, 100)), static_cast<std::uint32_t>(random.between(1, 2000)));
    const Naive n(o);
    for (int i = 0; i < 2000; ++i) {
      const auto c = static_cast<std::uint32_t>(random.below(o.clusters));
      const auto need = static_cast<std::uint32_t>(random.between(1, random.one_in(2) ? 3000 : 40));
      ASSERT_EQ(o.buddy.find_run(c, need).len, naive_run(o, n, c, need)) << c << " need " << need;
    }
    for (unsigned order = 1; order < o.shape.orders; ++order) {
      const Buddy::Run run = o.buddy.find_piece(order);
      unsigned lowest = order;
      while (lowest < o.shape.orders && n.counts[lowest] == 0) ++lowest;
      if (lowest == o.shape.orders) {
        EXPECT_EQ(run.len, 0U);
        continue;
      }
      std::uint32_t first = 0;
      while (n.pieces[first] != static_cast<int>(lowest)) ++first;
      EXPECT_EQ(run.start, first);
      EXPECT_EQ(run.len, 1U << lowest);
    }
  }
}

TEST(Buddy, QuestionsAboutRunsAgreeWithWalking) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Owned o(random.one_in(3) ? 4096 : 1024);
    shred(o, random, static_cast<unsigned>(random.between(3, 97)), static_cast<std::uint32_t>(random.between(1, 700)));
    for (int i = 0; i < 150; ++i) {
      // Changes between the questions: what is remembered about stretches must follow.
      const auto at = static_cast<std::uint32_t>(random.below(o.clusters));
      const auto n = static_cast<std::uint32_t>(random.between(1, 80));
      if (!o.buddy.used(at)) {
        o.buddy.mark_used(at, std::min(n, o.buddy.next_used(at, o.clusters) - at));
      } else {
        o.buddy.mark_free(at, std::min(n, o.buddy.next_free(at, o.clusters) - at));
      }
      // From a used cluster or the start of a piece on.
      auto from = static_cast<std::uint32_t>(random.below(o.clusters));
      while (from > 0 && !o.buddy.used(from) && !o.buddy.used(from - 1) && from % 64 != 0) --from;
      if (from % 64 == 0 && from > 0 && !o.buddy.used(from)) from = o.buddy.next_used(from, o.clusters);
      std::vector<Buddy::Run> segments;
      for (std::uint32_t p = o.buddy.next_free(from, o.clusters); p < o.clusters;) {
        const std::uint32_t stop = o.buddy.next_used(p, o.clusters);
        segments.push_back({p, stop - p});
        p = o.buddy.next_free(stop, o.clusters);
      }
      const auto need = static_cast<std::uint32_t>(random.between(1, random.one_in(2) ? 300 : 12));
      std::uint32_t fitting = o.clusters;
      for (const auto& s : segments) {
        if (s.len >= need) {
          fitting = s.start;
          break;
        }
      }
      ASSERT_EQ(o.buddy.next_fitting(from, need, o.clusters), fitting) << from << " need " << need;
      ASSERT_EQ(o.buddy.count_segments(from, o.clusters), segments.size()) << from;
      const auto limit = static_cast<std::uint32_t>(random.between(1, 40));
      const std::uint32_t after = limit < segments.size() ? segments[limit].start : o.clusters;
      ASSERT_EQ(o.buddy.after_segments(from, o.clusters, limit), after) << from << " limit " << limit;
      Buddy::Run longest;
      for (const auto& s : segments) {
        if (s.start >= after) break;
        if (s.len > longest.len) longest = s;
      }
      const Buddy::Run found = o.buddy.longest_segment(from, after);
      ASSERT_EQ(found.len, longest.len) << from << " to " << after;
      if (longest.len > 0) {
        ASSERT_EQ(found.start, longest.start) << from << " to " << after;
      }
    }
  }
}

}  // namespace
}  // namespace e4::alloc
