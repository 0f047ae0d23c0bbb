// SPDX-License-Identifier: GPL-2.0-only
#include "journal/recovery.h"

#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "journal/descriptor.h"
#include "journal/fs_super.h"
#include "journal/revoke.h"
#include "tests/support/log_image.h"

namespace e4::journal {
namespace {

using test::LogImage;
using test::LogOptions;

constexpr CommitTime kTime{.sec = 1000, .nsec = 0};

struct Variant {
  const char* name;
  std::uint32_t compat, incompat;
};
constexpr Variant kVariants[] = {
    {"None", 0, 0},
    {"Wide", 0, kIncompat64bit},
    {"V1", kCompatChecksum, 0},
    {"V1Async", kCompatChecksum, kIncompatAsyncCommit},
    {"V2", 0, kIncompatCsumV2},
    {"V2Wide", 0, kIncompatCsumV2 | kIncompat64bit},
    {"V3", 0, kIncompatCsumV3},
    {"V3Wide", 0, kIncompatCsumV3 | kIncompat64bit | kIncompatRevoke},
};

class JournalRecovery : public ::testing::TestWithParam<Variant> {
 protected:
  LogOptions options() const {
    LogOptions o;
    o.compat = GetParam().compat;
    o.incompat = GetParam().incompat;
    return o;
  }
  bool sealed() const { return (GetParam().incompat & (kIncompatCsumV2 | kIncompatCsumV3)) != 0; }
  bool v1() const { return GetParam().compat != 0; }
};
INSTANTIATE_TEST_SUITE_P(Formats, JournalRecovery, ::testing::ValuesIn(kVariants),
                         [](const auto& variant) { return std::string(variant.param.name); });

class JournalRecoverySealed : public JournalRecovery {};  // descriptors, data and commits have checksums
INSTANTIATE_TEST_SUITE_P(Formats, JournalRecoverySealed, ::testing::ValuesIn(std::begin(kVariants) + 4, std::end(kVariants)),
                         [](const auto& variant) { return std::string(variant.param.name); });
class JournalRecoveryCommitSum : public JournalRecovery {};  // commits at least
INSTANTIATE_TEST_SUITE_P(Formats, JournalRecoveryCommitSum, ::testing::ValuesIn(std::begin(kVariants) + 2, std::end(kVariants)),
                         [](const auto& variant) { return std::string(variant.param.name); });

void add(LogWriter& w, Blk home, const std::vector<std::byte>& data) { ASSERT_TRUE(w.add(home, data)); }

RecoveryPlan plan_of(LogImage& image, PlanOptions options = {}) {
  auto plan = image.plan(options);
  EXPECT_TRUE(plan) << (plan ? "" : plan.error().message());
  return plan ? std::move(*plan) : RecoveryPlan{};
}

// The home block as the overlay shows it after the plan.
std::vector<std::byte> after(LogImage& image, const RecoveryPlan& plan, Blk home) {
  image::Overlay overlay(image.device, image.log->block_bytes());
  EXPECT_TRUE(apply(plan, overlay));
  std::vector<std::byte> out(image.log->block_bytes());
  EXPECT_TRUE(overlay.read(home * out.size(), out));
  return out;
}

bool has(const RecoveryPlan& plan, ProblemKind kind) {
  return std::ranges::any_of(plan.problems, [kind](const Problem& p) { return p.kind == kind; });
}

TEST_P(JournalRecovery, CommittedTransactionsAreReplayedInOrder) {
  LogImage image(options());
  auto w = image.writer();
  add(w, image.data_block(0), image.block(1));
  add(w, image.data_block(1), image.block(2));
  ASSERT_TRUE(w.commit(kTime));
  add(w, image.data_block(0), image.block(3));
  ASSERT_TRUE(w.commit(kTime));
  const RecoveryPlan plan = plan_of(image);
  EXPECT_EQ(plan.verdict, Verdict::ok);
  EXPECT_EQ(plan.transactions, 2U);
  EXPECT_EQ(plan.end_tid, 102U);
  EXPECT_EQ(plan.head, w.position());
  EXPECT_EQ(plan.tags, 3U);
  ASSERT_EQ(plan.blocks.size(), 2U);
  EXPECT_EQ(plan.blocks[0].tid, 101U);
  EXPECT_EQ(after(image, plan, image.data_block(0)), image.block(3));
  EXPECT_EQ(after(image, plan, image.data_block(1)), image.block(2));
}

TEST_P(JournalRecovery, TransactionWithoutCommitBlockEndsTheLog) {
  LogImage image(options());
  auto w = image.writer();
  add(w, image.data_block(0), image.block(1));
  ASSERT_TRUE(w.commit(kTime));
  add(w, image.data_block(1), image.block(2));
  ASSERT_TRUE(w.close_descriptor());
  const RecoveryPlan plan = plan_of(image);
  EXPECT_EQ(plan.verdict, Verdict::ok);
  EXPECT_EQ(plan.transactions, 1U);
  EXPECT_EQ(plan.blocks.size(), 1U);
  EXPECT_TRUE(plan.problems.empty());
}

TEST_P(JournalRecovery, EscapedBlocksGetTheirMagicBack) {
  LogImage image(options());
  auto w = image.writer();
  const auto data = image.block(7, kMagic);
  add(w, image.data_block(5), data);
  ASSERT_TRUE(w.commit(kTime));
  const RecoveryPlan plan = plan_of(image);
  ASSERT_EQ(plan.blocks.size(), 1U);
  EXPECT_TRUE(plan.blocks[0].escaped);
  EXPECT_EQ(load<be32>(image.log_block(plan.blocks[0].log_block)), 0U);
  EXPECT_EQ(after(image, plan, image.data_block(5)), data);
}

TEST_P(JournalRecovery, RevokeInLaterTransactionWins) {
  LogImage image(options());
  auto w = image.writer();
  add(w, image.data_block(0), image.block(1));
  add(w, image.data_block(1), image.block(2));
  ASSERT_TRUE(w.commit(kTime));
  const Blk revoked = image.data_block(0);
  ASSERT_TRUE(w.revoke(std::span(&revoked, 1)));
  ASSERT_TRUE(w.commit(kTime));
  const RecoveryPlan plan = plan_of(image);
  EXPECT_EQ(plan.verdict, Verdict::ok);
  EXPECT_EQ(plan.revoke_records, 1U);
  EXPECT_EQ(plan.revoked_tags, 1U);
  ASSERT_EQ(plan.blocks.size(), 1U);
  EXPECT_EQ(plan.blocks[0].block, image.data_block(1));
}

TEST_P(JournalRecovery, RevokeCoversItsOwnTransaction) {
  LogImage image(options());
  auto w = image.writer();
  const Blk revoked = image.data_block(0);
  ASSERT_TRUE(w.revoke(std::span(&revoked, 1)));
  add(w, revoked, image.block(1));
  ASSERT_TRUE(w.commit(kTime));
  const RecoveryPlan plan = plan_of(image);
  EXPECT_TRUE(plan.blocks.empty() && plan.revoked_tags == 1);
}

TEST_P(JournalRecovery, BlockLoggedAfterItsRevokeIsReplayed) {
  LogImage image(options());
  auto w = image.writer();
  const Blk b = image.data_block(0);
  add(w, b, image.block(1));
  ASSERT_TRUE(w.commit(kTime));
  ASSERT_TRUE(w.revoke(std::span(&b, 1)));
  ASSERT_TRUE(w.commit(kTime));
  add(w, b, image.block(3));
  ASSERT_TRUE(w.commit(kTime));
  const RecoveryPlan plan = plan_of(image);
  ASSERT_EQ(plan.blocks.size(), 1U);
  EXPECT_EQ(after(image, plan, b), image.block(3));
  EXPECT_EQ(plan.revoked_tags, 1U);
}

TEST_P(JournalRecovery, RevokeInAnUncommittedTransactionDoesNotCount) {
  LogImage image(options());
  auto w = image.writer();
  const Blk b = image.data_block(0);
  add(w, b, image.block(1));
  ASSERT_TRUE(w.commit(kTime));
  ASSERT_TRUE(w.revoke(std::span(&b, 1)));
  const RecoveryPlan plan = plan_of(image);
  ASSERT_EQ(plan.blocks.size(), 1U);
  EXPECT_EQ(after(image, plan, b), image.block(1));
}

TEST_P(JournalRecovery, ImpossibleRevokeCountFailsTheWholeLog) {
  LogImage image(options());
  auto w = image.writer();
  add(w, image.data_block(1), image.block(2));
  ASSERT_TRUE(w.commit(kTime));
  const std::uint32_t at = w.position();
  const Blk b = image.data_block(0);
  ASSERT_TRUE(w.revoke(std::span(&b, 1)));
  ASSERT_TRUE(w.commit(kTime));
  std::span<std::byte> block(image.log_block(at), image.log->block_bytes());
  store<be32>(block.data(), 12, image.log->block_bytes() + 1);
  seal_tail(block, image.log->format());
  const RecoveryPlan plan = plan_of(image);
  EXPECT_EQ(plan.verdict, Verdict::failed);
  EXPECT_TRUE(has(plan, ProblemKind::revoke_count));
  EXPECT_TRUE(plan.blocks.empty());
}

TEST_P(JournalRecovery, WrappedLogIsFollowedAcrossTheEnd) {
  LogOptions o = options();
  o.start = 1000;
  LogImage image(o);
  auto w = image.writer();
  for (std::uint32_t t = 0; t < 20; ++t) {
    add(w, image.data_block(t), image.block(static_cast<std::uint8_t>(t)));
    add(w, image.data_block(t + 100), image.block(static_cast<std::uint8_t>(t + 1)));
    ASSERT_TRUE(w.commit(kTime));
  }
  ASSERT_LT(w.position(), 1000U) << "the log must have wrapped";
  const RecoveryPlan plan = plan_of(image);
  EXPECT_EQ(plan.verdict, Verdict::ok);
  EXPECT_EQ(plan.transactions, 20U);
  EXPECT_EQ(plan.blocks.size(), 40U);
  for (std::uint32_t t = 0; t < 20; ++t) {
    EXPECT_EQ(after(image, plan, image.data_block(t)), image.block(static_cast<std::uint8_t>(t)));
  }
}

TEST_P(JournalRecovery, TidsWrapAroundZero) {
  LogOptions o = options();
  o.sequence = 0xFFFFFFFEU;
  LogImage image(o);
  auto w = image.writer();
  const Blk b = image.data_block(0);
  for (std::uint8_t t = 0; t < 4; ++t) {
    add(w, b, image.block(t));
    if (t == 1) {
      ASSERT_TRUE(w.revoke(std::span(&b, 1)));
    }
    ASSERT_TRUE(w.commit(kTime));
  }
  const RecoveryPlan plan = plan_of(image);
  EXPECT_EQ(plan.transactions, 4U);
  EXPECT_EQ(plan.end_tid, 2U);
  EXPECT_EQ(plan.revoked_tags, 2U);
  ASSERT_EQ(plan.blocks.size(), 1U);
  EXPECT_EQ(after(image, plan, b), image.block(3));
}

TEST_P(JournalRecovery, DamagedCommitEndsTheLogAndNamesWhatIsLost) {
  LogImage image(options());
  auto w = image.writer();
  add(w, image.data_block(0), image.block(1));
  ASSERT_TRUE(w.commit(kTime));
  add(w, image.data_block(1), image.block(2));
  const std::uint32_t at = w.position() + 2;
  ASSERT_TRUE(w.commit(kTime));
  add(w, image.data_block(2), image.block(3));
  ASSERT_TRUE(w.commit(kTime));
  store<be32>(image.log_block(at), 0x10, 0x12345678U);  // h_chksum[0]
  const RecoveryPlan plan = plan_of(image);
  if (!sealed() && !v1()) {
    EXPECT_EQ(plan.transactions, 3U) << "no checksum, nothing to notice";
    return;
  }
  EXPECT_EQ(plan.verdict, Verdict::partial);
  EXPECT_EQ(plan.transactions, 1U);
  EXPECT_EQ(plan.failed_commit, 101U);
  EXPECT_EQ(plan.dropped_transactions, 2U);
  ASSERT_EQ(plan.dropped.size(), 2U);
  EXPECT_EQ(plan.dropped[0].block, image.data_block(1));
  EXPECT_EQ(plan.dropped[1].block, image.data_block(2));
  EXPECT_TRUE(has(plan, ProblemKind::commit_checksum));
  EXPECT_EQ(plan.blocks.size(), 1U) << "what was committed before is replayed";
}

TEST_P(JournalRecoveryCommitSum, DamagedCommitWithAnOlderTimeIsALeftover) {
  LogImage image(options());
  auto w = image.writer();
  add(w, image.data_block(0), image.block(1));
  ASSERT_TRUE(w.commit({.sec = 2000, .nsec = 0}));
  add(w, image.data_block(1), image.block(2));
  const std::uint32_t at = w.position() + 2;
  ASSERT_TRUE(w.commit({.sec = 1999, .nsec = 0}));
  store<be32>(image.log_block(at), 0x10, 0x12345678U);
  const RecoveryPlan plan = plan_of(image);
  EXPECT_EQ(plan.verdict, Verdict::ok);
  EXPECT_EQ(plan.transactions, 1U);
  EXPECT_TRUE(has(plan, ProblemKind::stale_commit));
  EXPECT_FALSE(plan.failed_commit.has_value());
}

TEST_P(JournalRecoverySealed, DamagedDescriptorBeforeANewerCommitFailsTheLog) {
  LogImage image(options());
  auto w = image.writer();
  add(w, image.data_block(0), image.block(1));
  ASSERT_TRUE(w.commit(kTime));
  const std::uint32_t at = w.position();
  add(w, image.data_block(1), image.block(2));
  ASSERT_TRUE(w.commit(kTime));
  image.log_block(at)[12] ^= std::byte{1};
  const RecoveryPlan plan = plan_of(image);
  EXPECT_EQ(plan.verdict, Verdict::failed);
  EXPECT_TRUE(has(plan, ProblemKind::descriptor_checksum));
  EXPECT_FALSE(plan.has_work());
}

TEST_P(JournalRecoverySealed, DamagedDescriptorBeforeAnOlderCommitIsALeftover) {
  LogImage image(options());
  auto w = image.writer();
  add(w, image.data_block(0), image.block(1));
  ASSERT_TRUE(w.commit({.sec = 2000, .nsec = 0}));
  const std::uint32_t at = w.position();
  add(w, image.data_block(1), image.block(2));
  ASSERT_TRUE(w.commit({.sec = 1999, .nsec = 0}));
  image.log_block(at)[12] ^= std::byte{1};
  const RecoveryPlan plan = plan_of(image);
  EXPECT_EQ(plan.verdict, Verdict::ok);
  EXPECT_EQ(plan.transactions, 1U);
}

TEST_P(JournalRecoverySealed, DamagedDescriptorWithoutCommitIsAnOrdinaryEnd) {
  LogImage image(options());
  auto w = image.writer();
  add(w, image.data_block(0), image.block(1));
  ASSERT_TRUE(w.commit(kTime));
  const std::uint32_t at = w.position();
  add(w, image.data_block(1), image.block(2));
  ASSERT_TRUE(w.close_descriptor());
  image.log_block(at)[12] ^= std::byte{1};
  const RecoveryPlan plan = plan_of(image);
  EXPECT_EQ(plan.verdict, Verdict::ok);
  EXPECT_EQ(plan.transactions, 1U);
}

TEST_P(JournalRecovery, DamagedDataBlockIsNamedAndTheRestReplayed) {
  LogImage image(options());
  auto w = image.writer();
  const std::uint32_t at = w.position() + 2;  // the second data block
  add(w, image.data_block(0), image.block(1));
  add(w, image.data_block(1), image.block(2));
  add(w, image.data_block(2), image.block(3));
  ASSERT_TRUE(w.commit(kTime));
  image.log_block(at)[100] ^= std::byte{0x40};
  const RecoveryPlan plan = plan_of(image);
  if (v1()) {
    EXPECT_EQ(plan.transactions, 0U) << "v1 sums up whole transactions";
    EXPECT_TRUE(plan.blocks.empty());
    return;
  }
  EXPECT_EQ(plan.transactions, 1U);
  if (!sealed()) return;
  EXPECT_EQ(plan.verdict, Verdict::partial);
  EXPECT_EQ(plan.blocks.size(), 2U);
  ASSERT_EQ(plan.problems.size(), 1U);
  EXPECT_EQ(plan.problems[0].kind, ProblemKind::data_checksum);
  EXPECT_EQ(plan.problems[0].home, image.data_block(1));
  EXPECT_EQ(plan.problems[0].log_block, at);
  EXPECT_EQ(plan.problems[0].tid, 100U);
  EXPECT_THAT(plan.problems[0].text(), ::testing::HasSubstr(std::to_string(image.data_block(1))));
}

TEST_P(JournalRecoverySealed, OlderGoodContentStandsInForADamagedBlock) {
  LogImage image(options());
  auto w = image.writer();
  add(w, image.data_block(0), image.block(1));
  ASSERT_TRUE(w.commit(kTime));
  const std::uint32_t at = w.position() + 1;
  add(w, image.data_block(0), image.block(2));
  ASSERT_TRUE(w.commit(kTime));
  image.log_block(at)[5] ^= std::byte{1};
  const RecoveryPlan plan = plan_of(image);
  EXPECT_EQ(plan.verdict, Verdict::partial);
  EXPECT_EQ(after(image, plan, image.data_block(0)), image.block(1));
}

TEST_P(JournalRecovery, CommitBlockTornBehindItsFirstSectorCounts) {
  LogImage image(options());
  auto w = image.writer();
  add(w, image.data_block(0), image.block(1));
  const std::uint32_t at = w.position() + 2;
  ASSERT_TRUE(w.commit(kTime));
  for (std::size_t i = 512; i < image.log->block_bytes(); ++i) image.log_block(at)[i] = std::byte{0xEE};
  const RecoveryPlan plan = plan_of(image);
  EXPECT_EQ(plan.verdict, Verdict::ok);
  EXPECT_EQ(plan.transactions, 1U);
}

TEST_P(JournalRecovery, TargetsOutsideTheFileSystemAreDroppedAndNamed) {
  LogImage image(options());
  auto w = image.writer();
  add(w, 8 * 1024, image.block(1));      // one behind the last block
  add(w, 0, image.block(2));             // in front of the first
  add(w, image.data_block(3), image.block(3));
  ASSERT_TRUE(w.commit(kTime));
  const RecoveryPlan plan = plan_of(image);
  EXPECT_EQ(plan.verdict, Verdict::partial);
  ASSERT_EQ(plan.blocks.size(), 1U);
  EXPECT_EQ(plan.blocks[0].block, image.data_block(3));
  ASSERT_EQ(plan.problems.size(), 2U);
  EXPECT_EQ(plan.problems[0].kind, ProblemKind::target_out_of_range);
  EXPECT_EQ(plan.problems[0].home, 8U * 1024);
}

TEST_P(JournalRecovery, TargetsInTheJournalItselfAreDropped) {
  LogImage image(options());
  auto w = image.writer();
  add(w, image.log->physical(500), image.block(1));
  add(w, image.log->physical(0), image.block(1));
  ASSERT_TRUE(w.commit(kTime));
  const RecoveryPlan plan = plan_of(image);
  EXPECT_EQ(plan.verdict, Verdict::partial);
  EXPECT_TRUE(plan.blocks.empty());
  EXPECT_TRUE(has(plan, ProblemKind::target_in_journal));
}

TEST_P(JournalRecovery, SuperblockIsReplacedOnlyByASuperblock) {
  LogImage image(options());
  auto w = image.writer();
  add(w, 1, image.block(9));
  ASSERT_TRUE(w.commit(kTime));
  const RecoveryPlan plan = plan_of(image);
  EXPECT_TRUE(has(plan, ProblemKind::target_bad_super));
  EXPECT_TRUE(plan.blocks.empty());
}

TEST_P(JournalRecovery, EmptyTransactionsCount) {
  LogImage image(options());
  auto w = image.writer();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(w.commit(kTime));
  const RecoveryPlan plan = plan_of(image);
  EXPECT_EQ(plan.verdict, Verdict::ok);
  EXPECT_EQ(plan.transactions, 5U);
  EXPECT_FALSE(plan.has_work());
}

TEST_P(JournalRecovery, UnknownBlockTypeEndsTheLog) {
  LogImage image(options());
  auto w = image.writer();
  ASSERT_TRUE(w.commit(kTime));
  std::vector<std::byte> odd(image.log->block_bytes());
  write_header(odd, 9, w.tid());
  ASSERT_TRUE(w.put(odd));
  ASSERT_TRUE(w.commit(kTime));
  EXPECT_EQ(plan_of(image).transactions, 1U);
}

TEST_P(JournalRecovery, LogFillingTheWholeRingIsReplayed) {
  LogImage image(options());
  const std::uint32_t ring = image.log->super().ring_blocks();
  auto w = image.writer();
  while (w.blocks_written() + 6 <= ring) {
    add(w, image.data_block(static_cast<std::uint32_t>(w.tid() % 700)), image.block(1));
    ASSERT_TRUE(w.commit(kTime));
  }
  while (w.blocks_written() < ring) ASSERT_TRUE(w.commit(kTime));
  const RecoveryPlan plan = plan_of(image);
  EXPECT_EQ(plan.verdict, Verdict::ok);
  EXPECT_EQ(plan.end_tid, w.tid());
}

TEST(JournalRecoveryLoop, DescriptorThatLeadsBackToItselfIsNoHang) {
  LogImage image;
  // A ring of one block: the descriptor's only data block is itself.
  image.change_super([](SuperOnDisk& raw) { raw.s_first = 1023, raw.s_start = 1023; });
  std::vector<std::byte> block(image.log->block_bytes());
  const std::vector<Tag> none;
  write_descriptor(block, image.log->format(), 100, none, std::span(image.log->super().raw.s_uuid));
  store<be16>(block.data(), 12 + 6, kTagLast | kTagSameUuid);
  ASSERT_TRUE(image.log->write(image.device, 1023, block));
  const RecoveryPlan plan = plan_of(image);
  EXPECT_EQ(plan.verdict, Verdict::failed);
  EXPECT_TRUE(has(plan, ProblemKind::log_loops)) << to_string(plan.verdict);
}

TEST(JournalRecoveryAsync, TornLastCommitIsAnOrdinaryEnd) {
  LogOptions o;
  o.incompat = kIncompatCsumV3 | kIncompatAsyncCommit;
  LogImage image(o);
  auto w = image.writer();
  add(w, image.data_block(0), image.block(1));
  ASSERT_TRUE(w.commit(kTime));
  add(w, image.data_block(1), image.block(2));
  const std::uint32_t at = w.position() + 2;
  ASSERT_TRUE(w.commit(kTime));
  store<be32>(image.log_block(at), 0x10, 1U);
  const RecoveryPlan plan = plan_of(image);
  EXPECT_EQ(plan.verdict, Verdict::ok);
  EXPECT_EQ(plan.transactions, 1U);
  EXPECT_FALSE(plan.failed_commit.has_value());
}

TEST(JournalRecoveryAsync, DamagedCommitWithLaterOnesIsDamage) {
  LogOptions o;
  o.compat = kCompatChecksum;
  o.incompat = kIncompatAsyncCommit;
  LogImage image(o);
  auto w = image.writer();
  add(w, image.data_block(0), image.block(1));
  const std::uint32_t at = w.position() + 2;
  ASSERT_TRUE(w.commit(kTime));
  add(w, image.data_block(1), image.block(2));
  ASSERT_TRUE(w.commit(kTime));
  store<be32>(image.log_block(at), 0x10, 1U);
  const RecoveryPlan plan = plan_of(image);
  EXPECT_EQ(plan.verdict, Verdict::partial);
  EXPECT_EQ(plan.failed_commit, 100U);
  EXPECT_EQ(plan.dropped_transactions, 2U);
  EXPECT_TRUE(plan.blocks.empty());
}

TEST(JournalRecoveryAnnounced, LogWithoutRecoverIsNeverReplayedSilently) {
  LogOptions o;
  o.recover = false;
  LogImage image(o);
  auto w = image.writer();
  add(w, image.data_block(0), image.block(1));
  ASSERT_TRUE(w.commit(kTime));
  const RecoveryPlan plan = plan_of(image);
  EXPECT_EQ(plan.verdict, Verdict::unannounced);
  EXPECT_TRUE(plan.blocks.empty());
  EXPECT_TRUE(has(plan, ProblemKind::unannounced_log));
  const RecoveryPlan asked = plan_of(image, {.replay_unannounced = true});
  EXPECT_EQ(asked.verdict, Verdict::ok);
  EXPECT_EQ(asked.blocks.size(), 1U);
}

TEST(JournalRecoveryAnnounced, RecoverWithAnEmptyLogIsClearedAndNothingElse) {
  LogOptions o;
  o.start = 0;
  LogImage image(o);
  const RecoveryPlan plan = plan_of(image);
  EXPECT_EQ(plan.verdict, Verdict::nothing_to_do);
  EXPECT_TRUE(plan.needs_recovery);
  image::Overlay overlay(image.device, 1024);
  ASSERT_TRUE(apply(plan, overlay));
  EXPECT_EQ(overlay.dirty_count(), 1U);
  auto super = FsSuper::read(overlay);
  ASSERT_TRUE(super);
  EXPECT_FALSE(super->recover());
}

TEST(JournalRecoverySuper, ErrorRecordAndErrorBitSurviveReplay) {
  LogOptions o;
  o.features = "metadata_csum,^64bit,^orphan_file";
  LogImage image(o);
  // The log holds an older superblock; meanwhile errors were recorded in place.
  std::vector<std::byte> logged(image.device.bytes.begin() + 1024, image.device.bytes.begin() + 2048);
  store<le32>(logged.data(), offsetof(ext2_super_block, s_first_error_time), 500U);
  store<le32>(logged.data(), offsetof(ext2_super_block, s_last_error_time), 600U);
  store<le32>(logged.data(), offsetof(ext2_super_block, s_error_count), 2U);
  auto w = image.writer();
  add(w, 1, logged);
  ASSERT_TRUE(w.commit(kTime));
  std::byte* disk = image.device.bytes.data() + 1024;
  store<le32>(disk, offsetof(ext2_super_block, s_first_error_time), 550U);
  store<le32>(disk, offsetof(ext2_super_block, s_last_error_time), 700U);
  store<le32>(disk, offsetof(ext2_super_block, s_last_error_line), 77U);
  store<le32>(disk, offsetof(ext2_super_block, s_error_count), 5U);
  store<le16>(disk, offsetof(ext2_super_block, s_state), EXT2_ERROR_FS);
  test::set_recover(image.device.bytes, true);  // reseals
  const RecoveryPlan plan = plan_of(image);
  ASSERT_EQ(plan.verdict, Verdict::ok);
  image::Overlay overlay(image.device, 1024);
  ASSERT_TRUE(apply(plan, overlay));
  auto super = FsSuper::read(overlay);
  ASSERT_TRUE(super);
  const std::byte* now = super->bytes().data();
  EXPECT_EQ(load<le32>(now, offsetof(ext2_super_block, s_first_error_time)), 500U) << "the older first error";
  EXPECT_EQ(load<le32>(now, offsetof(ext2_super_block, s_last_error_time)), 700U) << "the newer last error";
  EXPECT_EQ(load<le32>(now, offsetof(ext2_super_block, s_last_error_line)), 77U);
  EXPECT_EQ(load<le32>(now, offsetof(ext2_super_block, s_error_count)), 5U);
  EXPECT_TRUE(load<le16>(now, offsetof(ext2_super_block, s_state)) & EXT2_ERROR_FS);
  EXPECT_FALSE(super->recover());
  FsSuper sealed = *super;
  sealed.seal();
  EXPECT_EQ(sealed, *super) << "checksum of the merged superblock";
}

TEST(JournalRecoverySuper, RecordedJournalErrorFlagsTheFileSystem) {
  LogImage image;
  image.change_super([](SuperOnDisk& raw) { raw.s_errno = 5; });
  auto w = image.writer();
  add(w, image.data_block(0), image.block(1));
  ASSERT_TRUE(w.commit(kTime));
  const RecoveryPlan plan = plan_of(image);
  EXPECT_EQ(plan.s_errno, 5U);
  image::Overlay overlay(image.device, 1024);
  ASSERT_TRUE(apply(plan, overlay));
  auto super = FsSuper::read(overlay);
  ASSERT_TRUE(super);
  EXPECT_TRUE(load<le16>(super->bytes().data(), offsetof(ext2_super_block, s_state)) & EXT2_ERROR_FS);
}

TEST(JournalRecoveryMemory, DryRunCopiesNoBlocks) {
  LogImage image;
  auto w = image.writer();
  for (std::uint32_t i = 0; i < 400; ++i) add(w, image.data_block(i), image.block(1));
  ASSERT_TRUE(w.commit(kTime));
  const RecoveryPlan plan = plan_of(image);
  image::Overlay overlay(image.device, 1024);
  ASSERT_TRUE(apply(plan, overlay));
  EXPECT_EQ(overlay.alias_count(), 400U);
  EXPECT_LE(overlay.dirty_count(), 1U) << "the superblock alone";
  EXPECT_LE(sizeof(HomeBlock), 24U);
}

}  // namespace
}  // namespace e4::journal
