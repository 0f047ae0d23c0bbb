// SPDX-License-Identifier: GPL-2.0-only
// Worked examples E14 to E25: numbers are a live kernel's (6.18.44).
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/alloc_recipes.h"

namespace e4::test {
namespace {

using alloc::Event;
using alloc::Outcome;
using alloc::PaInfo;
using alloc::PaKind;
constexpr unsigned P2 = 0, FAST = 1, BEST = 2, OUT = 5;

void expect(const Outcome& o, alloc::Position goal, alloc::Position result, unsigned cr, unsigned tail = 0,
            unsigned broken = 0) {
  EXPECT_EQ(o.status, alloc::Status::ok);
  EXPECT_FALSE(o.from_prealloc);
  EXPECT_EQ(o.goal, goal);
  EXPECT_EQ(o.result, result);
  EXPECT_EQ(o.cr, cr);
  EXPECT_EQ(o.tail, tail);
  EXPECT_EQ(o.broken, broken);
}
std::vector<Event> of_kind(const alloc::EventLog& log, Event::Kind kind) {
  std::vector<Event> v;
  std::copy_if(log.begin(), log.end(), std::back_inserter(v), [kind](const Event& e) { return e.kind == kind; });
  return v;
}

/// Recipe "prepared": 4 GiB, 32 groups, full but for holes in a few groups; optimized scan on.
std::unique_ptr<Bench> prepared_recipe(bool rotational) {
  alloc::Geometry g;
  g.blocks_count = 32 * 32768;
  g.inodes_per_group = 128;
  alloc::MountOptions m;
  m.possible_cpus = 2;
  m.rotational = rotational;
  m.reserved_clusters = 0;
  auto b = std::make_unique<Bench>(g, m);
  for (GroupNo i = 0; i < 32; ++i) b->source.set_used(i, 0, 32768);
  for (const unsigned k : {1U, 3U}) b->source.set_free(20, 4096 * k, 1024);
  for (unsigned k = 1; k <= 8; ++k) b->source.set_free(9, 2048 * k, 300);
  for (unsigned k = 1; k <= 19; ++k) b->source.set_free(13, 1024 * k + 4, 40);
  for (unsigned k = 1; k <= 30; ++k) b->source.set_free(25, 512 * k, 64);
  for (unsigned k = 1; k <= 29; ++k) b->source.set_free(3, 1000 * k, 7);
  b->source.set_free(15, 32704, 64);
  b->start();
  EXPECT_TRUE(b->a->load_all());
  // The file that filled everything ends in group 15 and leaves 20 blocks.
  MiniFile f12(*b->a, 12);
  const auto r = f12.fallocate(0, 44);
  EXPECT_EQ(r[0].result.group, 15U);
  EXPECT_EQ(b->a->stream_goals(), (std::vector<GroupNo>{15, 0}));
  return b;
}

class AllocExamplesPrepared : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Rotational, AllocExamplesPrepared, testing::Bool());

TEST_P(AllocExamplesPrepared, E14ToE19OptimizedScan) {
  auto b = prepared_recipe(GetParam());
  alloc::Allocator& a = *b->a;
  EXPECT_TRUE(a.optimized_scan());

  MiniFile f13(a, 13);
  auto r = f13.write(0, 64);
  expect(r[0], pos(0, -1, 64), pos(25, 512, 64), P2);
  f13.close();

  MiniFile f14(a, 14);
  r = f14.write(0, 200);
  expect(r[0], pos(15, -1, 256), pos(20, 4096, 256), P2, 256, 1024);
  EXPECT_EQ(r[0].new_pa.len, 256U);
  f14.close();

  MiniFile f15(a, 15);
  r = f15.write(0, 30);
  expect(r[0], pos(25, -1, 32), pos(25, 1024, 32), P2, 32, 64);
  f15.close();

  MiniFile f16(a, 16);
  r = f16.write(0, 800);
  ASSERT_EQ(r.size(), 2U);
  expect(r[0], pos(20, -1, 512), pos(20, 4608, 512), P2);
  expect(r[1], pos(20, -1, 512, 512), pos(20, 12288, 512, 512), P2, 512, 1024);
  f16.close();

  MiniFile f17(a, 17);
  r = f17.write(0, 900);
  ASSERT_EQ(r.size(), 3U);  // the kernel's writeback came for the last four blocks apart
  expect(r[0], pos(25, -1, 512), pos(20, 12800, 512), P2);
  EXPECT_EQ(r[1].goal, pos(20, -1, 512, 512));
  EXPECT_EQ(r[1].result, pos(20, 4296, 312, 512));
  EXPECT_EQ(r[1].cr, OUT);
  EXPECT_EQ(r[1].found, 146U);
  EXPECT_EQ(r[1].groups, 10U);
  EXPECT_EQ(r[1].new_pa.kind, PaKind::none);
  expect(r[2], pos(20, -1, 200, 824), pos(20, 12576, 200, 824), FAST, 104, 128);
  f17.close();

  MiniFile f18(a, 18);
  r = f18.write(0, 1);
  expect(r[0], pos(1, 0, 256), pos(9, 2048, 256), BEST, r[0].tail, r[0].broken);
  EXPECT_EQ(r[0].new_pa, (PaInfo{PaKind::group, 296960, 256, 296960}));
  f18.close();
  EXPECT_EQ(b->counters(9).free, 2144U);
  EXPECT_EQ(b->counters(9).frags, 8U);
  EXPECT_EQ(b->counters(20).free, 148U);
  EXPECT_EQ(b->counters(20).frags, 1U);
  EXPECT_EQ(b->counters(25).free, 1826U);
  EXPECT_EQ(b->counters(25).frags, 29U);
  EXPECT_TRUE(a.verify()) << a.verify().error().message();
}

TEST(AllocExamples, E20EnospcDiscardsGroupAfterGroup) {
  alloc::Geometry g;
  g.blocks_count = 4 * 32768;
  g.inodes_per_group = 256;
  alloc::MountOptions m;
  m.rotational = true;
  m.possible_cpus = 2;
  m.reserved_clusters = 0;
  Bench b(g, m);
  for (GroupNo i = 0; i < 4; ++i) b.source.set_used(i, 0, 32768);
  b.source.set_free(1, 4096, 512);
  b.source.set_free(2, 8192, 300);
  b.source.set_free(2, 2030, 18);
  b.source.set_free(2, 1025, 1);
  b.source.set_free(2, 30000, 17);
  b.start();
  alloc::Allocator& a = *b.a;
  ASSERT_TRUE(a.load_all());
  alloc::Request filler;
  filler.ino = 12;
  ASSERT_TRUE(a.impose(filler, {.block = 2 * 32768 + 30000, .len = 17, .group = 2, .start = 30000, .new_pa = {}, .stream = true}));
  ASSERT_EQ(a.stream_goals(), std::vector<GroupNo>{2});
  EXPECT_EQ(b.counters(2), line(319, 3, 1025, {1, 1, 1, 1, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0}));

  MiniFile f13(a, 13);
  auto r = f13.write(0, 20);
  expect(r[0], pos(2, -1, 32), pos(2, 8448, 32), P2);
  r = f13.write(100, 1);
  expect(r[0], pos(2, -1, 96, 32), pos(1, 4096, 96, 32), FAST, 96, 512);
  EXPECT_EQ(r[0].new_pa, (PaInfo{PaKind::inode, 36864, 96, 32}));
  EXPECT_EQ(r[0].block, 36932U);
  r = f13.write(600, 1);
  EXPECT_EQ(r[0].goal, pos(1, -1, 512, 512));
  EXPECT_EQ(r[0].result.start, 4192);
  EXPECT_EQ(r[0].result.len, 416U);
  EXPECT_EQ(r[0].cr, OUT);
  EXPECT_EQ(r[0].found, 5U);
  EXPECT_EQ(r[0].groups, 2U);
  EXPECT_EQ(r[0].new_pa.lstart, 512U);
  EXPECT_EQ(r[0].block, 37048U);

  MiniFile f14(a, 14);
  r = f14.fallocate(0, 300);
  ASSERT_EQ(r.size(), 5U);
  const struct { alloc::Position result; unsigned blks, cr; } want[] = {
      {pos(2, 8192, 256), 4, OUT}, {pos(2, 2030, 18, 256), 3, OUT}, {pos(2, 8480, 12, 274), 2, OUT},
      {pos(2, 1025, 1, 286), 1, OUT}, {pos(1, 4256, 13, 287), 7, FAST}};
  for (unsigned i = 0; i < 5; ++i) {
    EXPECT_EQ(r[i].result, want[i].result);
    EXPECT_EQ(r[i].found, want[i].blks);
    EXPECT_EQ(r[i].cr, want[i].cr);
  }
  EXPECT_EQ(r[4].tail, 13U);
  EXPECT_EQ(r[4].broken, 16U);
  EXPECT_EQ(r[4].flags & alloc::kStrictCheck, 0U);
  const auto needed = of_kind(f14.log, Event::Kind::mb_discard);
  ASSERT_EQ(needed.size(), 1U);
  EXPECT_EQ(needed[0].len, 13U);
  const auto discards = of_kind(f14.log, Event::Kind::mballoc_discard);
  ASSERT_EQ(discards.size(), 4U);
  const std::uint32_t runs[][2] = {{4096, 68}, {4165, 27}, {4192, 88}, {4281, 327}};
  for (unsigned i = 0; i < 4; ++i) {
    EXPECT_EQ(discards[i].group, 1U);
    EXPECT_EQ(discards[i].start, runs[i][0]);
    EXPECT_EQ(discards[i].len, runs[i][1]);
  }
  alloc::Request tree;
  tree.ino = 14;
  tree.goal = 32768;
  Outcome out;
  ASSERT_EQ(a.allocate(tree, out), alloc::Status::ok);
  EXPECT_EQ(out.result, pos(1, 4165, 1));
  EXPECT_EQ(out.found, 3U);
  EXPECT_TRUE(a.verify()) << a.verify().error().message();
}

TEST(AllocExamples, HopelessRequestDiscardsTwiceAndFails) {
  auto b = small_recipe();
  alloc::Allocator& a = *b->a;
  a.set_reserved_clusters(0);
  MiniFile f(a, 12);
  const auto all = static_cast<std::uint32_t>(a.free_clusters_count());
  auto r = f.fallocate(0, all);
  EXPECT_EQ(a.free_clusters_count(), 0);
  f.close();
  // A delayed write has its space promised and does not ask; it searches in vain.
  alloc::Request rq = f.request(all, 1, MiniFile::kWriteback);
  Outcome out;
  alloc::EventLog log;
  EXPECT_EQ(a.allocate(rq, out, &log), alloc::Status::no_space);
  EXPECT_EQ(of_kind(log, Event::Kind::mb_discard).size(), 2U);
  EXPECT_EQ(out.result, pos(0, 0, 0));
  EXPECT_NE(out.flags & alloc::kStrictCheck, 0U);
  rq.flags = alloc::kHintData;
  EXPECT_EQ(a.allocate(rq, out, &log), alloc::Status::claim_refused);
}

TEST(AllocExamples, E21LocalityListIsTrimmed) {
  auto b = small_recipe();
  alloc::Allocator& a = *b->a;
  Ino ino = 12;
  bool trimmed = false;
  for (unsigned round = 0; round < 14; ++round) {
    for (unsigned i = 0; i < 33; ++i) {
      const std::uint32_t blocks = i < 31 ? 16 : i == 31 ? 10 : 1 + round % 2;
      MiniFile f(a, ino++ % 200 + 12);
      const auto r = f.write(0, blocks);
      const auto released = of_kind(f.log, Event::Kind::release_group_pa);
      if (!released.empty()) {
        EXPECT_EQ(round, 11U);
        EXPECT_EQ(blocks, 10U);
        EXPECT_TRUE(r[0].from_prealloc);
        ASSERT_EQ(released.size(), 4U);
        const Blk starts[] = {36858, 36346, 35834, 35322};
        for (unsigned k = 0; k < 4; ++k) {
          EXPECT_EQ(released[k].block, starts[k]);
          EXPECT_EQ(released[k].len, 6U);
        }
        trimmed = true;
      }
      f.close();
    }
  }
  EXPECT_TRUE(trimmed);
  EXPECT_TRUE(a.verify()) << a.verify().error().message();
}

TEST(AllocExamples, E22ExtentTreeBlocks) {
  alloc::Geometry g;
  g.block_bytes = 1024;
  g.blocks_per_group = g.clusters_per_group = 8192;
  g.blocks_count = 262144;
  g.first_data_block = 1;
  g.inodes_per_group = 32;
  alloc::MountOptions m;
  m.rotational = true;
  m.possible_cpus = 2;
  Bench b(g, m);
  b.source.set_used(0, 0, 165);
  for (const GroupNo backup : {1U, 3U, 5U, 7U, 9U, 25U, 27U}) b.source.set_used(backup, 0, 2);
  b.source.set_used(31, 8191, 1);
  b.start();
  alloc::Allocator& a = *b.a;
  ASSERT_TRUE(a.load_all());
  MiniFile f(a, 12);
  const auto tree = [&](Blk goal, std::uint32_t more) {
    alloc::Request rq;
    rq.ino = 12;
    rq.goal = goal;
    rq.flags = alloc::kDelallocReserved | alloc::kUseReserved | more;
    Outcome out;
    EXPECT_EQ(a.allocate(rq, out), alloc::Status::ok);
    return out.block;
  };
  // Every seventh block is followed by an fsync: the size runs ahead by up to seven blocks.
  for (unsigned i = 0; i < 340; ++i) {
    const Lblk lblk = 2 * i;
    f.i_size = std::uint64_t{(i / 7 * 7 + 6) * 2 + 1} * 1024;
    f.map(lblk, 1, MiniFile::kWriteback);
    const Blk goal = f.requests.back().goal;
    if (i == 4) {
      EXPECT_EQ(tree(8193, 0), 8195U);
    }
    if (i == 84) {
      EXPECT_EQ(goal, 8361U);
      EXPECT_EQ(tree(goal, 0), 8196U);
    }
    if (i == 168) {
      EXPECT_EQ(goal, 8529U);
      EXPECT_EQ(tree(goal, 0), 8197U);
    }
    if (i == 252) {
      EXPECT_EQ(goal, 8697U);
      EXPECT_EQ(tree(goal, 0), 8198U);
    }
    if (i == 336) {
      EXPECT_EQ(goal, 9377U);
      EXPECT_EQ(tree(8194, alloc::kHintTryGoal), 8199U);
      EXPECT_EQ(tree(goal, 0), 8200U);
    }
  }
}

TEST(AllocExamples, E23DirectIo) {
  auto b = small_recipe();
  alloc::Allocator& a = *b->a;
  MiniFile f(a, 12);
  auto r = f.map(0, 64, alloc::kHintData);
  EXPECT_EQ(r[0].goal, pos(0, -1, 64));
  EXPECT_EQ(r[0].result, pos(1, 64, 64));
  f.i_size = 64 * 4096;
  r = f.map(100, 8, alloc::kHintData);
  EXPECT_EQ(f.requests.back().goal, 32932U);
  EXPECT_EQ(f.requests.back().pleft, 32895U);
  expect(r[0], pos(1, 128, 64, 64), pos(1, 128, 64, 64), P2, 64, 128);
  EXPECT_EQ(r[0].groups, 0U);
  EXPECT_EQ(r[0].new_pa, (PaInfo{PaKind::inode, 32896, 64, 64}));
  EXPECT_EQ(r[0].block, 32932U);
  f.i_size = 108 * 4096;
  r = f.map(80, 8, alloc::kHintData);
  EXPECT_TRUE(r[0].from_prealloc);
  EXPECT_EQ(r[0].result, pos(1, 144, 8, 80));
  f.log.clear();
  a.discard_inode(12, &f.log);
  const auto gone = of_kind(f.log, Event::Kind::mballoc_discard);
  ASSERT_EQ(gone.size(), 3U);
  EXPECT_EQ(gone[0].start, 128U);
  EXPECT_EQ(gone[0].len, 16U);
  EXPECT_EQ(gone[1].start, 152U);
  EXPECT_EQ(gone[1].len, 12U);
  EXPECT_EQ(gone[2].start, 172U);
  EXPECT_EQ(gone[2].len, 20U);
}

TEST(AllocExamples, E24Bigalloc) {
  alloc::Geometry g;
  g.cluster_bits = 4;
  g.clusters_per_group = 32768;
  g.blocks_per_group = 32768 * 16;
  g.blocks_count = 1048576;
  g.inodes_per_group = 512;
  alloc::MountOptions m;
  m.rotational = true;
  m.possible_cpus = 2;
  Bench b(g, m);
  b.source.set_used(0, 0, 7);
  b.source.set_used(1, 0, 130);
  b.start();
  alloc::Allocator& a = *b.a;
  ASSERT_TRUE(a.load_all());
  EXPECT_EQ(a.tunables().mb_group_prealloc, 32U);
  MiniFile f(a, 12);
  auto r = f.write(0, 5);
  EXPECT_EQ(f.requests[0].goal, 524288U);
  EXPECT_EQ(f.requests[0].len_clusters, 1U);
  EXPECT_EQ(r[0].goal, pos(1, 0, 32));
  EXPECT_EQ(r[0].result, pos(1, 160, 32));
  EXPECT_EQ(r[0].new_pa.pstart, 526848U);
  alloc::Request rq = f.request(16, 299, MiniFile::kWriteback);
  rq.i_size = 315 * 4096;
  rq.goal = 526864;
  rq.lleft = 15;
  rq.pleft = 526863;
  EXPECT_EQ(rq.len_clusters, 19U);
  Outcome out;
  ASSERT_EQ(a.allocate(rq, out), alloc::Status::ok);
  expect(out, pos(0, -1, 31, 16), pos(0, 7, 31, 16), FAST, 6, 32);
  EXPECT_EQ(out.found, 11U);
  EXPECT_EQ(out.new_pa, (PaInfo{PaKind::inode, 112, 31, 16}));
  alloc::EventLog log;
  a.discard_inode(12, &log);
  EXPECT_EQ(log.at(1).start, 26U);
  EXPECT_EQ(log.at(1).len, 12U);
}

TEST(AllocExamples, E25IndirectMap) {
  alloc::Geometry g;
  g.blocks_count = 4 * 32768;
  g.inodes_per_group = 256;
  g.flex_bg = false;
  g.log_groups_per_flex = 0;
  g.checksummed_descriptors = false;
  g.extents = false;
  alloc::MountOptions m;
  m.rotational = true;
  m.possible_cpus = 2;
  Bench b(g, m);
  b.source.set_used(0, 0, 1050);
  for (GroupNo i = 1; i < 4; ++i) b.source.set_used(i, 0, 20);
  b.start();
  alloc::Allocator& a = *b.a;
  ASSERT_TRUE(a.load_all());
  EXPECT_EQ(a.reserved_clusters(), 0U);
  Outcome out;
  const auto ask = [&](std::uint32_t len, Lblk lblk, Blk goal, std::uint64_t size_blocks, bool data) {
    alloc::Request rq;
    rq.ino = 12;
    rq.len_clusters = len;
    rq.lblk = data ? lblk : 0;
    rq.goal = goal;
    rq.extent_mapped = false;
    rq.i_size = size_blocks * 4096;
    rq.flags = data ? MiniFile::kWriteback : static_cast<std::uint32_t>(alloc::kDelallocReserved);
    return a.allocate(rq, out);
  };
  ASSERT_EQ(ask(12, 0, alloc::inode_goal(g, true, 12, true, 0), 30, true), alloc::Status::ok);
  EXPECT_EQ(out.result, pos(0, 1056, 32));
  ask(1, 0, 1067, 30, false);
  EXPECT_EQ(out.result, pos(0, 1050, 1));
  EXPECT_EQ(out.found, 11U);
  ask(4, 12, 1050, 30, true);
  EXPECT_TRUE(out.from_prealloc);
  EXPECT_EQ(out.result, pos(0, 1068, 4, 12));
  ask(14, 16, 1071, 30, true);
  EXPECT_EQ(out.result, pos(0, 1072, 14, 16));
  ask(1, 0, 1050, 2005, false);
  EXPECT_EQ(out.block, 1051U);
  ask(1, 0, 1051, 2005, false);
  EXPECT_EQ(out.block, 1052U);
  ask(5, 2000, 1052, 2005, true);
  expect(out, pos(0, -1, 1024, 1024), pos(0, 2048, 1024, 1024), P2, 1024, 2048);
  EXPECT_EQ(out.block, 3024U);
}

}  // namespace
}  // namespace e4::test
