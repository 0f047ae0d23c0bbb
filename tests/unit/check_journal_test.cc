// SPDX-License-Identifier: GPL-2.0-only
// The decisions about a log, one case a row of the table in journal_phase.cc,
// over logs made for it.
#include <gtest/gtest.h>

#include "check/pipeline.h"
#include "fsck/fsck.h"
#include "support/log_image.h"

namespace e4 {
namespace {

using check::Mode;
using test::LogImage;

struct Result {
  check::Outcome outcome;
  std::vector<report::Finding> findings;
  int status = 0;
  [[nodiscard]] const report::Finding* find(std::string_view id) const {
    for (const report::Finding& f : findings)
      if (f.id == id) return &f;
    return nullptr;
  }
};

Result run(LogImage& image, Mode mode) {
  report::Collector sink;
  auto progress = report::no_progress();
  Result r;
  r.outcome = check::check_image(image.device, {.mode = mode, .now = 1'800'000'000}, sink, *progress);
  r.findings = sink.findings();
  r.status = fsck::exit_status_of(r.outcome);
  return r;
}

class CheckJournal : public ::testing::Test {
 protected:
  /// One committed transaction that writes three blocks.
  void commit(LogImage& image) {
    auto w = image.writer();
    for (std::uint32_t i = 0; i < 3; ++i) ASSERT_TRUE(w.add(image.data_block(i), image.block(static_cast<std::uint8_t>(0xA0 + i))));
    ASSERT_TRUE(w.commit({.sec = 1'700'000'000, .nsec = 0}));
  }
  static bool home_is(LogImage& image, std::uint32_t i, std::uint8_t fill) {
    const std::size_t n = image.block(fill).size();
    return std::equal(image.home(image.data_block(i)), image.home(image.data_block(i)) + n, image.block(fill).begin());
  }
  static bool recover_flag(const LogImage& image) { return (std::to_integer<unsigned>(image.device.bytes[1024 + 0x60]) & 4U) != 0; }
  static std::uint32_t state(const LogImage& image) { return std::to_integer<unsigned>(image.device.bytes[1024 + 0x3A]); }
  static void nothing_new(LogImage& image, const Result& first) {
    const auto bytes = image.device.bytes;
    const Result again = run(image, Mode::yes);
    EXPECT_EQ(again.outcome.verdict.fixed, 0u);
    for (const report::Finding& f : again.findings) {
      const auto* before = first.find(f.id);
      EXPECT_TRUE(before != nullptr) << f.text;
    }
    EXPECT_EQ(image.device.bytes, bytes);
  }
};

TEST_F(CheckJournal, AWholeLogIsReplayed) {
  LogImage image;
  commit(image);
  const auto before = image.device.bytes;
  const Result dry = run(image, Mode::read_only);
  EXPECT_EQ(dry.status, 0);
  EXPECT_TRUE(dry.outcome.verdict.journal.replayed);
  EXPECT_EQ(image.device.bytes, before);
  const Result r = run(image, Mode::preen);
  EXPECT_EQ(r.status, 0);
  EXPECT_EQ(r.outcome.verdict.journal.transactions, 1u);
  EXPECT_EQ(r.outcome.verdict.journal.blocks, 3u);
  for (std::uint32_t i = 0; i < 3; ++i) EXPECT_TRUE(home_is(image, i, static_cast<std::uint8_t>(0xA0 + i))) << i;
  EXPECT_FALSE(recover_flag(image));
  nothing_new(image, r);
}

TEST_F(CheckJournal, AnEmptyLogOnlyClearsTheFlag) {
  LogImage image({.start = 0});
  const Result r = run(image, Mode::preen);
  EXPECT_EQ(r.status, 0);
  EXPECT_FALSE(r.outcome.verdict.journal.replayed);
  EXPECT_FALSE(recover_flag(image));
  nothing_new(image, r);
}

TEST_F(CheckJournal, ADamagedBlockStopsPreenAndIsNamedWithItsHome) {
  LogImage image({.incompat = journal::kIncompatCsumV3});
  commit(image);
  image.log_block(3)[100] ^= std::byte{1};  // the second data block
  const auto before = image.device.bytes;
  const Result p = run(image, Mode::preen);
  EXPECT_EQ(p.status, 4);
  EXPECT_TRUE(p.outcome.verdict.halted);
  EXPECT_EQ(image.device.bytes, before) << "-p wrote";
  ASSERT_NE(p.find("journal-damage"), nullptr);
  EXPECT_EQ(p.find("journal-damage")->place.block, image.data_block(1));

  const Result y = run(image, Mode::yes);
  EXPECT_EQ(y.status, 4);
  EXPECT_TRUE(home_is(image, 0, 0xA0));
  EXPECT_FALSE(home_is(image, 1, 0xA1));
  EXPECT_TRUE(home_is(image, 2, 0xA2));
  EXPECT_EQ(y.outcome.verdict.journal.dropped_blocks, 1u);
  EXPECT_NE(state(image) & 2U, 0u) << "lost metadata must force a full check";
  nothing_new(image, y);
}

TEST_F(CheckJournal, AnUnusableJournalThatIsNeededIsKept) {
  LogImage image;
  commit(image);
  image.log_block(0)[0] ^= std::byte{0xFF};
  const auto before = image.device.bytes;
  for (const Mode mode : {Mode::read_only, Mode::preen, Mode::yes}) {
    const Result r = run(image, mode);
    EXPECT_EQ(r.status, 4);
    EXPECT_NE(r.find("journal-unusable"), nullptr);
    EXPECT_EQ(image.device.bytes, before);
  }
}

TEST_F(CheckJournal, ALogNobodyAnnouncedIsNotReplayedInSilence) {
  LogImage image({.recover = false});
  commit(image);
  const auto before = image.device.bytes;
  const Result p = run(image, Mode::preen);
  EXPECT_EQ(p.status, 4);
  EXPECT_NE(p.find("journal-unannounced"), nullptr);
  EXPECT_EQ(image.device.bytes, before);
  const Result y = run(image, Mode::yes);
  EXPECT_EQ(y.status, 1);
  EXPECT_TRUE(home_is(image, 2, 0xA2));
  nothing_new(image, y);
}

TEST_F(CheckJournal, AnUnusableJournalThatIsNotNeededIsReportedAndTheRestGoesOn) {
  LogImage image({.start = 0, .recover = false});
  image.log_block(0)[0] ^= std::byte{0xFF};
  const Result r = run(image, Mode::yes);
  EXPECT_EQ(r.status, 4);
  EXPECT_NE(r.find("journal-unneeded"), nullptr);
  EXPECT_NE(r.outcome.verdict.counts.blocks, 0u) << "the run ended early";
  nothing_new(image, r);
}

TEST_F(CheckJournal, ARecordedErrorMarksTheFileSystem) {
  LogImage image;
  commit(image);
  image.change_super([](journal::SuperOnDisk& raw) { raw.s_errno = 5; });
  const Result r = run(image, Mode::yes);
  EXPECT_NE(r.find("journal-errno"), nullptr);
  EXPECT_NE(r.find("super-state-error"), nullptr);
  EXPECT_EQ(r.status, 4);
  EXPECT_TRUE(home_is(image, 0, 0xA0));
  EXPECT_NE(state(image) & 2U, 0u);
  nothing_new(image, r);
}

TEST_F(CheckJournal, ALostHasJournalBitIsFoundByTheLogItself) {
  LogImage image;
  commit(image);
  image.device.bytes[1024 + 0x5C] &= ~std::byte{4};
  const auto before = image.device.bytes;
  EXPECT_EQ(run(image, Mode::preen).status, 4);
  EXPECT_EQ(image.device.bytes, before);
  const Result r = run(image, Mode::yes);
  EXPECT_NE(r.find("journal-flag-lost"), nullptr);
  EXPECT_EQ(r.status, 1);
  EXPECT_TRUE(home_is(image, 1, 0xA1));
  nothing_new(image, r);
}

TEST_F(CheckJournal, AnExternalJournalIsNamedAndTheImageLeftAlone) {
  LogImage image({.start = 0});
  auto& b = image.device.bytes;
  std::fill_n(b.begin() + 1024 + 0xD0, 16, std::byte{0x42});  // s_journal_uuid
  std::fill_n(b.begin() + 1024 + 0xE0, 4, std::byte{0});      // s_journal_inum
  b[1024 + 0xE4] = std::byte{8};                              // s_journal_dev
  const auto before = image.device.bytes;
  const Result r = run(image, Mode::yes);
  EXPECT_EQ(r.status, 12);
  ASSERT_TRUE(r.outcome.error);
  EXPECT_NE(r.outcome.error->text.find("42424242"), std::string::npos) << r.outcome.error->text;
  EXPECT_EQ(image.device.bytes, before);

  test::set_recover(b, false);
  const Result idle = run(image, Mode::preen);
  EXPECT_EQ(idle.status, 0) << "a clean file system is not wrong for having its journal elsewhere";
  EXPECT_NE(idle.find("journal-external-idle"), nullptr);
}

}  // namespace
}  // namespace e4
