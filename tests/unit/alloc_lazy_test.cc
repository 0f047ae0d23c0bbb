// SPDX-License-Identifier: GPL-2.0-only
// Groups are loaded when first needed; who loads which group when decides where blocks go on a fresh mount.
#include <gtest/gtest.h>

#include "tests/support/alloc_recipes.h"

namespace e4::test {
namespace {

using alloc::Event;

/// Counts what is read.
class CountingSource final : public alloc::BitmapSource {
 public:
  explicit CountingSource(const alloc::Geometry& g) : inner(g) {}
  alloc::GroupDescriptor descriptor(GroupNo g) override { return inner.descriptor(g); }
  Result<void> read_bitmap(GroupNo g, std::span<std::uint64_t> words) override {
    reads.push_back(g);
    if (g == broken) return make_error(ErrorKind::io, "no such sector");
    return inner.read_bitmap(g, words);
  }
  std::uint32_t metadata_clusters(GroupNo g) override { return inner.metadata_clusters(g); }
  alloc::MemorySource inner;
  std::vector<GroupNo> reads;
  GroupNo broken = ~0U;
};

struct World {
  World(const alloc::Geometry& g, const alloc::MountOptions& m) : geometry(g), mount(m), source(g) {}
  void start() {
    a = std::move(*alloc::Allocator::create(geometry, mount, alloc::Tunables::defaults(geometry, mount), {}, source));
  }
  std::vector<GroupNo> loads(alloc::Request rq) {
    alloc::EventLog log;
    EXPECT_EQ(a->allocate(rq, out, &log), alloc::Status::ok);
    std::vector<GroupNo> groups;
    for (const Event& e : log)
      if (e.kind == Event::Kind::group_loaded) groups.push_back(e.group);
    return groups;
  }
  alloc::Geometry geometry;
  alloc::MountOptions mount;
  CountingSource source;
  std::unique_ptr<alloc::Allocator> a;
  alloc::Outcome out;
};
alloc::Request data(Ino ino, Blk goal) {
  alloc::Request rq;
  rq.ino = ino;
  rq.goal = goal;
  rq.len_clusters = 4;
  rq.i_size = 16384;
  rq.flags = alloc::kHintData;
  return rq;
}
alloc::Geometry gib(unsigned n) {
  alloc::Geometry g;
  g.blocks_count = Blk{n} * 8 * 32768;
  return g;
}

// Seen on a live 6 GiB file system: the goal's group first, then the batch backwards.
TEST(AllocLazy, FreshMountLoadsTheGoalThenTheBatchBackwards) {
  alloc::MountOptions m;
  m.rotational = true;
  World w(gib(6), m);
  for (GroupNo g = 0; g < 48; ++g) {
    w.source.inner.set_used(g, 0, 100);
    w.source.inner.set_uninit(g, g != 0 && g != 47);
  }
  w.start();
  EXPECT_TRUE(w.source.reads.empty());
  EXPECT_EQ(w.loads(data(12, 32768)), (std::vector<GroupNo>{1, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2}));
  EXPECT_EQ(w.out.result.group, 1U);
  EXPECT_FALSE(w.a->block_uninit(1));
  EXPECT_TRUE(w.a->block_uninit(2));
  EXPECT_TRUE(w.loads(data(13, 32768)).empty());
}

TEST(AllocLazy, CheapPassesDoNotReadBitmapsExceptOfFlexFirsts) {
  alloc::MountOptions m;
  m.optimize_scan = false;
  World w(gib(4), m);  // 32 groups, bitmaps on disk, none in memory
  w.start();
  auto t = w.a->tunables();
  t.mb_prefetch = 0;
  w.a->set_tunables(t);
  alloc::Request rq = data(12, 32768);
  rq.flags = 0;
  EXPECT_EQ(w.loads(rq), std::vector<GroupNo>{16});  // 1 to 15 are passed over in the circle, 16 begins a flex group
}

TEST(AllocLazy, InodeUseOfAGroupChangesWhatIsConsidered) {
  alloc::MountOptions m;
  m.optimize_scan = false;
  for (const bool inode : {false, true}) {
    World w(gib(2), m);
    for (GroupNo g = 1; g < 16; ++g) w.source.inner.set_uninit(g, true);
    w.start();
    auto t = w.a->tunables();
    t.mb_prefetch = 0;
    w.a->set_tunables(t);
    if (inode) w.a->note_inode_allocated(1);
    EXPECT_EQ(w.loads(data(12, 32768)), std::vector<GroupNo>{inode ? 2U : 1U});
  }
}

TEST(AllocLazy, SmallBlocksLoadInPairs) {
  alloc::Geometry g;
  g.block_bytes = 1024;
  g.first_data_block = 1;
  g.blocks_per_group = g.clusters_per_group = 8192;
  g.blocks_count = 1 + 8 * 8192;
  World w(g, {});
  w.start();
  alloc::EventLog log;
  ASSERT_TRUE(w.a->load_group(5, &log));
  ASSERT_EQ(log.size(), 2U);
  EXPECT_EQ(log[0].group, 4U);
  EXPECT_EQ(log[1].group, 5U);
}

TEST(AllocLazy, CachedBuffersCostNoReadInABatch) {
  // The limit counts reads: with it at one, a second batch starts only if the first cost none.
  for (const bool cached : {false, true}) {
    alloc::MountOptions m;
    m.optimize_scan = false;
    World w(gib(8), m);
    for (GroupNo g = 0; g < 64; ++g) w.source.inner.set_used(g, 0, g < 40 ? 32766 : 0);
    w.start();
    auto t = w.a->tunables();
    t.mb_prefetch_limit = 1;
    w.a->set_tunables(t);
    if (cached)
      for (GroupNo g = 0; g < 64; ++g) w.a->note_bitmap_cached(g);
    alloc::Request rq = data(12, 17 * 32768);
    rq.flags = 0;
    rq.len_clusters = 4;
    w.loads(rq);
    // Only the last batch is finished: the one that begins with the group found, or the first.
    EXPECT_EQ(w.a->group_loaded(60), cached);
    EXPECT_EQ(w.a->group_loaded(20), !cached);
  }
}

TEST(AllocLazy, AGroupThatCannotBeReadIsLeftAlone) {
  World w(gib(2), {});
  w.source.broken = 1;
  w.start();
  alloc::Request rq = data(12, 32768);
  rq.flags = alloc::kHintTryGoal;
  ASSERT_EQ(w.a->allocate(rq, w.out), alloc::Status::ok);
  EXPECT_NE(w.out.result.group, 1U);
  EXPECT_NE(w.a->take_error().find("group 1"), std::string::npos);
  EXPECT_TRUE(w.a->take_error().empty());
}

TEST(AllocLazy, DescriptorAndBitmapMustAgree) {
  alloc::Geometry g = gib(1);
  class Liar final : public alloc::BitmapSource {
   public:
    alloc::GroupDescriptor descriptor(GroupNo) override { return {1000, false}; }
    Result<void> read_bitmap(GroupNo, std::span<std::uint64_t> words) override {
      std::ranges::fill(words, 0);
      return {};
    }
    std::uint32_t metadata_clusters(GroupNo) override { return 0; }
  } liar;
  auto a = std::move(*alloc::Allocator::create(g, {}, alloc::Tunables::defaults(g, {}), {}, liar));
  const auto r = a->load_group(3);
  ASSERT_FALSE(r);
  EXPECT_NE(r.error().message().find("32768"), std::string::npos) << r.error().message();
  EXPECT_FALSE(a->load_group(3));  // and stays so
}

TEST(AllocLazy, UntouchedGroupsCostLessThan128Bytes) {
  class AllFree final : public alloc::BitmapSource {
   public:
    alloc::GroupDescriptor descriptor(GroupNo) override { return {32768, false}; }
    Result<void> read_bitmap(GroupNo, std::span<std::uint64_t> words) override {
      std::ranges::fill(words, 0);
      return {};
    }
    std::uint32_t metadata_clusters(GroupNo) override { return 0; }
  } all_free;
  const alloc::Geometry g = gib(16 * 1024);  // 16 TiB
  auto a = std::move(*alloc::Allocator::create(g, {}, alloc::Tunables::defaults(g, {}), {}, all_free));
  const alloc::Stats s = a->stats();
  EXPECT_EQ(g.groups(), 131072U);
  EXPECT_LE(s.memory_untouched_bytes, std::uint64_t{g.groups()} * 128);
  alloc::Outcome out;
  EXPECT_EQ(a->allocate(data(12, 70000ULL * 32768), out), alloc::Status::ok);
  EXPECT_LE(a->stats().groups_loaded, 17U);
}

TEST(AllocLazy, ImpossibleGeometryIsRefused) {
  alloc::Geometry good = gib(1);
  alloc::MemorySource source(good);
  const auto refused = [&](auto change) {
    alloc::Geometry g = good;
    change(g);
    return !alloc::Allocator::create(g, {}, {}, {}, source).has_value();
  };
  EXPECT_TRUE(refused([](auto& g) { g.block_bytes = 3000; }));
  EXPECT_TRUE(refused([](auto& g) { g.block_bytes = 512; }));
  EXPECT_TRUE(refused([](auto& g) { g.clusters_per_group = 0; }));
  EXPECT_TRUE(refused([](auto& g) { g.clusters_per_group = g.blocks_per_group = 40000; }));
  EXPECT_TRUE(refused([](auto& g) { g.blocks_count = 0; }));
  EXPECT_TRUE(refused([](auto& g) { g.blocks_count = ~0ULL; }));
  EXPECT_TRUE(refused([](auto& g) { g.first_data_block = 9; }));
  EXPECT_TRUE(refused([](auto& g) { g.log_groups_per_flex = 40; }));
  EXPECT_TRUE(refused([](auto& g) { g.inodes_per_group = 0; }));
  EXPECT_TRUE(refused([](auto& g) { g.cluster_bits = 33; }));
  EXPECT_FALSE(refused([](auto&) {}));
}

}  // namespace
}  // namespace e4::test
