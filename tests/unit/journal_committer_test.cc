// SPDX-License-Identifier: GPL-2.0-only
#include "journal/committer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "journal/descriptor.h"
#include "journal/fs_super.h"
#include "journal/writeback.h"
#include "tests/support/child.h"
#include "tests/support/log_image.h"
#include "tests/support/power_cut.h"
#include "tests/support/temp_dir.h"

namespace e4::journal {
namespace {

using test::LogImage;
using test::LogOptions;
using test::PowerCut;
using test::VectorDevice;

constexpr CommitTime kTime{.sec = 1000, .nsec = 0};
constexpr std::uint32_t kBatches = 3, kPairs = 4;  // transactions of a "release", pairs of blocks in each
constexpr std::uint32_t kDone = 0xD09ED09EU;

// Two blocks far from each other that must change together.
struct Pair {
  Blk a, b;
};
Pair pair_of(Blk first_data, std::uint32_t batch, std::uint32_t i) {
  const std::uint32_t n = batch * kPairs + i;
  return {first_data + 100 + n, first_data + 900 - n};
}

Result<std::uint32_t> word(image::Device& device, Blk b, std::uint32_t bs) {
  std::vector<std::byte> block(bs);
  E4_TRY(device.read(b * bs, block));
  return load<be32>(block.data());
}

// A whole recovery: the log, then edits in batches, as a release of orphans
// makes them. Repeats what is not done yet.
Result<Committer::Stats> recover_and_edit(image::Device& device, Blk first_data, CommitOptions options = {}) {
  image::Filsys fs = E4_TRY(image::Filsys::open(device));
  RecoveryPlan plan = E4_TRY(plan_recovery(device, fs));
  image::Overlay overlay(device, fs.block_bytes());
  const std::uint32_t bs = fs.block_bytes();
  E4_TRY(apply(plan, overlay));
  Committer committer = E4_TRY(Committer::begin(std::move(plan), overlay, options));
  for (std::uint32_t batch = 0; batch < kBatches; ++batch) {
    for (std::uint32_t i = 0; i < kPairs; ++i) {
      const Pair p = pair_of(first_data, batch, i);
      if (E4_TRY(word(overlay, p.a, bs)) == kDone && E4_TRY(word(overlay, p.b, bs)) == kDone) continue;
      for (const Blk b : {p.a, p.b}) store<be32>(E4_TRY(overlay.edit(b)).data(), 0, kDone);
    }
    E4_TRY(committer.commit());
  }
  E4_TRY(committer.finish());
  return committer.stats();
}

// Whether two overlays over one image show the same outside the journal.
::testing::AssertionResult same_outside_log(image::Overlay& a, image::Overlay& b, const Log& log) {
  std::vector<Blk> blocks = a.dirty_blocks();
  const std::vector<Blk> more = b.dirty_blocks();
  blocks.insert(blocks.end(), more.begin(), more.end());
  std::vector<std::byte> x(log.block_bytes()), y(log.block_bytes());
  for (const Blk n : blocks) {
    if (log.holds(n)) continue;
    if (!a.read(n * x.size(), x) || !b.read(n * y.size(), y) || x != y) {
      return ::testing::AssertionFailure() << "block " << n << " differs";
    }
  }
  return ::testing::AssertionSuccess();
}

LogImage busy_image(std::uint32_t compat, std::uint32_t incompat, bool with_log = true) {
  LogOptions o;
  o.compat = compat;
  o.incompat = incompat;
  o.start = with_log ? 1010 : 0;  // wraps
  o.recover = with_log;
  LogImage image(o);
  if (!with_log) return image;
  auto w = image.writer();
  for (std::uint32_t t = 0; t < 5; ++t) {
    for (std::uint32_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(w.add(image.data_block(i * 3 + t), image.block(static_cast<std::uint8_t>(16 * t + i), i == 2 ? kMagic : i)));
    }
    // A superblock in the log, with a mark to know it by.
    std::vector<std::byte> super(image.device.bytes.begin() + 1024, image.device.bytes.begin() + 2048);
    store<le32>(super.data(), offsetof(ext2_super_block, s_wtime), 7000U + t);
    EXPECT_TRUE(w.add(1, super));
    EXPECT_TRUE(w.commit(kTime));
  }
  return image;
}

struct Format {
  const char* name;
  std::uint32_t compat, incompat;
  bool with_log;
};
class JournalCommitter : public ::testing::TestWithParam<Format> {};
INSTANTIATE_TEST_SUITE_P(Formats, JournalCommitter,
                         ::testing::Values(Format{"None", 0, 0, true}, Format{"V1", kCompatChecksum, 0, true},
                                           Format{"V2", 0, kIncompatCsumV2, true},
                                           Format{"V3Wide", 0, kIncompatCsumV3 | kIncompat64bit, true},
                                           Format{"EmptyLogNone", 0, 0, false},
                                           Format{"EmptyLogV3", 0, kIncompatCsumV3, false}),
                         [](const auto& format) { return std::string(format.param.name); });

TEST_P(JournalCommitter, UninterruptedRunLeavesACleanImage) {
  LogImage image = busy_image(GetParam().compat, GetParam().incompat, GetParam().with_log);
  const auto stats = recover_and_edit(image.device, image.first_data);
  ASSERT_TRUE(stats) << stats.error().message();
  EXPECT_EQ(stats->transactions, kBatches);
  EXPECT_EQ(stats->blocks_in_place, 0U);
  EXPECT_EQ(stats->blocks_home > 0, GetParam().with_log);
  auto super = FsSuper::read(image.device);
  ASSERT_TRUE(super);
  EXPECT_FALSE(super->recover());
  if (GetParam().with_log) {
    EXPECT_EQ(load<le32>(super->bytes().data(), offsetof(ext2_super_block, s_wtime)), 7004U);
    EXPECT_EQ(load<be32>(image.home(image.data_block(6 + 4))), kMagic) << "unescaped at home";
  }
  const auto plan = image.plan();
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->verdict, Verdict::nothing_to_do);
  for (std::uint32_t n = 1; n < image.log->blocks(); ++n) {
    const Header h = parse_header(std::span<const std::byte>(image.log_block(n), image.log->block_bytes()));
    if (!h.is_log_block) continue;
    EXPECT_LT(static_cast<std::int32_t>(h.tid - plan->log->super().raw.s_sequence), 0) << "log block " << n;
  }
}

TEST_P(JournalCommitter, CutAtEveryWriteAndFlushLosesNothing) {
  LogImage start = busy_image(GetParam().compat, GetParam().incompat, GetParam().with_log);
  image::Overlay whole(start.device, start.log->block_bytes());
  PowerCut counter(whole, {});
  ASSERT_TRUE(recover_and_edit(counter, start.first_data));
  const std::uint32_t bs = start.log->block_bytes();

  for (const auto unflushed : {PowerCut::Unflushed::kept, PowerCut::Unflushed::lost, PowerCut::Unflushed::some}) {
    const std::uint64_t seeds = unflushed == PowerCut::Unflushed::some ? 4 : 1;
    for (std::uint64_t n = 0; n < counter.steps(); ++n) {
      for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        SCOPED_TRACE(::testing::Message() << "cut at step " << n << ", unflushed " << static_cast<int>(unflushed) << ", seed " << seed);
        image::Overlay medium(start.device, bs);
        PowerCut device(medium, {.after_steps = n, .unflushed = unflushed, .seed = seed, .tear_bytes = 512});
        ASSERT_FALSE(recover_and_edit(device, start.first_data));
        ASSERT_TRUE(device.cut());

        // Whoever comes next finds all of a transaction or nothing of it.
        auto fs = image::Filsys::open(medium);
        ASSERT_TRUE(fs) << fs.error().message();
        const auto plan = plan_recovery(medium, *fs);
        ASSERT_TRUE(plan);
        ASSERT_TRUE(plan->complete()) << to_string(plan->verdict);
        image::Overlay overlay(medium, bs);
        ASSERT_TRUE(apply(*plan, overlay));
        for (std::uint32_t batch = 0; batch < kBatches; ++batch) {
          const auto first = word(overlay, pair_of(start.first_data, batch, 0).a, bs);
          for (std::uint32_t i = 0; i < kPairs; ++i) {
            const Pair p = pair_of(start.first_data, batch, i);
            ASSERT_EQ(*word(overlay, p.a, bs), *first) << "batch " << batch;
            ASSERT_EQ(*word(overlay, p.b, bs), *first) << "batch " << batch;
          }
        }
        // And the second run ends where an uninterrupted one does.
        const auto again = recover_and_edit(medium, start.first_data);
        ASSERT_TRUE(again) << again.error().message();
        ASSERT_TRUE(same_outside_log(medium, whole, *start.log));
        auto end = image::Filsys::open(medium);
        ASSERT_TRUE(end);
        EXPECT_EQ(plan_recovery(medium, *end)->verdict, Verdict::nothing_to_do);
      }
    }
  }
}

TEST(JournalCommitterOthers, E2fsckFinishesWhatWasCut) {
  const LogImage start = busy_image(0, kIncompatCsumV3 | kIncompat64bit);
  testing_support::TempDir dir;
  const std::string path = dir / "image";
  VectorDevice whole(start.device.bytes);
  PowerCut counter(whole, {});
  ASSERT_TRUE(recover_and_edit(counter, start.first_data));
  const std::uint32_t bs = start.log->block_bytes();
  for (std::uint64_t n = 0; n < counter.steps(); ++n) {
    SCOPED_TRACE(n);
    VectorDevice medium(start.device.bytes);
    PowerCut device(medium, {.after_steps = n, .unflushed = PowerCut::Unflushed::kept});
    ASSERT_FALSE(recover_and_edit(device, start.first_data));
    {
      std::ofstream out(path, std::ios::binary);
      out.write(reinterpret_cast<const char*>(medium.bytes.data()), static_cast<std::streamsize>(medium.bytes.size()));
    }
    const auto run = testing_support::run_child({"e2fsck", "-E", "journal_only", "-y", path});
    ASSERT_LE(run.status, 1);
    std::ifstream in(path, std::ios::binary);
    VectorDevice after(std::vector<std::byte>(medium.bytes.size()));
    in.read(reinterpret_cast<char*>(after.bytes.data()), static_cast<std::streamsize>(after.bytes.size()));
    for (std::uint32_t batch = 0; batch < kBatches; ++batch) {
      const auto first = word(after, pair_of(start.first_data, batch, 0).a, bs);
      for (std::uint32_t i = 0; i < kPairs; ++i) {
        const Pair p = pair_of(start.first_data, batch, i);
        ASSERT_EQ(*word(after, p.a, bs), *first);
        ASSERT_EQ(*word(after, p.b, bs), *first);
      }
    }
    EXPECT_EQ(*word(after, start.first_data, bs), *word(whole, start.first_data, bs)) << "the log's own content";
  }
}

TEST(JournalCommitterInPlace, OrderedFallbackConvergesWhereverItIsCut) {
  LogImage start = busy_image(0, 0);
  const CommitOptions in_place{.in_place = true};
  image::Overlay whole(start.device, start.log->block_bytes());
  PowerCut counter(whole, {});
  const auto stats = recover_and_edit(counter, start.first_data, in_place);
  ASSERT_TRUE(stats);
  EXPECT_EQ(stats->transactions, 0U);
  EXPECT_GT(stats->blocks_in_place, 0U);
  for (std::uint64_t n = 0; n < counter.steps(); ++n) {
    image::Overlay medium(start.device, start.log->block_bytes());
    PowerCut device(medium, {.after_steps = n, .unflushed = PowerCut::Unflushed::some, .seed = n + 1});
    ASSERT_FALSE(recover_and_edit(device, start.first_data, in_place));
    ASSERT_TRUE(recover_and_edit(medium, start.first_data, in_place));
    ASSERT_TRUE(same_outside_log(medium, whole, *start.log)) << "cut at step " << n;
  }
}

TEST(JournalCommitterLimits, TransactionOfExactlyTheCapacityIsAtomic) {
  LogImage image = busy_image(0, kIncompatCsumV3, false);
  auto fs = image::Filsys::open(image.device);
  ASSERT_TRUE(fs);
  auto plan = plan_recovery(image.device, *fs);
  ASSERT_TRUE(plan);
  image::Overlay overlay(image.device, 1024);
  ASSERT_TRUE(apply(*plan, overlay));
  auto committer = Committer::begin(std::move(*plan), overlay);
  ASSERT_TRUE(committer);
  const std::uint64_t capacity = committer->capacity_blocks();
  EXPECT_GT(capacity, 950U);
  // Twice, so that the second has to push the first out of the ring.
  for (std::uint32_t round = 0; round < 2; ++round) {
    // RECOVER on disk and clear in the overlay costs one block more at first.
    for (std::uint32_t i = 0; i + 1 < capacity; ++i) ASSERT_TRUE(overlay.edit(image.first_data + i));
    ASSERT_LE(overlay.dirty_count(), capacity);
    ASSERT_TRUE(committer->commit());
    EXPECT_EQ(committer->stats().transactions, round + 1);
    EXPECT_EQ(committer->stats().blocks_in_place, 0U);
  }
  ASSERT_TRUE(committer->finish());
}

TEST(JournalCommitterLimits, LargerThanTheLogGoesOutInPlace) {
  LogOptions o;
  o.start = 0;
  o.recover = false;
  o.size = "16M";
  LogImage image(o);
  auto fs = image::Filsys::open(image.device);
  ASSERT_TRUE(fs);
  auto plan = plan_recovery(image.device, *fs);
  ASSERT_TRUE(plan);
  image::Overlay overlay(image.device, 1024);
  auto committer = Committer::begin(std::move(*plan), overlay);
  ASSERT_TRUE(committer);
  for (std::uint32_t i = 0; i <= committer->capacity_blocks(); ++i) {
    auto block = overlay.create(image.first_data - 200 + i);
    ASSERT_TRUE(block);
    store<be32>(block->data(), 0, i);
  }
  ASSERT_TRUE(committer->finish());
  EXPECT_EQ(committer->stats().transactions, 0U);
  EXPECT_GT(committer->stats().blocks_in_place, 900U);
  EXPECT_EQ(load<be32>(image.home(image.first_data)), 200U);
}

TEST(JournalCommitterTruth, EditThatEqualsTheOldHomeContentOutlivesTheReplay) {
  LogImage image = busy_image(0, kIncompatCsumV3);
  const Blk block = image.data_block(7);  // logged; zero at home
  auto fs = image::Filsys::open(image.device);
  ASSERT_TRUE(fs);
  auto plan = plan_recovery(image.device, *fs);
  ASSERT_TRUE(plan);
  image::Overlay overlay(image.device, 1024);
  ASSERT_TRUE(apply(*plan, overlay));
  ASSERT_NE(*word(overlay, block, 1024), 0U);
  // As a caller does who drops edits that come to nothing.
  ASSERT_TRUE(overlay.create(block));
  overlay.forget(block);
  auto committer = Committer::begin(std::move(*plan), overlay);
  ASSERT_TRUE(committer);
  ASSERT_TRUE(committer->finish());
  EXPECT_EQ(load<be32>(image.home(block)), 0U);
  EXPECT_EQ(load<be32>(image.home(image.data_block(6 + 4))), kMagic) << "the others are replayed";
}

TEST(JournalCommitterQuiet, CleanImageIsNotWrittenAtAll) {
  LogImage image = busy_image(0, kIncompatCsumV3, false);
  const auto before = image.device.bytes;
  image.device.writes = 0;
  const auto written = recover(image.device);
  ASSERT_TRUE(written);
  EXPECT_EQ(*written, 0U);
  EXPECT_EQ(image.device.writes, 0U);
  EXPECT_TRUE(image.device.bytes == before);
}

TEST(JournalCommitterConsent, DamagedLogIsKeptWithoutConsent) {
  LogImage image = busy_image(0, kIncompatCsumV3);
  const std::uint32_t at = image.log->advance(1010, 3);  // a data block of the first transaction
  image.log_block(at)[77] ^= std::byte{1};
  const auto before = image.device.bytes;
  const auto refused = recover(image.device);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  EXPECT_TRUE(image.device.bytes == before);
  const auto written = recover(image.device, true);
  ASSERT_TRUE(written) << written.error().message();
  auto super = FsSuper::read(image.device);
  ASSERT_TRUE(super);
  EXPECT_FALSE(super->recover());
  EXPECT_TRUE(load<le16>(super->bytes().data(), offsetof(ext2_super_block, s_state)) & EXT2_ERROR_FS)
      << "a full check has to follow";
}

TEST(JournalCommitterConsent, UnfollowableLogIsEmptiedWithConsentOnly) {
  LogImage image = busy_image(0, kIncompatCsumV3);
  image.log_block(1010)[12] ^= std::byte{1};  // the first descriptor
  const Blk untouched = image.data_block(0);
  ASSERT_FALSE(recover(image.device));
  ASSERT_TRUE(recover(image.device, true));
  EXPECT_EQ(load<be32>(image.home(untouched)), 0U) << "nothing replayed";
  const auto plan = image.plan();
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->verdict, Verdict::nothing_to_do);
  EXPECT_EQ(plan->log->super().raw.s_start, 0U);
}

TEST(JournalCommitterErrno, ErrorNumberMovesToTheFileSystem) {
  LogImage image = busy_image(0, kIncompatCsumV3, false);
  image.change_super([](SuperOnDisk& raw) { raw.s_errno = 117; });
  ASSERT_TRUE(recover(image.device));
  auto super = FsSuper::read(image.device);
  ASSERT_TRUE(super);
  EXPECT_TRUE(load<le16>(super->bytes().data(), offsetof(ext2_super_block, s_state)) & EXT2_ERROR_FS);
  EXPECT_EQ(image.plan()->s_errno, 0U);
}

TEST(JournalNextTid, IsBeyondEveryLeftover) {
  LogImage image = busy_image(0, 0);
  std::vector<std::byte> stale(image.log->block_bytes());
  write_header(stale, kCommitBlock, 5000);
  ASSERT_TRUE(image.log->write(image.device, 600, stale));
  ASSERT_TRUE(recover(image.device));
  EXPECT_EQ(image.plan()->log->super().raw.s_sequence, 5001U);
}

TEST(JournalNextTid, LeftoversAllAroundTheCircleLeaveTheWidestGap) {
  LogImage image = busy_image(0, 0);
  std::vector<std::byte> stale(image.log->block_bytes());
  std::uint32_t n = 600;
  for (const Tid t : {Tid{1} << 29, Tid{1} << 30, Tid{3} << 29, Tid{1} << 31, Tid{5} << 29, Tid{7} << 29}) {
    write_header(stale, kCommitBlock, t);
    ASSERT_TRUE(image.log->write(image.device, n++, stale));
  }
  ASSERT_TRUE(recover(image.device));
  EXPECT_EQ(image.plan()->log->super().raw.s_sequence, (Tid{5} << 29) + 1);
}

}  // namespace
}  // namespace e4::journal
