// SPDX-License-Identifier: GPL-2.0-only
// Damage everywhere in a log: no crash, and nothing replayed that was never
// committed.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/random.h"
#include "journal/fast_commit.h"
#include "journal/fs_super.h"
#include "tests/support/fast_commit_builder.h"
#include "tests/support/log_image.h"

namespace e4::journal {
namespace {

using test::LogImage;
using test::LogOptions;

struct Logged {
  LogImage image;
  std::map<Blk, std::set<std::vector<std::byte>>> contents;  // what each home block ever was
  std::uint32_t end = 0;

  explicit Logged(std::uint32_t incompat, const char* features = "^metadata_csum,^64bit,^orphan_file")
      : image(options(incompat, features)) {
    auto w = image.writer();
    for (std::uint32_t t = 0; t < 6; ++t) {
      for (std::uint32_t i = 0; i < 3; ++i) {
        const Blk home = image.data_block((t * 7 + i) % 11);
        const auto data = image.block(static_cast<std::uint8_t>(t * 16 + i), i == 1 ? kMagic : t);
        contents[home].insert(data);
        EXPECT_TRUE(w.add(home, data));
      }
      const Blk revoked = image.data_block(t);
      EXPECT_TRUE(w.revoke(std::span(&revoked, 1)));
      EXPECT_TRUE(w.commit({.sec = 1000 + t, .nsec = 0}));
    }
    end = w.position();
    for (std::uint32_t i = 0; i < 11; ++i) {
      const Blk home = image.data_block(i);
      contents[home].insert({image.home(home), image.home(home) + image.log->block_bytes()});
    }
  }
  static LogOptions options(std::uint32_t incompat, const char* features) {
    LogOptions o;
    o.incompat = incompat;
    o.features = features;
    return o;
  }
  // Replays in memory; every home block must hold something it once was.
  void check() {
    const auto plan = image.plan();
    ASSERT_TRUE(plan) << plan.error().message();
    image::Overlay overlay(image.device, image.log->block_bytes());
    ASSERT_TRUE(apply(*plan, overlay));
    std::vector<std::byte> now(image.log->block_bytes());
    for (const auto& [home, known] : contents) {
      ASSERT_TRUE(overlay.read(home * now.size(), now));
      ASSERT_TRUE(known.contains(now)) << "block " << home << " holds what was never logged for it";
    }
    for (const HomeBlock& b : plan->blocks) ASSERT_TRUE(contents.contains(b.block)) << "block " << b.block;
  }
};

TEST(JournalSweep, FlippedBitNeverReplaysUncommittedContentV3) {
  Logged logged(kIncompatCsumV3 | kIncompat64bit);
  for (std::uint32_t n = 1; n < logged.end; ++n) {
    for (std::size_t i = 0; i < 1024; i += i < 80 ? 1 : 37) {
      std::byte& b = logged.image.log_block(n)[i];
      const std::byte was = b;
      b ^= static_cast<std::byte>(1U << (i % 8));
      SCOPED_TRACE(::testing::Message() << "log block " << n << " byte " << i);
      ASSERT_NO_FATAL_FAILURE(logged.check());
      b = was;
    }
  }
}

TEST(JournalSweep, ZeroedAndForeignBlocksNeverReplayUncommittedContentV3) {
  Logged logged(kIncompatCsumV3);
  for (std::uint32_t n = 1; n < logged.end; ++n) {
    for (std::uint32_t other = 0; other < logged.end; ++other) {
      std::vector<std::byte> was(logged.image.log_block(n), logged.image.log_block(n) + 1024);
      if (other == 0) {
        std::fill_n(logged.image.log_block(n), 1024, std::byte{0});
      } else {
        std::copy_n(logged.image.log_block(other), 1024, logged.image.log_block(n));
      }
      SCOPED_TRACE(::testing::Message() << "log block " << n << " replaced by " << other);
      ASSERT_NO_FATAL_FAILURE(logged.check());
      std::copy(was.begin(), was.end(), logged.image.log_block(n));
    }
  }
}

TEST(JournalSweep, FlippedSuperblockNeverCrashes) {
  for (const std::uint32_t incompat : {0U, kIncompatCsumV3}) {
    Logged logged(incompat);
    for (std::size_t i = 0; i < 1024; ++i) {
      for (const unsigned bit : {0U, 3U, 7U}) {
        std::byte& b = logged.image.log_block(0)[i];
        const std::byte was = b;
        b ^= static_cast<std::byte>(1U << bit);
        const auto plan = logged.image.plan();
        ASSERT_TRUE(plan);
        if (incompat != 0) {
          // s_uuid seeds the checksums, and the superblock has one itself.
          EXPECT_EQ(plan->verdict, Verdict::failed) << "byte " << i;
          EXPECT_TRUE(plan->blocks.empty());
        }
        b = was;
      }
    }
  }
}

TEST(JournalSweep, JournalInodeDamagedAnywhereIsFoundOrHarmless) {
  Logged logged(kIncompatCsumV3, "metadata_csum,^64bit,^orphan_file");
  auto fs = image::Filsys::open(logged.image.device);
  ASSERT_TRUE(fs);
  const std::size_t at = ext2fs_inode_table_loc(fs->raw(), 0) * 1024 + 7 * EXT2_INODE_SIZE(&fs->super());
  const std::uint32_t expected = logged.image.plan()->transactions;
  for (std::size_t i = 0; i < 128; ++i) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      std::byte& b = logged.image.device.bytes[at + i];
      const std::byte was = b;
      b ^= static_cast<std::byte>(1U << bit);
      const auto plan = logged.image.plan();
      ASSERT_TRUE(plan) << "byte " << i;
      if (plan->verdict == Verdict::ok) {
        EXPECT_EQ(plan->transactions, expected) << "byte " << i;
      } else {
        EXPECT_FALSE(plan->problems.empty());
      }
      b = was;
    }
  }
}

TEST(JournalSweep, BackupOfTheMapStandsInForABrokenInode) {
  Logged logged(kIncompatCsumV3);
  auto fs = image::Filsys::open(logged.image.device);
  ASSERT_TRUE(fs);
  const std::size_t at = ext2fs_inode_table_loc(fs->raw(), 0) * 1024 + 7 * EXT2_INODE_SIZE(&fs->super());
  std::fill_n(logged.image.device.bytes.begin() + static_cast<std::ptrdiff_t>(at), 128, std::byte{0});
  const auto plan = logged.image.plan();
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->verdict, Verdict::ok) << (plan->problems.empty() ? "" : plan->problems[0].text());
  ASSERT_TRUE(plan->log);
  EXPECT_TRUE(plan->log->from_backup());
  EXPECT_EQ(plan->transactions, 6U);
}

TEST(JournalSweep, TruncatedImageIsReadAsFarAsItGoes) {
  Logged logged(0);
  for (std::size_t blocks = 100; blocks < 8192; blocks += 61) {
    test::VectorDevice cut({logged.image.device.bytes.begin(),
                            logged.image.device.bytes.begin() + static_cast<std::ptrdiff_t>(blocks * 1024)});
    auto fs = image::Filsys::open(cut);
    if (!fs) continue;
    const auto plan = plan_recovery(cut, *fs);
    ASSERT_TRUE(plan);
    for (const HomeBlock& b : plan->blocks) EXPECT_LT(b.block, blocks);
  }
}

TEST(JournalSweep, RandomDamageNeverCrashesAnyFormat) {
  Random random(77);
  for (const std::uint32_t incompat : {0U, kIncompat64bit, kIncompatCsumV2, kIncompatCsumV3 | kIncompatAsyncCommit}) {
    Logged logged(incompat);
    const auto clean = logged.image.device.bytes;
    for (int round = 0; round < 400; ++round) {
      for (int k = 0; k < 6; ++k) {
        const auto n = static_cast<std::uint32_t>(1 + random.below(logged.end));
        std::byte* at = logged.image.log_block(n) + random.below(random.one_in(2) ? 64 : 1020);
        store<be32>(at, 0, random.one_in(3) ? static_cast<std::uint32_t>(random.next()) : static_cast<std::uint32_t>(random.below(1100)));
      }
      const auto plan = logged.image.plan();
      ASSERT_TRUE(plan);
      image::Overlay overlay(logged.image.device, 1024);
      ASSERT_TRUE(apply(*plan, overlay));
      for (std::uint32_t n = 0; n <= logged.end; ++n) {
        const auto from = static_cast<std::ptrdiff_t>(logged.image.log->physical(n) * 1024);
        std::copy_n(clean.begin() + from, 1024, logged.image.device.bytes.begin() + from);
      }
    }
  }
}

}  // namespace
}  // namespace e4::journal
