// SPDX-License-Identifier: GPL-2.0-only
#include "alloc/inode_allocator.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "alloc/bits.h"
#include "base/random.h"
#include "tests/support/alloc_recipes.h"
#include "tests/support/stress.h"

namespace e4::test {
namespace {

using alloc::InodeAllocator;
using alloc::InodeGroup;
using alloc::InodeRequest;

constexpr std::uint32_t kPerGroup = 256, kFirstIno = 11;

class Inodes final : public alloc::InodeSource {
 public:
  explicit Inodes(GroupNo n) : groups(n, InodeGroup{kPerGroup, 0, kPerGroup, true, false}) {
    groups[0] = {kPerGroup - 11, 2, kPerGroup - 11, false, false};
  }
  InodeGroup group(GroupNo g) override { return groups[g]; }
  Result<void> read_bitmap(GroupNo g, std::span<std::uint64_t> words) override {
    if (g == broken) return make_error(ErrorKind::io, "no such sector");
    std::ranges::fill(words, 0);
    alloc::bits::set_range(words.data(), 0, kPerGroup - groups[g].free_inodes);
    return {};
  }
  bool recently_deleted(Ino ino) override { return recent.contains(ino); }
  std::vector<InodeGroup> groups;
  std::set<Ino> recent;
  GroupNo broken = ~0U;
};

struct World {
  explicit World(GroupNo n, std::uint32_t log_flex = 2, bool journal = true) : source(n) {
    alloc::Geometry g;
    g.blocks_count = Blk{n} * 32768;
    g.inodes_per_group = kPerGroup;
    g.log_groups_per_flex = log_flex;
    g.flex_bg = log_flex > 0;
    alloc::MountOptions m;
    m.has_journal = journal;
    m.possible_cpus = 2;
    blocks = std::make_unique<Bench>(g, m);
    for (GroupNo i = 1; i < n; ++i) blocks->source.set_uninit(i, true);
    blocks->start();
    inodes = std::make_unique<InodeAllocator>(*blocks->a, source, kFirstIno);
  }
  Inodes source;
  std::unique_ptr<Bench> blocks;
  std::unique_ptr<InodeAllocator> inodes;
};
InodeRequest file_in(Ino parent) {
  InodeRequest r;
  r.parent = parent;
  return r;
}
InodeRequest top_dir(std::uint32_t hash) {
  InodeRequest r;
  r.directory = r.top_level = true;
  r.name_hash = hash;
  return r;
}

TEST(InodeAllocator, FirstFileGetsTheFirstFreeInode) {
  World w(8);
  const auto o = w.inodes->allocate(file_in(2));
  ASSERT_TRUE(o);
  EXPECT_EQ(o->ino, 12U);
  EXPECT_EQ(o->zero_first, 11U);
  EXPECT_EQ(o->zero_count, 1U);
  EXPECT_EQ(w.inodes->group(0), (InodeGroup{kPerGroup - 12, 2, kPerGroup - 12, false, false}));
  EXPECT_TRUE(w.inodes->group_dirty(0));
}

TEST(InodeAllocator, UninitializedGroupBecomesInitializedWithItsBlocks) {
  World w(8);
  InodeRequest r = file_in(2);
  r.goal = 5 * kPerGroup + 4;
  const auto o = w.inodes->allocate(r);
  ASSERT_TRUE(o);
  EXPECT_EQ(o->ino, r.goal);
  EXPECT_EQ(o->zero_first, 0U);  // the whole table up to here becomes readable
  EXPECT_EQ(o->zero_count, 4U);
  const InodeGroup g = w.inodes->group(5);
  EXPECT_FALSE(g.inode_uninit);
  EXPECT_EQ(g.itable_unused, kPerGroup - 4);
  EXPECT_FALSE(w.blocks->a->block_uninit(5));
  EXPECT_TRUE(w.blocks->a->block_uninit(6));
}

TEST(InodeAllocator, TopLevelDirectoriesAreSpreadOverUnits) {
  World w(16);  // four units of four groups
  std::set<GroupNo> units;
  for (std::uint32_t i = 0; i < 3; ++i) {
    const auto o = w.inodes->allocate(top_dir(i + 1));
    ASSERT_TRUE(o);
    units.insert(o->group / 4);
  }
  EXPECT_EQ(units, (std::set<GroupNo>{1, 2, 3}));
}

TEST(InodeAllocator, FilesStayInTheParentsUnitThenWhereItPutTheLast) {
  World w(16);
  for (GroupNo g = 4; g < 8; ++g) w.source.groups[g].free_inodes = 0;
  w.inodes = std::make_unique<InodeAllocator>(*w.blocks->a, w.source, kFirstIno);
  InodeRequest r = file_in(5 * kPerGroup + 1);
  r.parent_last_group = 13;
  const auto o = w.inodes->allocate(r);
  ASSERT_TRUE(o);
  EXPECT_EQ(o->group, 12U);
}

TEST(InodeAllocator, WithoutFlexGroupsTheSearchHopsAway) {
  World w(16, 0);
  w.source.groups[3].free_inodes = 0;
  w.inodes = std::make_unique<InodeAllocator>(*w.blocks->a, w.source, kFirstIno);
  const Ino parent = 3 * kPerGroup + 5;
  const auto o = w.inodes->allocate(file_in(parent));
  ASSERT_TRUE(o);
  EXPECT_EQ(o->group, (3 + parent + 1) % 16);
}

TEST(InodeAllocator, RecentlyDeletedInodesAreAvoidedWithoutAJournal) {
  for (const bool journal : {false, true}) {
    World w(4, 2, journal);
    w.source.recent = {12, 13};
    EXPECT_EQ(w.inodes->allocate(file_in(2))->ino, journal ? 12U : 14U);
  }
}

TEST(InodeAllocator, FreeRefusesNonsense) {
  World w(4);
  EXPECT_FALSE(w.inodes->free(2, true));
  EXPECT_FALSE(w.inodes->free(4 * kPerGroup + 1, false));
  EXPECT_FALSE(w.inodes->free(100, false)) << "was free";
  // The group whose bitmap lied is left alone; others serve.
  const auto o = w.inodes->allocate(file_in(2));
  ASSERT_TRUE(o);
  EXPECT_NE(o->group, 0U);
}

TEST(InodeAllocator, UnreadableBitmapsAreSteppedOver) {
  World w(4);
  w.source.broken = 0;
  w.source.groups[0].inode_uninit = false;
  const auto o = w.inodes->allocate(file_in(2));
  ASSERT_TRUE(o);
  EXPECT_EQ(o->group, 1U);
}

TEST(InodeAllocator, MarkUsedIsForgiving) {
  World w(4);
  const std::uint64_t before = w.inodes->free_inodes();
  EXPECT_TRUE(w.inodes->mark_used(300));
  EXPECT_TRUE(w.inodes->mark_used(300));
  EXPECT_EQ(w.inodes->free_inodes(), before - 1);
  EXPECT_FALSE(w.inodes->mark_used(3));
}

TEST(InodeAllocator, ThreadsNeverShareAnInodeAndUseThemAll) {
  World w(8);
  const std::uint64_t free = w.inodes->free_inodes();
  std::mutex m;
  std::set<Ino> all;
  std::uint64_t count = 0;
  testing_support::together(4, [&](unsigned t) {
    Random random(t);
    std::vector<Ino> mine;
    for (;;) {
      InodeRequest r = random.one_in(4) ? top_dir(static_cast<std::uint32_t>(random.next())) : file_in(2 + static_cast<Ino>(random.below(2000)));
      r.cpu = t;
      const auto o = w.inodes->allocate(r);
      if (!o) break;
      mine.push_back(o->ino);
      if (random.one_in(8)) {
        if (!w.inodes->free(mine.back(), r.directory, t)) std::abort();
        mine.pop_back();
      }
    }
    const std::lock_guard held(m);
    all.insert(mine.begin(), mine.end());
    count += mine.size();
  });
  // A thread may have given up while another held the last ones for a moment.
  for (auto o = w.inodes->allocate(file_in(2)); o; o = w.inodes->allocate(file_in(2))) {
    all.insert(o->ino);
    ++count;
  }
  EXPECT_EQ(count, free);
  EXPECT_EQ(all.size(), free);
  EXPECT_EQ(w.inodes->free_inodes(), 0U);
  EXPECT_TRUE(w.inodes->verify()) << w.inodes->verify().error().message();
}

}  // namespace
}  // namespace e4::test
