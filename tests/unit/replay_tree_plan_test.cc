// SPDX-License-Identifier: GPL-2.0-only
#include <gtest/gtest.h>

#include <map>

#include "base/random.h"
#include "replay/tree_plan.h"

namespace e4::replay {
namespace {

TEST(TreePlan, FourRunsNeedNoBlock) {
  const auto p = plan_tree({{0, 100, 1, false}, {2, 102, 1, false}, {4, 104, 1, false}, {6, 106, 1, false}}, {}, {}, 7, 84, 1);
  EXPECT_TRUE(p.levels.empty());
  EXPECT_EQ(p.runs.size(), 4U);
  EXPECT_EQ(p.extra_needed, 0U);
}

TEST(TreePlan, RunsBehindTheEndAreUnwrittenAndTheOneAcrossItIsCut) {
  const auto p = plan_tree({{0, 100, 10, false}, {20, 500, 5, false}}, {}, {}, 4, 84, 1);
  ASSERT_EQ(p.runs.size(), 3U);
  EXPECT_FALSE(p.runs[0].unwritten);
  EXPECT_EQ(p.runs[0].len_blocks, 4U);
  EXPECT_TRUE(p.runs[1].unwritten);
  EXPECT_EQ(p.runs[1].pblk, 104U);
  EXPECT_TRUE(p.runs[2].unwritten);
}

TEST(TreePlan, ASurplusTreeBlockBecomesAnUnwrittenRunBehindTheEnd) {
  const auto p = plan_tree({{0, 100, 1, false}}, {555, 777}, {}, 1, 84, 1);
  ASSERT_EQ(p.levels.size(), 1U);
  EXPECT_EQ(p.levels[0], std::vector<Blk>{555});
  ASSERT_EQ(p.runs.size(), 2U);
  EXPECT_EQ(p.runs[1].pblk, 777U);
  EXPECT_TRUE(p.runs[1].unwritten);
  EXPECT_GT(p.runs[1].lblk, 1U);
}

TEST(TreePlan, OverlappingRunsKeepTheFirstAndMoveTheOther) {
  const auto p = plan_tree({{0, 100, 4, false}, {2, 200, 2, false}}, {}, {}, 4, 84, 1);
  std::map<Blk, bool> seen;
  for (const auto& r : p.runs)
    for (std::uint32_t i = 0; i < r.len_blocks; ++i) EXPECT_TRUE(seen.emplace(r.pblk + i, true).second);
  EXPECT_EQ(seen.size(), 6U);
}

TEST(TreePlan, EveryOwnedBlockIsUsedExactlyOnceWhateverTheShape) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Random rng(seed);
    const std::uint32_t capacity = rng.one_in(2) ? 84 : 5, cluster = rng.one_in(3) ? 16 : 1;
    std::vector<MappedRun> runs;
    std::map<Blk, int> owned;
    Blk next = 1600;
    std::uint64_t lblk = 0;
    for (std::uint64_t n = rng.below(300); n != 0; --n) {
      const auto len = static_cast<std::uint32_t>(cluster * rng.between(1, rng.one_in(20) ? 3000 : 6));
      lblk += cluster * rng.below(3);
      runs.push_back({static_cast<Lblk>(lblk), next, len, false});
      for (std::uint32_t i = 0; i < len; ++i) owned[next + i] = 0;
      lblk += len;
      next += len + cluster * rng.below(3);
    }
    std::vector<Blk> meta;
    for (std::uint64_t n = rng.below(90); n != 0; --n) {
      next += cluster * rng.between(1, 2);
      meta.push_back(next);
      for (std::uint32_t i = 0; i < cluster; ++i) owned[next + i] = 0;
      next += cluster;
    }
    const auto size_blocks = static_cast<Lblk>(rng.below(lblk + 10));
    const auto p = plan_tree(runs, meta, {}, size_blocks, capacity, cluster);
    std::uint64_t end = 0;
    for (const auto& r : p.runs) {
      EXPECT_GE(r.lblk, end);
      EXPECT_EQ(r.unwritten, r.lblk >= size_blocks);
      EXPECT_LE(r.len_blocks, r.unwritten ? 32767U : 32768U);
      EXPECT_EQ(r.lblk % cluster, r.pblk % cluster);
      end = std::uint64_t{r.lblk} + r.len_blocks;
      for (std::uint32_t i = 0; i < r.len_blocks; ++i) ++owned[r.pblk + i];
    }
    std::size_t above = 4, entries = 0, extra = 0;
    for (const auto& level : p.levels) {
      entries = level.size();
      EXPECT_LE(entries, above) << "a level fits the one above it";
      EXPECT_GE(entries, 1U);
      above = entries * capacity;
      for (const Blk b : level) {
        extra += b == 0 ? 1 : 0;
        for (std::uint32_t i = 0; b != 0 && i < cluster; ++i) ++owned[b + i];
      }
    }
    EXPECT_LE(p.runs.size(), above);
    if (!p.levels.empty()) {
      EXPECT_GE(p.runs.size(), p.levels.back().size()) << "no empty leaf";
    }
    EXPECT_EQ(extra, p.extra_needed);
    for (const auto& [b, times] : owned) ASSERT_EQ(times, 1) << "block " << b;
  }
}

}  // namespace
}  // namespace e4::replay
