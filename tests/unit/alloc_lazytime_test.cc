// SPDX-License-Identifier: GPL-2.0-only
#include "alloc/lazytime.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/endian.h"
#include "base/random.h"
#include "support/interleave.h"
#include "support/stress.h"

namespace e4::alloc {
namespace {

using Neighbours = Policy::LazytimeNeighbours;

struct BlockBuffer {
  alignas(8) std::array<std::byte, 16 * 256> bytes{};
  [[nodiscard]] Lazytime::Times times(std::uint32_t position) const {
    const std::byte* raw = bytes.data() + std::size_t{position} * 256;
    return {load<le32>(raw, 0x08), load<le32>(raw, 0x0C), load<le32>(raw, 0x10)};
  }
};
constexpr Lazytime::Times at(std::uint32_t t) { return {t, t + 1, t + 2}; }

const char* policy_name(Neighbours policy) {
  static constexpr const char* kNames[] = {"off", "lock", "trylock", "rcu"};
  return kNames[static_cast<int>(policy)];
}

class LazytimePolicy : public testing::TestWithParam<Neighbours> {};
INSTANTIATE_TEST_SUITE_P(Policies, LazytimePolicy,
                         testing::Values(Neighbours::off, Neighbours::lock, Neighbours::trylock, Neighbours::rcu),
                         [](const auto& p) { return policy_name(p.param); });

TEST_P(LazytimePolicy, WritingOneTakesAlongThoseWithNothingButTheTime) {
  Lazytime cache({.policy = GetParam(), .capacity = 8});
  const auto self = cache.attach(17, at(1)), time_only = cache.attach(18, at(2)), more = cache.attach(19, at(3)),
             clean = cache.attach(32, at(4)), elsewhere = cache.attach(33, at(5));
  cache.touch(self, at(100)), cache.mark_dirty(self);
  cache.touch(time_only, at(200));
  cache.touch(more, at(300)), cache.mark_dirty(more);
  cache.touch(elsewhere, at(500));
  BlockBuffer block;
  const bool off = GetParam() == Neighbours::off;
  EXPECT_EQ(cache.write(self, block.bytes), off ? 0U : 1U);
  EXPECT_EQ(block.times(0), at(100));
  EXPECT_EQ(block.times(1), off ? Lazytime::Times{} : at(200));
  EXPECT_EQ(block.times(2), Lazytime::Times{}) << "it has to be written for itself";
  EXPECT_EQ(block.times(15), Lazytime::Times{}) << "clean";
  EXPECT_FALSE(cache.dirty(self));
  EXPECT_EQ(cache.dirty(time_only), off);
  EXPECT_TRUE(cache.dirty(more));
  EXPECT_FALSE(cache.dirty(clean));
  EXPECT_TRUE(cache.dirty(elsewhere)) << "33 lies in the next block";
  EXPECT_EQ(cache.stats().written_along, off ? 0U : 1U);
  EXPECT_EQ(cache.stats().looked_up, off ? 0U : 15U);
}

TEST(LazytimeTable, DirtyInodesStayAndHandlesRunOut) {
  Lazytime cache({.capacity = 2});
  const auto a = cache.attach(1, at(1)), b = cache.attach(2, at(2));
  EXPECT_EQ(cache.attach(3, at(3)), Lazytime::kNone);
  cache.touch(a, at(9));
  EXPECT_FALSE(cache.detach(a));
  BlockBuffer block;
  cache.write(a, block.bytes);
  EXPECT_TRUE(cache.detach(a));
  EXPECT_NE(cache.attach(3, at(3)), Lazytime::kNone);
  EXPECT_TRUE(cache.detach(b));
}

TEST(LazytimeStats, OnlyLockAndTrylockTakeTheHashLock) {
  for (const auto policy : {Neighbours::off, Neighbours::lock, Neighbours::trylock, Neighbours::rcu}) {
    Lazytime cache({.policy = policy, .capacity = 4});
    const auto h = cache.attach(1, at(1));
    const auto before = cache.stats().hash_lock.acquired;
    cache.touch(h, at(2));
    BlockBuffer block;
    cache.write(h, block.bytes);
    const bool locks = policy == Neighbours::lock || policy == Neighbours::trylock;
    EXPECT_EQ(cache.stats().hash_lock.acquired - before, locks ? 15U : 0U);
  }
}

TEST_P(LazytimePolicy, StressLosesNoTime) {
  // Each thread has inodes of its own in two shared blocks, and takes them in and out of memory meanwhile.
  constexpr unsigned kThreads = 4, kEach = 4;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Lazytime cache({.policy = GetParam(), .capacity = kThreads * kEach});
    std::array<BlockBuffer, 2> blocks;
    std::array<std::uint32_t, 32> last{};
    const auto block_of = [&](Ino ino) -> BlockBuffer& { return blocks[(ino - 1) / 16]; };
    testing_support::together(kThreads, [&](unsigned t) {
      Random random(seed * 100 + t);
      std::array<Lazytime::Handle, kEach> handles{};
      for (std::uint32_t turn = 1; turn <= 1500; ++turn) {
        const std::size_t k = random.below(kEach);
        const Ino ino = static_cast<Ino>(1 + t + kThreads * k * 2);  // spread over both blocks
        Lazytime::Handle& h = handles[k];
        if (h == Lazytime::kNone) h = cache.attach(ino, at(last[ino - 1]));
        last[ino - 1] = turn;
        cache.touch(h, at(turn));
        if (random.one_in(3)) cache.write(h, block_of(ino).bytes);
        if (random.one_in(5) && cache.detach(h)) h = Lazytime::kNone;
      }
      for (std::size_t k = 0; k < kEach; ++k)
        if (handles[k] != Lazytime::kNone) cache.write(handles[k], block_of(static_cast<Ino>(1 + t + kThreads * k * 2)).bytes);
    });
    for (Ino ino = 1; ino <= 32; ++ino)
      if (last[ino - 1] != 0) {
        EXPECT_EQ(blocks[(ino - 1) / 16].times((ino - 1) % 16), at(last[ino - 1])) << "inode " << ino;
      }
  }
}

/// Two threads, two inodes of one block; each touches and writes. At the end a time is either in the block or dirty.
testing_support::Interleave::Report interleave(Neighbours policy) {
  using testing_support::Interleave;
  using Cache = BasicLazytime<testing_support::ModelSync>;
  Cache cache({.policy = policy, .inodes_per_block = 2, .inode_bytes = 32, .capacity = 2});
  const std::array<Cache::Handle, 2> h{cache.attach(1, {}), cache.attach(2, {})};
  alignas(8) std::array<std::byte, 64> block{};
  Interleave explorer;
  cache.visit_memory([&](void* p, std::size_t n) { explorer.shared(p, n); });
  explorer.shared(block.data(), block.size());
  explorer.thread({[&] { cache.touch(h[0], {10, 11, 12}); }, [&] { cache.write(h[0], block); }});
  explorer.thread({[&] { cache.touch(h[1], {20, 21, 22}); }, [&] { cache.write(h[1], block); },
                   [&] { cache.touch(h[1], {30, 31, 32}); }});
  explorer.at_end([&]() -> std::string {
    for (std::uint32_t i = 0; i < 2; ++i) {
      const std::byte* raw = block.data() + std::size_t{i} * 32;
      const Cache::Times stored{load<le32>(raw, 0x08), load<le32>(raw, 0x0C), load<le32>(raw, 0x10)};
      if (!cache.dirty(h[i]) && cache.times(h[i]) != stored) return "inode " + std::to_string(i + 1) + ": clean, yet its time is lost";
    }
    return {};
  });
  return explorer.run();
}

TEST_P(LazytimePolicy, NoTimeIsLostUnderAnyInterleaving) {
  const auto r = interleave(GetParam());
  EXPECT_EQ(r.failure, "");
  EXPECT_TRUE(r.complete) << r.states;
  EXPECT_GT(r.states, 100U);
}

}  // namespace
}  // namespace e4::alloc
