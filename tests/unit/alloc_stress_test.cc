// SPDX-License-Identifier: GPL-2.0-only
// Many threads on one allocator; whatever they did, in the end everything must agree.
// E4_SEED and E4_STRESS_STEPS repeat or lengthen a run.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <vector>

#include "base/random.h"
#include "tests/support/alloc_recipes.h"
#include "tests/support/naive_space.h"
#include "tests/support/stress.h"

namespace e4::test {
namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* s = std::getenv(name);
  return s ? std::strtoull(s, nullptr, 0) : otherwise;
}

struct Case {
  const char* policy;
  bool small_space;  // so small that the threads keep running out
  bool lazy = false; // groups are loaded by the threads themselves
};
class AllocStress : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Policies, AllocStress,
                         testing::Values(Case{"preset=linux-6.18", false}, Case{"preset=linux-6.18", true},
                                         Case{"preset=linux-6.15", false}, Case{"preset=linux-6.15", true},
                                         Case{"group-layout=split", true}, Case{"stream-goal=relaxed", false}, Case{"preset=linux-6.18", false, true},
                                         Case{"read-bit=test-first", true, true}));

TEST_P(AllocStress, NothingIsLostAndNothingOwnedTwice) {
  constexpr unsigned kThreads = 4;
  const std::uint64_t seed = from_environment("E4_SEED", 20261130);
  const std::uint64_t steps = from_environment("E4_STRESS_STEPS", 6000);
  SCOPED_TRACE("E4_SEED=" + std::to_string(seed));
  alloc::Geometry g;
  g.block_bytes = 1024;
  g.first_data_block = 1;
  g.blocks_per_group = g.clusters_per_group = 2048;
  g.blocks_count = 1 + (GetParam().small_space ? 4 : 20) * 2048;
  g.inodes_per_group = 64;
  alloc::MountOptions m;
  m.possible_cpus = 3;  // fewer than threads: some share a CPU's slot
  m.optimize_scan = true;
  m.reserved_clusters = 0;
  alloc::Policy policy;
  ASSERT_TRUE(policy.set(GetParam().policy));
  Bench b(g, m, policy);
  for (GroupNo i = 0; i < g.groups(); ++i) b.source.set_used(i, 0, 20);
  b.start();
  alloc::Allocator& a = *b.a;
  const std::int64_t free_before = a.free_clusters_count();
  Bench loaded(g, m, policy);
  for (GroupNo i = 0; i < g.groups(); ++i) loaded.source.set_used(i, 0, 20);
  loaded.start();
  ASSERT_TRUE(loaded.a->load_all());
  NaiveSpace naive(*loaded.a);
  if (!GetParam().lazy) {
    ASSERT_TRUE(a.load_all());
  }

  std::atomic<unsigned> doubles{0}, bad_frees{0};
  std::atomic<std::uint64_t> allocated{0}, refused{0};
  testing_support::together(kThreads, [&](unsigned t) {
    Random random(seed + t);
    const Tid tid = t;  // each thread is its own transaction
    std::vector<MiniFile> files;
    for (Ino i = 0; i < 10; ++i) {
      MiniFile& f = files.emplace_back(a, static_cast<Ino>(12 + t * 50 + i));
      f.cpu = t;
      f.after_allocate = [&](const alloc::Outcome& o) {
        if (!naive.take(o.block, o.len)) ++doubles;
        allocated += o.len;
      };
      f.before_free = [&](Blk block, std::uint64_t blocks) {
        if (!naive.give(block, static_cast<std::uint32_t>(blocks))) ++doubles;
      };
    }
    for (std::uint64_t i = 0; i < steps; ++i) {
      MiniFile& f = files[random.below(files.size())];
      f.log.clear();
      f.requests.clear();
      const auto when = random.one_in(2) ? alloc::FreeRequest::When::at_commit : alloc::FreeRequest::When::at_once;
      const std::uint64_t what = random.below(100);
      if (what < 55) {
        const std::uint32_t want = static_cast<std::uint32_t>(random.between(1, random.one_in(3) ? 300 : 12));
        const auto [lblk, blocks] = f.hole(static_cast<Lblk>(random.below(4000)), want);
        f.i_size = random.below(6000) * 1024;
        f.open = !random.one_in(3);
        const auto r = f.map(lblk, blocks, random.one_in(8) ? 0U : random.one_in(2) ? MiniFile::kFallocate : static_cast<std::uint32_t>(alloc::kHintData));
        refused += r.back().status != alloc::Status::ok;
      } else if (what < 80 && !f.extents().empty()) {
        a.discard_inode(f.ino());
        const auto [start, e] = *std::next(f.extents().begin(), static_cast<std::ptrdiff_t>(random.below(f.extents().size())));
        f.punch(start, e.len, tid, when);
      } else if (what < 85) {
        f.unlink(tid, when);
      } else if (what < 95) {
        a.discard_inode(f.ino());
      } else if (what < 98) {
        a.commit(tid);
      } else {
        (void)a.group_counters(static_cast<GroupNo>(random.below(g.groups())));
        (void)a.stats();
      }
    }
    for (MiniFile& f : files) {
      f.unlink(tid);
      bad_frees += f.failed_frees;
    }
  });
  EXPECT_EQ(doubles, 0U);
  EXPECT_EQ(bad_frees, 0U);
  EXPECT_GT(allocated, 0U);
  if (GetParam().small_space) {
    EXPECT_GT(refused, 0U) << "the case was to run out of space";
  }
  EXPECT_TRUE(a.verify()) << a.verify().error().message();
  EXPECT_EQ(naive.difference(a), "");
  for (Tid t = 0; t < kThreads; ++t) a.commit(t);
  ASSERT_TRUE(a.load_all());
  a.discard_all();
  EXPECT_EQ(a.pending_clusters(), 0U);
  EXPECT_EQ(a.free_clusters_count(), free_before);
  EXPECT_EQ(a.dirty_clusters_count(), 0);
  EXPECT_TRUE(a.verify()) << a.verify().error().message();
  std::uint64_t in_core = 0;
  for (GroupNo i = 0; i < g.groups(); ++i) in_core += a.group_counters(i).free;
  EXPECT_EQ(in_core, static_cast<std::uint64_t>(free_before));
}

// Every thread asks for single clusters until refused: together they must get every one there is.
TEST(AllocStressEnospc, TheLastClusterIsFound) {
  for (const char* preset : {"preset=linux-6.18", "preset=linux-6.15"}) {
    SCOPED_TRACE(preset);
    alloc::Geometry g;
    g.block_bytes = 1024;
    g.first_data_block = 1;
    g.blocks_per_group = g.clusters_per_group = 1024;
    g.blocks_count = 1 + 24 * 1024;
    alloc::MountOptions m;
    m.possible_cpus = 4;
    m.reserved_clusters = 0;
    alloc::Policy policy;
    ASSERT_TRUE(policy.set(preset));
    Bench b(g, m, policy);
    for (GroupNo i = 0; i < g.groups(); ++i) b.source.set_used(i, 0, 900);
    b.start();
    alloc::Allocator& a = *b.a;
    const auto free = static_cast<std::uint64_t>(a.free_clusters_count());
    std::atomic<std::uint64_t> got{0};
    testing_support::together(4, [&](unsigned t) {
      alloc::Outcome out;
      alloc::Request rq;
      rq.ino = 12 + t;
      rq.cpu = t;
      rq.flags = MiniFile::kWriteback;  // no claim: only the search can refuse
      rq.i_size = 1 << 20;
      for (rq.lblk = 0;; rq.lblk += 7) {
        rq.lleft = rq.lright = rq.lblk;
        if (a.allocate(rq, out) != alloc::Status::ok) break;
        got += out.len;
      }
    });
    EXPECT_EQ(got, free);
    EXPECT_EQ(a.free_clusters_count(), 0);
    EXPECT_TRUE(a.verify()) << a.verify().error().message();
  }
}

}  // namespace
}  // namespace e4::test
