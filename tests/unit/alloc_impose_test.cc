// SPDX-License-Identifier: GPL-2.0-only
// Undoing a choice and taking over somebody else's; explaining; trimming.
#include <gtest/gtest.h>

#include "base/random.h"
#include "tests/support/alloc_recipes.h"

namespace e4::test {
namespace {

using alloc::Imposed;
using alloc::Outcome;
using alloc::PaKind;
using alloc::Request;

std::vector<alloc::GroupCounters> all_counters(const Bench& b) {
  std::vector<alloc::GroupCounters> v;
  for (GroupNo g = 0; g < b.geometry.groups(); ++g) {
    v.push_back(b.counters(g));
    v.back().first = 0;  // only a bound, and history moves it
  }
  return v;
}

TEST(AllocImpose, UndoLeavesNoTrace) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto b = small_recipe();
    alloc::Allocator& a = *b->a;
    Random random(seed);
    std::vector<MiniFile> files;
    for (Ino i = 12; i < 20; ++i) files.emplace_back(a, i);
    for (int step = 0; step < 60; ++step) {
      MiniFile& f = files[random.below(files.size())];
      const auto blocks = static_cast<std::uint32_t>(random.between(1, random.one_in(3) ? 200 : 12));
      const auto [lblk, n] = f.hole(static_cast<Lblk>(random.below(2000)), blocks);
      Request rq = f.request(lblk, n, random.one_in(2) ? MiniFile::kWriteback : MiniFile::kFallocate);
      rq.i_size = random.below(300) * 4096;
      const auto before = all_counters(*b);
      const auto goals = a.stream_goals();
      const unsigned pas = a.preallocations(f.ino());
      Outcome out;
      if (a.allocate(rq, out) != alloc::Status::ok) continue;
      a.undo(rq, out);
      ASSERT_EQ(all_counters(*b), before);
      ASSERT_EQ(a.stream_goals(), goals);
      ASSERT_EQ(a.preallocations(f.ino()), pas);
      ASSERT_TRUE(a.verify()) << a.verify().error().message();
      // The same request again has the same answer.
      Outcome again;
      ASSERT_EQ(a.allocate(rq, again), alloc::Status::ok);
      ASSERT_EQ(again.block, out.block);
      ASSERT_EQ(again.len, out.len);
      a.undo(rq, again);
      f.write(lblk, n);
    }
  }
}

TEST(AllocImpose, TheKernelsChunkAndPreallocationReplaceOurs) {
  auto b = small_recipe();
  alloc::Allocator& a = *b->a;
  MiniFile f(a, 12);
  f.i_size = 18 * 4096;
  const Request rq = f.request(0, 18, MiniFile::kWriteback);
  Outcome ours;
  ASSERT_EQ(a.allocate(rq, ours), alloc::Status::ok);
  a.undo(rq, ours);
  Imposed kernel;
  kernel.group = 2;
  kernel.start = 4096;
  kernel.chunk_len = 32;
  kernel.block = 2 * 32768 + 4096;
  kernel.len = 18;
  kernel.new_pa = {PaKind::inode, kernel.block, 32, 0};
  kernel.stream = true;
  ASSERT_TRUE(a.impose(rq, kernel));
  EXPECT_EQ(a.stream_goals(), std::vector<GroupNo>{2});
  EXPECT_EQ(a.preallocations(12), 1U);
  EXPECT_TRUE(a.verify()) << a.verify().error().message();
  // The next blocks come from the kernel's preallocation.
  Request next = rq;
  next.lblk = next.lleft = next.lright = 18;
  next.len_clusters = 8;
  Outcome out;
  ASSERT_EQ(a.allocate(next, out), alloc::Status::ok);
  EXPECT_TRUE(out.from_prealloc);
  EXPECT_EQ(out.block, kernel.block + 18);
}

TEST(AllocImpose, WhatIsInTheWayGivesWay) {
  auto b = small_recipe();
  alloc::Allocator& a = *b->a;
  MiniFile f(a, 12), other(a, 13);
  f.write(0, 18);  // preallocation 1/32/32, 18 used
  MiniFile dead(a, 14);
  dead.write(0, 40);
  const Blk freed = dead.extents().begin()->second.pblk;
  dead.unlink(3);
  EXPECT_EQ(a.pending_clusters(), 40U);
  Request rq = other.request(0, 10, MiniFile::kFallocate);
  // In the unused rest of the preallocation.
  ASSERT_TRUE(a.impose(rq, {.block = 32768 + 52, .len = 10, .new_pa = {}}));
  EXPECT_EQ(a.preallocations(12), 0U);
  EXPECT_TRUE(a.verify()) << a.verify().error().message();
  // Among blocks whose commit we have not seen.
  rq.lblk = 100;
  ASSERT_TRUE(a.impose(rq, {.block = freed + 5, .len = 10, .new_pa = {}}));
  EXPECT_EQ(a.pending_clusters(), 30U);
  EXPECT_TRUE(a.verify()) << a.verify().error().message();
  // Blocks in use, or beyond the end, are a mistake of the recording.
  EXPECT_FALSE(a.impose(rq, {.block = freed + 5, .len = 1, .new_pa = {}}));
  EXPECT_FALSE(a.impose(rq, {.block = b->geometry.blocks_count, .len = 1, .new_pa = {}}));
  EXPECT_FALSE(a.impose(rq, {.block = 32768 + 4000, .len = 0xFFFFFFFF, .new_pa = {}}));
  EXPECT_FALSE(a.impose(rq, {.block = 32768 + 4000, .len = 8, .group = 3, .start = 1, .chunk_len = 9, .new_pa = {}}));
  EXPECT_TRUE(a.verify()) << a.verify().error().message();
}

TEST(AllocImpose, ReleasedReservationsBecomeFree) {
  auto b = small_recipe();
  alloc::Allocator& a = *b->a;
  MiniFile f(a, 12);
  f.write(0, 18);
  const std::uint32_t before = b->counters(1).free;
  ASSERT_TRUE(a.impose_release(1, 50, 14));
  EXPECT_EQ(b->counters(1).free, before + 14);
  EXPECT_EQ(a.preallocations(12), 0U);
  EXPECT_TRUE(a.verify());
  EXPECT_FALSE(a.impose_release(9, 0, 1));
}

TEST(AllocExplain, TellsWhatEachCriterionTriedAndWhyGroupsWereRefused) {
  auto b = small_recipe();
  alloc::Allocator& a = *b->a;
  MiniFile f(a, 12);
  f.i_size = 18 * 4096;
  const alloc::Explanation e = a.explain(f.request(0, 18, MiniFile::kWriteback));
  ASSERT_EQ(e.outcome.status, alloc::Status::ok);
  ASSERT_EQ(e.passes.size(), 1U);
  const alloc::ExplainedPass& p = e.passes[0];
  EXPECT_EQ(p.cr, alloc::kCrPower2Aligned);
  EXPECT_EQ(p.goal_len, 32U);
  EXPECT_TRUE(p.linear);
  ASSERT_EQ(p.groups.size(), 2U);
  EXPECT_EQ(p.groups[0].verdict, alloc::Verdict::flex_first);
  EXPECT_EQ(p.groups[1].verdict, alloc::Verdict::taken);
  const std::string text = e.text();
  for (const char* words : {"CR_POWER2_ALIGNED", "first group of a flex group", "taken from here", "normalized to 32", "large file"})
    EXPECT_NE(text.find(words), std::string::npos) << words << " in\n" << text;
  EXPECT_EQ(a.preallocations(12), 0U) << "an explanation leaves no trace";
  EXPECT_TRUE(a.verify());
}

TEST(AllocExplain, AHopelessRequestIsExplainedWithoutGivingUpPreallocations) {
  auto b = small_recipe();
  alloc::Allocator& a = *b->a;
  a.set_reserved_clusters(0);
  MiniFile f(a, 12), g(a, 13);
  g.write(0, 18);
  f.fallocate(0, static_cast<std::uint32_t>(a.free_clusters_count()));
  const alloc::Explanation e = a.explain(f.request(3000000, 50, MiniFile::kWriteback));
  EXPECT_NE(e.outcome.status, alloc::Status::ok);
  EXPECT_EQ(e.passes.size(), 5U);
  EXPECT_NE(e.text().find("nothing free"), std::string::npos) << e.text();
}

TEST(AllocTrim, FreeRunsOnceUntilTheyChange) {
  auto b = small_recipe();
  alloc::Allocator& a = *b->a;
  auto t = a.trim(0, 3, 100);
  ASSERT_TRUE(t);
  ASSERT_EQ(t->size(), 4U);
  EXPECT_EQ((*t)[0].start, 79U);
  EXPECT_EQ((*t)[0].len, 32689U);
  EXPECT_TRUE(a.trim(0, 3, 100)->empty()) << "trimmed already";
  MiniFile f(a, 12);
  f.write(0, 200);
  f.close();
  f.unlink(7);
  EXPECT_TRUE(a.trim(0, 3, 100)->empty()) << "not free before the commit";
  a.commit(7);
  EXPECT_EQ(a.trim(0, 3, 100)->size(), 1U);
  EXPECT_EQ(a.trim(0, 3, 10)->size(), 4U) << "a smaller minimum looks again";
  EXPECT_FALSE(a.trim(4, 9, 1));
}

TEST(AllocFree, SharedClustersAtTheEndsFollowTheFlags) {
  alloc::Geometry g;
  g.cluster_bits = 4;
  g.clusters_per_group = 32768;
  g.blocks_per_group = 32768 * 16;
  g.blocks_count = 524288;
  Bench b(g, {});
  b.source.set_used(0, 0, 100);
  b.start();
  ASSERT_TRUE(b.a->load_all());
  const auto freed = [&](Blk block, std::uint64_t blocks, std::uint32_t flags) {
    alloc::EventLog log;
    alloc::FreeRequest f;
    f.block = block;
    f.count_blocks = blocks;
    f.flags = flags;
    f.when = alloc::FreeRequest::When::at_once;
    EXPECT_TRUE(b.a->free(f, &log));
    return log.empty() ? std::pair<std::uint32_t, std::uint32_t>{0, 0} : std::pair{log[0].start, log[0].len};
  };
  using P = std::pair<std::uint32_t, std::uint32_t>;
  EXPECT_EQ(freed(16 * 10 + 3, 16, 0), (P{10, 2}));
  EXPECT_EQ(freed(16 * 20 + 3, 32, alloc::kFreeNoFirstCluster), (P{21, 2}));
  EXPECT_EQ(freed(16 * 30, 40, alloc::kFreeNoLastCluster), (P{30, 2}));
  EXPECT_EQ(freed(16 * 40 + 3, 5, alloc::kFreeNoFirstCluster), (P{0, 0}));
  const std::int64_t free = b.a->free_clusters_count();
  EXPECT_EQ(freed(16 * 50, 16, alloc::kFreeRereserve), (P{50, 1}));
  EXPECT_EQ(b.a->free_clusters_count(), free);
}

TEST(AllocFree, WritebackDataAndNoJournalComeBackAtOnce) {
  for (const auto& [journal, mode, flags, pending] :
       {std::tuple{true, alloc::DataMode::ordered, 0U, true}, {true, alloc::DataMode::writeback, 0U, false},
        {true, alloc::DataMode::writeback, std::uint32_t{alloc::kFreeMetadata}, true}, {false, alloc::DataMode::ordered, 0U, false}}) {
    alloc::Geometry g;
    g.blocks_count = 4 * 32768;
    alloc::MountOptions m;
    m.has_journal = journal;
    m.data_mode = mode;
    Bench b(g, m);
    b.source.set_used(1, 0, 100);
    b.start();
    alloc::FreeRequest f;
    f.block = 32768 + 10;
    f.count_blocks = 7;
    f.flags = flags;
    ASSERT_TRUE(b.a->free(f));
    EXPECT_EQ(b.a->pending_clusters(), pending ? 7U : 0U);
  }
}

}  // namespace
}  // namespace e4::test
