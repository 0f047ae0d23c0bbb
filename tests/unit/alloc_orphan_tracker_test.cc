// SPDX-License-Identifier: GPL-2.0-only
#include "alloc/orphan_tracker.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <set>

#include "alloc/generation.h"
#include "base/endian.h"
#include "base/random.h"
#include "support/stress.h"

namespace e4::alloc {
namespace {

using Tracking = Policy::OrphanTracking;
using Added = OrphanTracker::Added;

OrphanTracker::Options options(Tracking policy, std::uint32_t blocks, std::uint32_t slots, std::uint32_t inodes = 1000000) {
  OrphanTracker::Options o;
  o.policy = policy;
  o.file_blocks = blocks;
  o.block_bytes = slots * 4 + 8;
  o.inodes_count = inodes;
  return o;
}

class OrphanPolicy : public testing::TestWithParam<Tracking> {};
INSTANTIATE_TEST_SUITE_P(Policies, OrphanPolicy, testing::Values(Tracking::list, Tracking::file_locked, Tracking::file_lockless),
                         [](const auto& p) {
                           return p.param == Tracking::list ? "list" : p.param == Tracking::file_locked ? "locked" : "lockless";
                         });

TEST_P(OrphanPolicy, OverflowsToTheListAndComesBackWhole) {
  OrphanTracker tracker(options(GetParam(), 3, 5));
  std::deque<OrphanInode> inodes;
  for (Ino i = 20; i < 40; ++i) inodes.emplace_back(i);
  std::size_t in_file = 0;
  for (OrphanInode& i : inodes) in_file += tracker.add(i, 0) == Added::in_file ? 1 : 0;
  EXPECT_EQ(in_file, GetParam() == Tracking::list ? 0U : 15U);
  EXPECT_EQ(tracker.last_orphan(), 39U) << "the newest heads the list";
  ASSERT_TRUE(tracker.verify()) << tracker.verify().error().message();
  EXPECT_EQ(tracker.add(inodes[3], 0), Added::already);
  for (std::size_t i = 0; i < inodes.size(); i += 2) tracker.remove(inodes[i]);
  ASSERT_TRUE(tracker.verify()) << tracker.verify().error().message();
  for (OrphanInode& i : inodes) tracker.remove(i);
  ASSERT_TRUE(tracker.verify()) << tracker.verify().error().message();
  EXPECT_EQ(tracker.last_orphan(), 0U);
  EXPECT_TRUE(tracker.file_empty());
}

TEST(OrphanChain, HeadInsertionAndRemovalWriteTheChainOfTheDisk) {
  OrphanTracker tracker(options(Tracking::list, 0, 0));
  OrphanInode a(11), b(12), c(13);
  tracker.add(a, 0), tracker.add(b, 0), tracker.add(c, 0);
  EXPECT_EQ(tracker.last_orphan(), 13U);
  EXPECT_EQ(c.link.i_dtime, 12U);
  EXPECT_EQ(b.link.i_dtime, 11U);
  EXPECT_EQ(a.link.i_dtime, 0U) << "the tail has no next";
  tracker.remove(b);
  EXPECT_EQ(c.link.i_dtime, 11U) << "the predecessor takes the next of the removed";
  EXPECT_EQ(b.link.i_dtime, 0U);
  tracker.remove(c);
  EXPECT_EQ(tracker.last_orphan(), 11U);
  tracker.remove(a);
  EXPECT_EQ(tracker.last_orphan(), 0U);
}

TEST(OrphanChain, AnInodeThatLooksChainedIsNotLinkedTwice) {
  OrphanTracker tracker(options(Tracking::list, 0, 0, 100));
  OrphanInode chained(20), fresh(21), deleted(22);
  chained.link.i_dtime = 17;       // an inode number: on the chain already
  deleted.link.i_dtime = 1700000;  // a time: above the number of inodes
  tracker.add(fresh, 0);
  tracker.add(chained, 0);
  EXPECT_EQ(tracker.last_orphan(), 21U);
  EXPECT_EQ(chained.link.i_dtime, 17U);
  tracker.add(deleted, 0);
  EXPECT_EQ(deleted.link.i_dtime, 21U);
  EXPECT_EQ(tracker.last_orphan(), 22U);
}

TEST(OrphanSlots, LocklessStartsAtThirteenTimesTheCpu) {
  OrphanTracker tracker(options(Tracking::file_lockless, 32, 4));
  OrphanInode a(100), b(101), c(102);
  tracker.add(a, 0), tracker.add(b, 1), tracker.add(c, 5);
  EXPECT_EQ(a.own.index / 4, 0U);
  EXPECT_EQ(b.own.index / 4, 13U);
  EXPECT_EQ(c.own.index / 4, 65U % 32);
}

TEST(OrphanSlots, LockedFillsFromTheFirstBlockWhateverTheCpu) {
  OrphanTracker tracker(options(Tracking::file_locked, 32, 4));
  OrphanInode a(100), b(101);
  tracker.add(a, 1), tracker.add(b, 7);
  EXPECT_EQ(a.own.index, 0U);
  EXPECT_EQ(b.own.index, 1U);
}

TEST(OrphanSlots, WrapsAroundToTheBlockBeforeTheStart) {
  OrphanTracker tracker(options(Tracking::file_lockless, 3, 1));
  OrphanInode a(100), b(101), c(102), d(103);
  tracker.add(a, 1), tracker.add(b, 1), tracker.add(c, 1);  // 13 mod 3 = 1
  EXPECT_EQ(a.own.index, 1U);
  EXPECT_EQ(b.own.index, 2U);
  EXPECT_EQ(c.own.index, 0U);
  EXPECT_EQ(tracker.add(d, 1), Added::in_list);
  EXPECT_EQ(tracker.stats().overflows, 1U);
}

TEST(OrphanSlots, RefusedAccessGivesTheCounterBackOrLeaksIt) {
  bool allow = false;
  for (const Tracking policy : {Tracking::file_locked, Tracking::file_lockless}) {
    auto o = options(policy, 1, 3);
    o.access = {[](void* p, std::uint32_t) { return *static_cast<bool*>(p); }, &allow};
    OrphanTracker tracker(o);
    OrphanInode a(100);
    allow = false;
    EXPECT_EQ(tracker.add(a, 0), Added::refused);
    EXPECT_EQ(tracker.free_slots(0), policy == Tracking::file_locked ? 2U : 3U) << "the first version leaked";
    EXPECT_TRUE(tracker.verify());
    allow = true;
    EXPECT_EQ(tracker.add(a, 0), Added::in_file);
    EXPECT_TRUE(tracker.verify());
  }
}

TEST(OrphanSlots, WithoutTransactionOnlyTheInodeForgets) {
  OrphanTracker tracker(options(Tracking::file_lockless, 1, 3));
  OrphanInode a(100);
  tracker.add(a, 0);
  tracker.remove(a, false);
  EXPECT_EQ(a.own.state, OrphanInode::State::untracked);
  EXPECT_EQ(tracker.slot(0), 100U);
  EXPECT_FALSE(tracker.file_empty());
}

TEST(OrphanSlots, IndexOutOfRangeIsDropped) {
  OrphanTracker tracker(options(Tracking::file_lockless, 1, 3));
  OrphanInode a(100);
  a.own = {OrphanInode::State::in_file, 3};
  EXPECT_TRUE(tracker.remove(a));
  EXPECT_EQ(tracker.stats().dropped, 1U);
  EXPECT_TRUE(tracker.file_empty());
}

TEST(OrphanSlots, BlocksAreTheOnesOfTheDisk) {
  for (const Tracking policy : {Tracking::file_locked, Tracking::file_lockless}) {
    OrphanTracker tracker(options(policy, 2, 4));
    std::vector<std::byte> block(24);
    store<le32>(block.data(), 4, 0x01020304U);
    tracker.load_block(1, block);
    EXPECT_EQ(tracker.free_slots(1), 3U);
    EXPECT_EQ(tracker.slot(5), 0x01020304U);
    EXPECT_FALSE(tracker.take_dirty(1));
    OrphanInode old(0x01020304), other(7);
    EXPECT_FALSE(tracker.adopt(other, 5));
    EXPECT_FALSE(tracker.adopt(other, 8));
    EXPECT_TRUE(tracker.adopt(old, 5));
    tracker.remove(old);
    EXPECT_TRUE(tracker.take_dirty(1));
    EXPECT_FALSE(tracker.take_dirty(1));
    tracker.copy_block(1, block);
    EXPECT_EQ(load<le32>(block.data(), 4), 0U);
    EXPECT_TRUE(tracker.file_empty());
  }
}

TEST(OrphanSlots, ABlockFullOfGarbageBehindItsCounterEndsInTheListNotInALoop) {
  OrphanTracker tracker(options(Tracking::file_lockless, 1, 3));
  OrphanInode a(100), b(101), c(102);
  tracker.add(a, 0), tracker.add(b, 0), tracker.add(c, 0);
  a.own.index = 1;  // the wrong slot: counter and slots part company
  tracker.remove(a);
  tracker.remove(b);  // again slot 1: two free by the counter, one by the slots
  OrphanInode d(103), e(104);
  EXPECT_EQ(tracker.add(d, 0), Added::in_file);
  EXPECT_EQ(tracker.add(e, 0), Added::in_list);
  EXPECT_EQ(tracker.stats().slots.crowded, 1U);
  EXPECT_FALSE(tracker.verify()) << "verify() must see it";
}

// --- threads -------------------------------------------------------------------------------------

void stress(Tracking policy, unsigned threads, std::uint64_t seed, std::uint32_t blocks, std::uint32_t slots, unsigned turns) {
  SCOPED_TRACE("policy " + std::to_string(static_cast<int>(policy)) + " threads " + std::to_string(threads) + " seed " +
               std::to_string(seed));
  OrphanTracker tracker(options(policy, blocks, slots));
  constexpr unsigned kEach = 8;
  std::deque<OrphanInode> inodes;
  for (unsigned i = 0; i < threads * kEach; ++i) inodes.emplace_back(1000 + i);
  std::atomic<int> wrong{0};
  testing_support::together(threads, [&](unsigned t) {
    Random random(seed * 64 + t);
    for (unsigned turn = 0; turn < turns; ++turn) {
      OrphanInode& i = inodes[t * kEach + random.below(kEach)];
      if (i.own.state == OrphanInode::State::untracked) {
        const Added added = tracker.add(i, t);
        // Nobody else may touch our slot until we give it back.
        if (added == Added::in_file && tracker.slot(i.own.index) != i.ino) ++wrong;
      } else {
        if (i.own.state == OrphanInode::State::in_file && tracker.slot(i.own.index) != i.ino) ++wrong;
        tracker.remove(i);
      }
    }
  });
  EXPECT_EQ(wrong.load(), 0);
  const auto verdict = tracker.verify();
  ASSERT_TRUE(verdict) << verdict.error().message();
  // The model: what the inodes say must be what file and list hold.
  std::set<Ino> by_inode, by_tracker;
  for (const OrphanInode& i : inodes)
    if (i.own.state != OrphanInode::State::untracked) by_inode.insert(i.ino);
  for (const auto& link : tracker.chain().links()) by_tracker.insert(link.ino);
  for (std::uint32_t s = 0; s < tracker.file_blocks() * slots; ++s)
    if (const Ino ino = tracker.slot(s); ino != 0) by_tracker.insert(ino);
  EXPECT_EQ(by_inode, by_tracker);
  for (OrphanInode& i : inodes) tracker.remove(i);
  ASSERT_TRUE(tracker.verify());
  EXPECT_TRUE(tracker.file_empty());
  EXPECT_EQ(tracker.last_orphan(), 0U);
}

TEST_P(OrphanPolicy, StressKeepsEveryOrphanExactlyOnce) {
  for (const unsigned threads : {2U, 4U, 8U})
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      stress(GetParam(), threads, seed, 2, 3, 3000);    // nearly always full: the list is busy
      stress(GetParam(), threads, seed, 13, 4, 3000);   // every CPU starts at block 0
      stress(GetParam(), threads, seed, 32, 254, 3000);
      if (HasFatalFailure()) return;
    }
}

class OrphanFilePolicy : public testing::TestWithParam<Tracking> {};
INSTANTIATE_TEST_SUITE_P(Policies, OrphanFilePolicy, testing::Values(Tracking::file_locked, Tracking::file_lockless),
                         [](const auto& p) { return p.param == Tracking::file_locked ? "locked" : "lockless"; });

TEST_P(OrphanFilePolicy, AStorerBesideThemMissesNoChange) {
  constexpr std::uint32_t kBlocks = 3, kSlots = 5, kBytes = kSlots * 4 + 8;
  OrphanTracker tracker(options(GetParam(), kBlocks, kSlots));
  std::vector<std::vector<std::byte>> disk(kBlocks, std::vector<std::byte>(kBytes));
  const auto store_dirty = [&] {
    for (std::uint32_t b = 0; b < kBlocks; ++b)
      if (tracker.take_dirty(b)) tracker.copy_block(b, disk[b]);
  };
  std::deque<OrphanInode> inodes;
  for (unsigned i = 0; i < 9; ++i) inodes.emplace_back(50 + i);
  std::atomic<unsigned> running{3};
  testing_support::together(4, [&](unsigned t) {
    if (t == 3) {
      while (running.load() != 0) store_dirty();
      return;
    }
    Random random(t + 1);
    for (int turn = 0; turn < 5000; ++turn) {
      OrphanInode& i = inodes[t * 3 + random.below(3)];
      if (i.own.state == OrphanInode::State::untracked)
        tracker.add(i, t);
      else
        tracker.remove(i);
    }
    --running;
  });
  store_dirty();
  for (std::uint32_t b = 0; b < kBlocks; ++b)
    for (std::uint32_t s = 0; s < kSlots; ++s)
      EXPECT_EQ(load<le32>(disk[b].data(), std::size_t{s} * 4), tracker.slot(b * kSlots + s)) << b << "/" << s;
}

TEST(OrphanStats, LockedCountsItsLockLocklessTakesNone) {
  OrphanTracker locked(options(Tracking::file_locked, 4, 8)), lockless(options(Tracking::file_lockless, 4, 8)),
      list(options(Tracking::list, 4, 8));
  OrphanInode a(30), b(31), c(32);
  locked.add(a, 0), locked.remove(a);
  lockless.add(b, 0), lockless.remove(b);
  list.add(c, 0), list.remove(c);
  EXPECT_EQ(locked.stats().file_lock.acquired, 3U) << "reserve, claim, release";
  EXPECT_EQ(lockless.stats().file_lock.acquired, 0U);
  EXPECT_EQ(list.stats().list_lock.acquired, 2U);
}

// --- generations ---------------------------------------------------------------------------------

TEST(Generation, CountersGiveEveryNumberOnce) {
  for (const auto policy : {Policy::InodeGeneration::locked, Policy::InodeGeneration::atomic}) {
    Generations generations(policy, 7);
    constexpr unsigned kThreads = 4, kEach = 2000;
    std::vector<std::vector<std::uint32_t>> got(kThreads);
    testing_support::together(kThreads, [&](unsigned t) {
      for (unsigned i = 0; i < kEach; ++i) got[t].push_back(generations.next(t));
    });
    std::set<std::uint32_t> all;
    for (const auto& g : got) all.insert(g.begin(), g.end());
    EXPECT_EQ(all.size(), std::size_t{kThreads} * kEach);
    EXPECT_EQ(*all.begin(), 7U);
    EXPECT_EQ(*all.rbegin(), 7U + kThreads * kEach - 1);
    EXPECT_EQ(generations.lock_traffic().acquired, policy == Policy::InodeGeneration::locked ? kThreads * kEach : 0U);
  }
}

TEST(Generation, RandomRepeatsWithTheSeedAndDiffersByCpu) {
  Generations a(Policy::InodeGeneration::random, 1), b(Policy::InodeGeneration::random, 1), c(Policy::InodeGeneration::random, 2);
  std::set<std::uint32_t> seen;
  int same_seed = 0, other_seed = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::uint32_t x = a.next(0);
    same_seed += x == b.next(0) ? 1 : 0;
    other_seed += x == c.next(0) ? 1 : 0;
    seen.insert(x);
    seen.insert(a.next(1));
  }
  EXPECT_EQ(same_seed, 1000);
  EXPECT_LT(other_seed, 5);
  EXPECT_GT(seen.size(), 1990U);
}

}  // namespace
}  // namespace e4::alloc
