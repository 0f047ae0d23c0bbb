// SPDX-License-Identifier: GPL-2.0-only
#include "mkfs/draft.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "base/random.h"
#include "mkfs/plan.h"
#include "mkfs/write.h"

namespace e4::mkfs {
namespace {

using Bytes = std::vector<std::byte>;

/// A target full of garbage whose n-th write fails: the power goes.
class CutDevice final : public image::Device {
 public:
  explicit CutDevice(std::uint64_t bytes, std::uint64_t writes_left = UINT64_MAX) : left_(writes_left) {
    data_.resize(bytes);
    Random random(bytes);
    for (std::byte& b : data_) b = static_cast<std::byte>(random.next());
  }
  Result<void> read(std::uint64_t offset, std::span<std::byte> out) override {
    ++reads;
    std::memcpy(out.data(), data_.data() + offset, out.size());
    return {};
  }
  Result<void> write(std::uint64_t offset, std::span<const std::byte> data) override {
    if (left_ == 0) return make_error(ErrorKind::io, "cut");
    --left_;
    ++writes;
    std::memcpy(data_.data() + offset, data.data(), data.size());
    return {};
  }
  Result<void> flush() override { return {}; }
  [[nodiscard]] std::uint64_t size() const override { return data_.size(); }
  [[nodiscard]] bool writable() const override { return true; }
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] const Bytes& data() const { return data_; }
  std::uint64_t reads = 0, writes = 0;

 private:
  std::string name_ = "cut";
  Bytes data_;
  std::uint64_t left_;
};

Bytes pattern(std::size_t n, unsigned seed) {
  Bytes b(n);
  Random random(seed);
  for (std::byte& x : b) x = static_cast<std::byte>(random.next() | 1);
  return b;
}

TEST(Draft, ReadsZerosWhereNothingWasWritten) {
  Draft d("x", 65536, 4096);
  Bytes out(5000, std::byte{9});
  ASSERT_TRUE(d.read(123, out));
  EXPECT_EQ(out, Bytes(5000));
  EXPECT_FALSE(d.read(65000, out));
  EXPECT_FALSE(d.write(65000, out));
  EXPECT_FALSE(d.zero(15, 2));
}

TEST(Draft, BehavesLikeMemoryAndCommitsExactlyThat) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    Random random(seed);
    constexpr std::size_t kBytes = 64 * 1024, kBlock = 1024;
    Draft d("x", kBytes, kBlock);
    Bytes model(kBytes);
    std::vector<bool> touched(kBytes / kBlock);
    for (int step = 0; step < 400; ++step) {
      const std::uint64_t at = random.below(kBytes);
      const std::uint64_t n = std::min<std::uint64_t>(random.below(5000), kBytes - at);
      if (random.one_in(4)) {
        const std::uint64_t first = random.below(kBytes / kBlock), count = random.below(kBytes / kBlock - first + 1);
        ASSERT_TRUE(d.zero(first, count));
        std::fill_n(model.begin() + static_cast<long>(first * kBlock), count * kBlock, std::byte{0});
        std::fill_n(touched.begin() + static_cast<long>(first), count, true);
        continue;
      }
      const Bytes data = random.one_in(3) ? Bytes(n) : pattern(n, static_cast<unsigned>(random.below(5)));
      ASSERT_TRUE(d.write(at, data));
      std::ranges::copy(data, model.begin() + static_cast<long>(at));
      for (std::uint64_t b = at / kBlock; n != 0 && b <= (at + n - 1) / kBlock; ++b) touched[b] = true;
    }
    Bytes out(kBytes);
    ASSERT_TRUE(d.read(0, out));
    EXPECT_EQ(out, model) << "seed " << seed;
    CutDevice target(kBytes);
    const Bytes before = target.data();
    ASSERT_TRUE(d.commit(target, {}));
    for (std::size_t b = 0; b < touched.size(); ++b) {
      const auto* want = touched[b] ? &model : &before;
      const std::size_t from = b == 1 ? kBlock : b * kBlock;  // block 1 is the superblock, always destroyed
      if (b == 1 && !touched[b]) continue;
      EXPECT_EQ(std::memcmp(target.data().data() + from, want->data() + from, kBlock), 0) << "block " << b << " seed " << seed;
    }
  }
}

TEST(Draft, EqualBlocksAreKeptOnce) {
  Draft d("x", std::uint64_t{1} << 30, 4096);
  const Bytes same = pattern(4096, 1);
  for (unsigned i = 0; i < 1000; ++i) ASSERT_TRUE(d.write(std::uint64_t{i} * 4096, same));
  EXPECT_EQ(d.kept_blocks(), 1000U);
  EXPECT_EQ(d.distinct_blocks(), 1U);
}

TEST(Draft, ZeroedBlocksAreCountedOnce) {
  Draft d("x", std::uint64_t{1} << 40, 4096);
  ASSERT_TRUE(d.zero(10, 1000000));
  ASSERT_TRUE(d.zero(5, 10));
  EXPECT_EQ(d.zeroed_blocks(), 1000005U);
  ASSERT_TRUE(d.write(20 * 4096, pattern(4096, 1)));
  EXPECT_EQ(d.zeroed_blocks(), 1000004U);
  ASSERT_TRUE(d.zero(20, 1));
  EXPECT_EQ(d.zeroed_blocks(), 1000005U);
}

Plan small_plan(std::vector<std::string> features = {}) {
  Wishes w;
  w.image = "x";
  w.size = "6m";
  w.features = std::move(features);
  w.uuid = "12345678-9abc-def0-1234-56789abcdef0";
  return plan(w, {.now = 1700000000, .time_is_fixed = true}).value();
}

TEST(MkfsWrite, GarbageInTheTargetDoesNotMatterAndIsNeverRead) {
  const Plan p = small_plan();
  Draft a("x", p.blocks * p.block_bytes, p.block_bytes);
  const Built built = build(p, a).value();
  EXPECT_EQ(built.orphan_inum, 12U);
  EXPECT_EQ(built.lost_found_inum, 11U);
  CutDevice target(p.blocks * p.block_bytes);
  ASSERT_TRUE(a.commit(target, {}));
  EXPECT_EQ(target.reads, 0U);
  // Every byte the draft ever wrote is in the target; the rest is free space.
  Bytes block(p.block_bytes);
  std::uint64_t same = 0;
  for (Blk b = 0; b < p.blocks; ++b) {
    ASSERT_TRUE(a.read(b * p.block_bytes, block));
    same += std::memcmp(block.data(), target.data().data() + b * p.block_bytes, block.size()) == 0;
  }
  EXPECT_EQ(same, a.kept_blocks() + a.zeroed_blocks());
}

TEST(MkfsWrite, CutAtAnyWriteLeavesNoFileSystemAndTheLastWriteMakesIt) {
  const Plan p = small_plan();
  Draft draft("x", p.blocks * p.block_bytes, p.block_bytes);
  ASSERT_TRUE(build(p, draft));
  CutDevice whole(p.blocks * p.block_bytes);
  ASSERT_TRUE(draft.commit(whole, {}));
  ASSERT_GT(whole.writes, 3U);
  const auto magic = [](const CutDevice& d) { return std::to_integer<int>(d.data()[1080]) | std::to_integer<int>(d.data()[1081]) << 8; };
  EXPECT_EQ(magic(whole), 0xEF53);
  for (std::uint64_t n = 1; n < whole.writes; ++n) {
    CutDevice target(p.blocks * p.block_bytes, n);
    ASSERT_FALSE(draft.commit(target, {}));
    EXPECT_EQ(magic(target), 0) << "cut at write " << n;
    // Again, to the end: the same bytes as without the cut, where the file system lies.
    CutDevice again(p.blocks * p.block_bytes);
    ASSERT_TRUE(draft.commit(again, {}));
    EXPECT_EQ(again.data(), whole.data());
  }
}

TEST(MkfsWrite, TwoBuildsOfOnePlanAreTheSameBytes) {
  const Plan p = small_plan({"mmp", "fast_commit"});
  Draft a("a", p.blocks * p.block_bytes, p.block_bytes), b("b", p.blocks * p.block_bytes, p.block_bytes);
  ASSERT_TRUE(build(p, a));
  ASSERT_TRUE(build(p, b));
  Bytes x(p.blocks * p.block_bytes), y(x.size());
  ASSERT_TRUE(a.read(0, x));
  ASSERT_TRUE(b.read(0, y));
  EXPECT_EQ(x, y);
}

TEST(MkfsWrite, WhatDoesNotFitIsAnErrorBeforeAnyWrite) {
  Wishes w;
  w.image = "x";
  w.size = "2m";
  w.extended = {"orphan_file_size=512"};
  w.journal = {"size=1"};
  w.block_bytes = 1024;
  const Plan p = plan(w, {.now = 1}).value();
  Draft d("x", p.blocks * p.block_bytes, p.block_bytes);
  const auto built = build(p, d);
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().kind, ErrorKind::no_space);
}

TEST(MkfsWrite, AHugeFileSystemIsBuiltInLittleMemory) {
  Wishes w;
  w.image = "x";
  w.size = "4t";
  const Plan p = plan(w, {.now = 1}).value();
  Draft d("x", p.blocks * p.block_bytes, p.block_bytes);
  const Built built = build(p, d).value();
  EXPECT_EQ(built.groups, 32768U);
  EXPECT_LT(d.distinct_blocks() * 4096, 32 * kMiB);
}

}  // namespace
}  // namespace e4::mkfs
