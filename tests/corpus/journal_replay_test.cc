// SPDX-License-Identifier: GPL-2.0-only
// Every crash image of the corpus: the replayed log must give what other
// implementations give, block by block, and survive a cut anywhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "journal/committer.h"
#include "journal/fast_commit.h"
#include "journal/fs_super.h"
#include "journal/writeback.h"
#include "tests/support/child.h"
#include "tests/support/power_cut.h"
#include "tests/support/temp_dir.h"

namespace e4::journal {
namespace {

namespace fs = std::filesystem;
using test::PowerCut;

std::string corpus() {
  const char* env = std::getenv("E4_CORPUS");
  return env != nullptr ? env : "../shared/corpus";
}

std::vector<std::string> crash_images() {
  std::vector<std::string> names;
  if (fs::is_directory(corpus() + "/crash")) {
    for (const auto& e : fs::directory_iterator(corpus() + "/crash")) names.push_back(e.path().filename());
  }
  std::ranges::sort(names);
  if (names.empty()) names.emplace_back("none");
  return names;
}

class JournalCorpus : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "none") GTEST_SKIP() << "no corpus at " << corpus();
    path_ = dir_ / "image";
    const auto run =
        testing_support::run_child({"zstd", "-qdf", "--sparse", corpus() + "/crash/" + GetParam() + "/image.zst", "-o", path_});
    ASSERT_EQ(run.status, 0);
  }
  testing_support::TempDir dir_;
  std::string path_;
};
INSTANTIATE_TEST_SUITE_P(Crash, JournalCorpus, ::testing::ValuesIn(crash_images()), [](const auto& image) {
  std::string name = image.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

Result<Committer::Stats> recover_all(image::Device& device) {
  image::Filsys filsys = E4_TRY(image::Filsys::open(device));
  RecoveryPlan plan = E4_TRY(plan_recovery(device, filsys));
  image::Overlay overlay(device, filsys.block_bytes());
  E4_TRY(apply(plan, overlay));
  const FastCommitResult fast = E4_TRY(replay_fast_commits(plan, overlay));
  if (!fast.problems.empty()) return make_error(ErrorKind::corrupt, fast.problems[0].text());
  Committer committer = E4_TRY(Committer::begin(std::move(plan), overlay));
  E4_TRY(committer.finish());
  return committer.stats();
}

// The superblock without what a tool stamps on it: write time, free counts,
// kilobytes written, checksum.
std::vector<std::byte> bare(const FsSuper& super) {
  std::vector<std::byte> b(super.bytes().begin(), super.bytes().end());
  const auto wipe = [&b](std::size_t at, std::size_t n) { std::fill_n(b.begin() + static_cast<std::ptrdiff_t>(at), n, std::byte{0}); };
  wipe(offsetof(ext2_super_block, s_free_blocks_count), 8);
  wipe(offsetof(ext2_super_block, s_free_blocks_hi), 4);
  wipe(offsetof(ext2_super_block, s_wtime), 4);
  wipe(offsetof(ext2_super_block, s_flags), 4);
  wipe(offsetof(ext2_super_block, s_wtime_hi), 1);
  wipe(offsetof(ext2_super_block, s_kbytes_written), 8);
  wipe(offsetof(ext2_super_block, s_lastcheck), 4);
  wipe(offsetof(ext2_super_block, s_checksum), 4);
  wipe(0x40, 4);
  return b;
}

// debugfs's own replay: right as long as there are no fast commits, and when it
// can open the image at all (a bitmap's checksum may be stale before replay).
TEST_P(JournalCorpus, BlocksAreThoseAnIndependentReplayGives) {
  const std::string theirs_path = dir_ / "theirs";
  ASSERT_EQ(testing_support::run_child({"cp", "--sparse=always", path_, theirs_path}).status, 0);
  auto ours = image::open_file(path_, {.writable = true});
  ASSERT_TRUE(ours) << ours.error().message();
  auto filsys = image::Filsys::open(**ours);
  ASSERT_TRUE(filsys) << filsys.error().message();
  const auto plan = plan_recovery(**ours, *filsys);
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_TRUE(plan->complete()) << (plan->problems.empty() ? "" : plan->problems[0].text());
  EXPECT_TRUE(plan->problems.empty());
  ASSERT_TRUE(plan->log);
  const auto stats = recover_all(**ours);
  ASSERT_TRUE(stats) << stats.error().message();
  auto super = FsSuper::read(**ours);
  ASSERT_TRUE(super);
  EXPECT_FALSE(super->recover());
  auto again = image::Filsys::open(**ours);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(plan_recovery(**ours, *again)->verdict, Verdict::nothing_to_do);

  if (plan->fast_commit_records != 0) return;
  ASSERT_EQ(testing_support::run_child({"debugfs", "-w", "-R", "journal_run", theirs_path}).status, 0);
  auto theirs = image::open_file(theirs_path);
  ASSERT_TRUE(theirs);
  auto their_super = FsSuper::read(**theirs);
  ASSERT_TRUE(their_super);
  if (their_super->recover()) GTEST_SKIP() << "debugfs does not open this image before replay";
  const std::uint32_t bs = filsys->block_bytes();
  std::vector<std::byte> a(bs), b(bs);
  for (Blk n = 0; n < (*ours)->size() / bs; ++n) {
    if (plan->log->holds(n)) continue;
    ASSERT_TRUE((*ours)->read(n * bs, a));
    ASSERT_TRUE((*theirs)->read(n * bs, b));
    if (n == super_block(bs)) {
      EXPECT_TRUE(bare(*super) == bare(*their_super)) << "superblock";
      std::copy(b.begin() + super_offset(bs), b.begin() + super_offset(bs) + 1024, a.begin() + super_offset(bs));
    }
    ASSERT_TRUE(a == b) << "block " << n;
  }
}

// After our replay of log and fast commits e2fsck releases the orphans; what
// is left must have the counts the oracle has.
TEST_P(JournalCorpus, FastCommitsLeaveWhatTheOracleCounts) {
  std::uint32_t blocks = 0, inodes = 0;
  if (GetParam() == "c13-fast-commit") blocks = 13974, inodes = 16307;
  if (GetParam() == "c29-fast-commit-kernel-refuses") blocks = 13973, inodes = 16306;
  if (blocks == 0) return;
  {
    auto device = image::open_file(path_, {.writable = true});
    ASSERT_TRUE(device);
    const auto stats = recover_all(**device);
    ASSERT_TRUE(stats) << stats.error().message();
    EXPECT_GE(stats->transactions, 1U) << "the outcome of fast commits goes through the log";
  }
  EXPECT_EQ(testing_support::run_child({"e2fsck", "-fy", path_}).status, 1);
  EXPECT_EQ(testing_support::run_child({"e2fsck", "-fn", path_}).status, 0);
  auto device = image::open_file(path_);
  ASSERT_TRUE(device);
  auto filsys = image::Filsys::open(**device);
  ASSERT_TRUE(filsys);
  EXPECT_EQ(ext2fs_free_blocks_count(&filsys->super()), blocks);
  EXPECT_EQ(filsys->super().s_free_inodes_count, inodes);
}

TEST_P(JournalCorpus, CutAnywhereEndsInTheSameImage) {
  auto device = image::open_file(path_);
  ASSERT_TRUE(device);
  auto filsys = image::Filsys::open(**device);
  ASSERT_TRUE(filsys);
  const std::uint32_t bs = filsys->block_bytes();
  const auto plan = plan_recovery(**device, *filsys);
  ASSERT_TRUE(plan);
  image::Overlay whole(**device, bs);
  PowerCut counter(whole, {});
  ASSERT_TRUE(recover_all(counter));
  // Long recoveries: a sample of the cuts; with E4_EVERY_CUT all of them.
  const std::uint64_t stride = std::getenv("E4_EVERY_CUT") != nullptr ? 1 : std::max<std::uint64_t>(1, counter.steps() / 12);
  for (std::uint64_t n = 0; n < counter.steps(); n += stride) {
    SCOPED_TRACE(n);
    image::Overlay medium(**device, bs);
    PowerCut cut(medium, {.after_steps = n, .unflushed = PowerCut::Unflushed::some, .seed = n + 1});
    ASSERT_FALSE(recover_all(cut));
    const auto rest = recover_all(medium);
    ASSERT_TRUE(rest) << rest.error().message();
    std::vector<Blk> blocks = medium.dirty_blocks();
    const std::vector<Blk> more = whole.dirty_blocks();
    blocks.insert(blocks.end(), more.begin(), more.end());
    std::vector<std::byte> a(bs), b(bs);
    for (const Blk block : blocks) {
      if (plan->log->holds(block)) continue;
      ASSERT_TRUE(medium.read(block * bs, a));
      ASSERT_TRUE(whole.read(block * bs, b));
      if (block == super_block(bs)) {
        const auto x = FsSuper::parse(std::span<const std::byte>(a).subspan(super_offset(bs)));
        const auto y = FsSuper::parse(std::span<const std::byte>(b).subspan(super_offset(bs)));
        ASSERT_TRUE(x && y);
        ASSERT_TRUE(bare(*x) == bare(*y)) << "superblock";
        continue;
      }
      ASSERT_TRUE(a == b) << "block " << block;
    }
  }
}

}  // namespace
}  // namespace e4::journal
