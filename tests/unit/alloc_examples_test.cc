// SPDX-License-Identifier: GPL-2.0-only
// The worked examples of the block allocator's fact sheet (E1 ...): numbers are a live kernel's (6.18.44).
#include <gtest/gtest.h>

#include "tests/support/alloc_recipes.h"

namespace e4::test {
namespace {

using alloc::Outcome;
using alloc::PaInfo;
using alloc::PaKind;

/// What an mballoc_alloc line says: "orig | goal | result | blks/grps cr, tail/broken".
struct Line {
  alloc::Position orig, goal, result;
  unsigned blks, grps, cr, tail, broken;
};
void expect_line(const Outcome& o, const Line& want) {
  EXPECT_EQ(o.status, alloc::Status::ok);
  EXPECT_FALSE(o.from_prealloc);
  EXPECT_EQ(o.orig, want.orig);
  EXPECT_EQ(o.goal, want.goal);
  EXPECT_EQ(o.result, want.result);
  EXPECT_EQ(o.found, want.blks);
  EXPECT_EQ(o.groups, want.grps);
  EXPECT_EQ(o.cr, want.cr);
  EXPECT_EQ(o.tail, want.tail);
  EXPECT_EQ(o.broken, want.broken);
}
void expect_prealloc(const Outcome& o, alloc::Position orig, alloc::Position result) {
  EXPECT_EQ(o.status, alloc::Status::ok);
  EXPECT_TRUE(o.from_prealloc);
  EXPECT_EQ(o.orig, orig);
  EXPECT_EQ(o.result, result);
}
constexpr unsigned P2 = 0, FAST = 1;

TEST(AllocExamples, FreshGroupsCountAsTheKernelCounts) {
  auto b = small_recipe();
  EXPECT_EQ(b->counters(0), line(32689, 1, 79, {1, 0, 0, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 3}));
  EXPECT_EQ(b->counters(1), line(32766, 1, 2, {0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3}));
  EXPECT_EQ(b->counters(2), line(31744, 1, 1024, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 3}));
  EXPECT_EQ(b->counters(3), b->counters(1));
}

// E1 to E11 happen one after the other on one file system.
TEST(AllocExamples, E1ToE11OneFileSystem) {
  auto b = small_recipe();
  alloc::Allocator& a = *b->a;

  MiniFile f12(a, 12);  // E1
  auto r = f12.write(0, 1);
  ASSERT_EQ(r.size(), 1U);
  expect_line(r[0], {pos(1, 0, 1), pos(1, 0, 512), pos(1, 512, 512), 1, 1, P2, 0, 0});
  EXPECT_EQ(r[0].flags, 0x0020U | 0x0080 | 0x0400 | 0x2000);
  EXPECT_EQ(r[0].new_pa, (PaInfo{PaKind::group, 33280, 512, 33280}));
  EXPECT_EQ(r[0].block, 33280U);
  EXPECT_EQ(b->counters(1), line(32254, 2, 2, {0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 3}));
  f12.close();

  MiniFile f13(a, 13);  // E2
  r = f13.write(0, 3);
  expect_prealloc(r[0], pos(1, 0, 3), pos(1, 513, 3));
  EXPECT_EQ(r[0].block, 33281U);
  f13.close();

  MiniFile f14(a, 14);  // E3
  r = f14.write(0, 18);
  expect_line(r[0], {pos(1, 0, 18), pos(0, -1, 32), pos(1, 32, 32), 1, 1, P2, 0, 0});
  EXPECT_EQ(r[0].new_pa, (PaInfo{PaKind::inode, 32800, 32, 0}));
  EXPECT_EQ(r[0].block, 32800U);
  EXPECT_EQ(r[0].len, 18U);
  EXPECT_EQ(b->counters(1), line(32222, 3, 2, {0, 1, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 3}));
  EXPECT_EQ(a.stream_goals(), std::vector<GroupNo>{1});

  r = f14.write(18, 8);  // E4
  EXPECT_EQ(f14.requests.back().goal, 32818U);
  EXPECT_EQ(f14.requests.back().pleft, 32817U);
  expect_prealloc(r[0], pos(1, 50, 8, 18), pos(1, 50, 8, 18));

  r = f14.write(26, 20);  // E5
  ASSERT_EQ(r.size(), 2U);
  expect_prealloc(r[0], pos(1, 58, 20, 26), pos(1, 58, 6, 26));
  expect_line(r[1], {pos(1, 64, 14, 32), pos(1, 64, 32, 32), pos(1, 64, 32, 32), 1, 0, P2, 32, 64});
  EXPECT_EQ(r[1].new_pa, (PaInfo{PaKind::inode, 32832, 32, 32}));
  EXPECT_EQ(b->counters(1), line(32190, 3, 2, {0, 1, 1, 1, 1, 1, 0, 1, 1, 0, 1, 1, 1, 3}));

  f14.log.clear();
  EXPECT_EQ(f14.close(), 1U);  // E6
  ASSERT_EQ(f14.log.size(), 3U);
  EXPECT_EQ(f14.log[0].kind, alloc::Event::Kind::discard_preallocations);
  EXPECT_EQ(f14.log[0].len, 1U);
  EXPECT_EQ(f14.log[1].kind, alloc::Event::Kind::mballoc_discard);
  EXPECT_EQ(f14.log[1].start, 78U);
  EXPECT_EQ(f14.log[2].kind, alloc::Event::Kind::release_inode_pa);
  EXPECT_EQ(f14.log[2].block, 32846U);
  EXPECT_EQ(f14.log[2].len, 18U);
  EXPECT_EQ(b->counters(1), line(32208, 3, 2, {0, 2, 1, 1, 2, 1, 0, 1, 1, 0, 1, 1, 1, 3}));

  MiniFile f15(a, 15);  // E7
  f15.open = false;
  r = f15.write(0, 40);
  expect_line(r[0], {pos(1, 0, 40), pos(1, 0, 40), pos(1, 78, 40), 9, 1, FAST, 22, 32});
  EXPECT_EQ(r[0].flags & 0x40, 0x40U);

  MiniFile f16(a, 16);  // E8
  r = f16.fallocate(0, 2);
  expect_prealloc(r[0], pos(1, 0, 2), pos(1, 516, 2));
  r = f16.fallocate(2, 2);
  expect_prealloc(r[0], pos(1, 518, 2, 2), pos(1, 518, 2, 2));
  r = f16.fallocate(4, 100);
  expect_line(r[0], {pos(1, 520, 100, 4), pos(1, -1, 100, 4), pos(1, 118, 100, 4), 8, 1, FAST, 90, 128});
  EXPECT_EQ(f16.requests.back().goal, 33288U);
  f16.close();

  MiniFile f17(a, 17);  // E9
  r = f17.fallocate(0, 40000);
  ASSERT_GT(r.size(), 15U);
  expect_line(r[0], {pos(1, 0, 32767), pos(1, -1, 2048), pos(1, 2048, 2048), 1, 1, P2, 0, 0});
  expect_line(r[1], {pos(1, 4096, 32767, 2048), pos(1, 4096, 2048, 2048), pos(1, 4096, 2048, 2048), 1, 0, P2, 2048, 4096});
  expect_line(r[2], {pos(1, 6144, 32767, 4096), pos(1, 6144, 2048, 4096), pos(1, 6144, 2048, 4096), 1, 0, P2, 0, 0});
  EXPECT_EQ(r[3].result.start, 8192);
  EXPECT_EQ(r[3].broken, 8192U);
  EXPECT_EQ(r[14].result, pos(1, 30720, 2048, 28672));
  expect_line(r[15], {pos(2, 0, 9280, 30720), pos(1, -1, 2048, 30720), pos(2, 2048, 2048, 30720), 1, 1, P2, 0, 0});
  EXPECT_EQ(r.back().new_pa, (PaInfo{PaKind::inode, 75776, 2048, 38912}));
  f17.log.clear();
  f17.close();
  ASSERT_EQ(f17.log.size(), 3U);
  EXPECT_EQ(f17.log[1].group, 2U);
  EXPECT_EQ(f17.log[1].start, 11328U);
  EXPECT_EQ(f17.log[1].len, 960U);
  EXPECT_EQ(b->counters(1), line(1348, 3, 2, {0, 2, 2, 1, 1, 1, 0, 0, 1, 0, 1, 0, 0, 0}));
  auto g2 = b->counters(2);
  EXPECT_EQ(g2.free, 22464U);
  EXPECT_EQ(g2.frags, 2U);
  EXPECT_EQ(g2.counters, line(0, 0, 0, {0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 1, 2}).counters);

  MiniFile f18(a, 18), f19(a, 19);  // E10
  r = f18.write(0, 18);
  expect_line(r[0], {pos(1, 0, 18), pos(2, -1, 32), pos(2, 11328, 32), 1, 1, P2, 32, 64});
  r = f19.write(0, 18);
  expect_line(r[0], {pos(1, 0, 18), pos(2, -1, 32), pos(2, 11360, 32), 1, 1, P2, 0, 0});

  MiniFile dir(a, 257);  // E11: goal 0/0
  dir.regular = false;
  r = dir.map(0, 1, 0);
  expect_line(r[0], {pos(0, 0, 1), pos(0, 0, 1), pos(0, 79, 1), 1, 1, FAST, 0, 0});
  EXPECT_EQ(r[0].flags, 0U);
  EXPECT_TRUE(a.verify()) << a.verify().error().message();
}

TEST(AllocExamples, E12FreedBlocksComeBackAtCommit) {
  auto b = small_recipe();
  alloc::Allocator& a = *b->a;
  MiniFile f12(a, 12);
  auto r = f12.fallocate(0, 30000);  // a
  expect_line(r[0], {pos(1, 0, 30000), pos(0, -1, 30000), pos(0, 79, 30000), r[0].found, 1, FAST, 5503, 8192});
  f12.close();

  MiniFile f13(a, 13);  // b
  r = f13.write(0, 40);
  EXPECT_EQ(r[0].result, pos(1, 64, 64));
  EXPECT_EQ(r[0].new_pa, (PaInfo{PaKind::inode, 32832, 64, 0}));
  f13.close();
  const auto before = line(32726, 2, 2, {0, 1, 1, 2, 2, 1, 0, 1, 1, 1, 1, 1, 1, 3});
  EXPECT_EQ(b->counters(1), before);

  f13.unlink(3);  // c
  EXPECT_EQ(b->counters(1), before);
  EXPECT_EQ(a.pending_clusters(), 40U);

  MiniFile again(a, 13);  // d
  r = again.fallocate(100, 33);
  expect_line(r[0], {pos(1, 0, 33, 100), pos(1, -1, 33, 100), pos(1, 2, 33, 100), 10, r[0].groups, FAST, 3, 32});
  r = again.write(0, 40);  // e
  EXPECT_EQ(again.requests.back().goal, 32670U);
  expect_line(r[0], {pos(0, 32670, 40), pos(1, -1, 100), pos(1, 104, 100), 9, 1, FAST, 76, 128});
  EXPECT_EQ(r[0].new_pa, (PaInfo{PaKind::inode, 32768 + 104, 100, 0}));

  a.commit(3);  // f
  EXPECT_EQ(a.pending_clusters(), 0U);
  EXPECT_EQ(b->counters(1), line(32633, 2, 35, {1, 0, 2, 2, 2, 2, 0, 0, 1, 1, 1, 1, 1, 3}));
  EXPECT_EQ(again.close(), 1U);  // g: gives back 1/144/60
  MiniFile f14(a, 14);
  r = f14.fallocate(0, 40);
  expect_line(r[0], {pos(1, 0, 40), pos(1, -1, 40), pos(1, 144, 40), 11, 1, FAST, 24, 32});
  EXPECT_TRUE(a.verify());
}

TEST(AllocExamples, E13NodelallocColoursTheGoal) {
  auto b = small_recipe();
  alloc::Allocator& a = *b->a;
  MiniFile f(a, 12);
  f.delalloc = false;
  f.pid = 16276;
  // One block a call; the size follows each of them.
  f.i_size = 4096;
  auto r = f.map(0, 1, alloc::kHintData);
  EXPECT_EQ(f.requests[0].goal, 40960U);
  EXPECT_EQ(r[0].result, pos(1, 512, 512));
  for (Lblk l = 1; l < 16; ++l) {
    f.i_size = (l + 1) * 4096;
    r = f.map(l, 1, alloc::kHintData);
    EXPECT_TRUE(r[0].from_prealloc);
  }
  f.i_size = 17 * 4096;
  r = f.map(16, 1, alloc::kHintData);
  EXPECT_EQ(r[0].goal, pos(0, -1, 16, 16));
  EXPECT_EQ(r[0].result, pos(1, 16, 16, 16));
  EXPECT_EQ(r[0].cr, P2);
  EXPECT_EQ(r[0].new_pa, (PaInfo{PaKind::inode, 32784, 16, 16}));
  for (Lblk l = 17; l < 20; ++l) f.map(l, 1, alloc::kHintData);
  f.log.clear();
  f.close();
  EXPECT_EQ(f.log.at(1).len, 12U);
}

}  // namespace
}  // namespace e4::test
