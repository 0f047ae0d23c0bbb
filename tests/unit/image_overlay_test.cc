// SPDX-License-Identifier: GPL-2.0-only
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/random.h"
#include "image/overlay.h"

namespace e4::image {
namespace {

std::vector<std::byte> pattern(std::size_t n, std::uint64_t seed) {
  Random rng(seed);
  std::vector<std::byte> v(n);
  for (auto& b : v) b = static_cast<std::byte>(rng.next());
  return v;
}

TEST(Overlay, WritesNeverReachTheBase) {
  auto base = make_memory_device("mem", 64 * 1024);
  Overlay o(*base, 1024);
  const auto data = pattern(3000, 1);
  ASSERT_TRUE(o.write(500, data));
  std::vector<std::byte> got(3000), zero(3000), below(3000);
  ASSERT_TRUE(o.read(500, got));
  EXPECT_EQ(got, data);
  ASSERT_TRUE(base->read(500, below));
  EXPECT_EQ(below, zero);
  EXPECT_EQ(o.dirty_blocks(), (std::vector<Blk>{0, 1, 2, 3}));
}

TEST(Overlay, AliasReadsTheSourceAndPutsTheEscapedMagicBack) {
  auto base = make_memory_device("mem", 64 * 1024);
  auto log = pattern(1024, 2);
  std::memset(log.data(), 0, 4);
  ASSERT_TRUE(base->write(40 * 1024, log));
  Overlay o(*base, 1024);
  o.alias(7, 40, true);
  o.alias(8, 40, false);
  auto v = o.view(7);
  ASSERT_TRUE(v);
  EXPECT_EQ(std::to_integer<int>((*v)[0]), 0xC0);
  EXPECT_EQ(std::to_integer<int>((*v)[3]), 0x98);
  EXPECT_EQ(0, std::memcmp(v->data() + 4, log.data() + 4, 1020));
  v = o.view(8);
  ASSERT_TRUE(v);
  EXPECT_EQ(0, std::memcmp(v->data(), log.data(), 1024));
  auto e = o.edit(7);
  ASSERT_TRUE(e);
  EXPECT_EQ(std::to_integer<int>((*e)[0]), 0xC0);
  EXPECT_EQ(o.alias_count(), 1U) << "an edited alias is dirty and no alias any more";
}

TEST(Overlay, BlockPastTheEndIsAnErrorThatNamesIt) {
  auto base = make_memory_device("mem", 10 * 1024 + 100);
  Overlay o(*base, 1024);
  EXPECT_FALSE(o.view(10));
  EXPECT_FALSE(o.edit(11));
  auto r = o.view(99);
  ASSERT_FALSE(r);
  EXPECT_NE(r.error().message().find("block 99"), std::string::npos);
  std::vector<std::byte> tail(100);
  EXPECT_TRUE(o.read(10 * 1024, tail)) << "the odd tail stays readable";
}

TEST(Overlay, AgreesWithAPlainArrayUnderRandomOperations) {
  constexpr std::size_t kBytes = 3 << 20;  // larger than the smallest cache, so slots collide
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    Random rng(seed);
    auto model = pattern(kBytes, seed);
    auto base = make_memory_device("mem", kBytes);
    ASSERT_TRUE(base->write(0, model));
    const std::uint32_t bs = 1024U << rng.below(3);
    Overlay o(*base, bs);
    for (int i = 0; i < 3000; ++i) {
      const std::uint64_t at = rng.below(kBytes - 20000);
      std::vector<std::byte> buf(1 + rng.below(20000));
      switch (rng.below(4)) {
        case 0:
          buf = pattern(buf.size(), rng.next());
          ASSERT_TRUE(o.write(at, buf));
          std::memcpy(model.data() + at, buf.data(), buf.size());
          break;
        case 1: {  // settle a block: copy it down, then forget it
          const Blk b = at / bs;
          auto v = o.view(b);
          ASSERT_TRUE(v);
          ASSERT_TRUE(base->write(b * bs, *v));
          o.settled(b);
          break;
        }
        default:
          ASSERT_TRUE(o.read(at, buf));
          ASSERT_EQ(0, std::memcmp(buf.data(), model.data() + at, buf.size())) << "at " << at;
      }
    }
  }
}

}  // namespace
}  // namespace e4::image
