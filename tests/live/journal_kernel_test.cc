// SPDX-License-Identifier: GPL-2.0-only
// Logs of every format, good and bad, recovered by the running kernel and by
// us: the blocks must be the same.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/random.h"
#include "journal/committer.h"
#include "journal/fs_super.h"
#include "journal/writeback.h"
#include "tests/support/child.h"
#include "tests/support/fast_commit_builder.h"
#include "tests/support/log_image.h"
#include "tests/support/temp_dir.h"

namespace e4::journal {
namespace {

using test::LogImage;
using test::LogOptions;
using testing_support::run_child;

struct Case {
  const char* name;
  std::uint32_t compat, incompat, fast_commit_blocks, start;
};

class JournalKernel : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "mounting needs root";
    if (!std::filesystem::exists("/dev/loop-control")) GTEST_SKIP() << "no loop devices";
  }
  static LogOptions options() {
    LogOptions o;
    o.compat = GetParam().compat;
    o.incompat = GetParam().incompat;
    o.fast_commit_blocks = GetParam().fast_commit_blocks;
    o.start = GetParam().start;
    o.journal_mib = 2;
    o.size = "16M";
    o.features = GetParam().fast_commit_blocks != 0 ? "^metadata_csum,^64bit,^orphan_file,fast_commit" : "^metadata_csum,^64bit,^orphan_file";
    return o;
  }
  // What the kernel makes of the image; whether it mounted.
  bool kernel(LogImage& image, std::vector<std::byte>& after) {
    const std::string path = dir_ / "image", mnt = dir_ / "mnt";
    std::filesystem::create_directory(mnt);
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(image.device.bytes.data()), static_cast<std::streamsize>(image.device.bytes.size()));
    const bool mounted = run_child({"mount", "-o", "loop", path, mnt}).status == 0;
    if (mounted) {
      EXPECT_EQ(run_child({"umount", mnt}).status, 0);
    }
    after.resize(image.device.bytes.size());
    std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(after.data()), static_cast<std::streamsize>(after.size()));
    return mounted;
  }
  // A log of random transactions; the last one without a commit block.
  void fill(LogImage& image, std::uint64_t seed) {
    Random random(seed);
    auto w = image.writer();
    for (std::uint32_t t = 0; t < 40; ++t) {
      const std::uint64_t blocks = random.below(12);
      for (std::uint64_t i = 0; i < blocks; ++i) {
        ASSERT_TRUE(w.add(image.data_block(static_cast<std::uint32_t>(random.below(60))),
                          image.block(static_cast<std::uint8_t>(random.below(256)),
                                      random.one_in(6) ? kMagic : static_cast<std::uint32_t>(random.next()))));
      }
      if (random.one_in(4)) {
        std::vector<Blk> revoked;
        for (std::uint64_t n = random.below(5); n > 0; --n) revoked.push_back(image.data_block(static_cast<std::uint32_t>(random.below(60))));
        ASSERT_TRUE(w.revoke(revoked));
      }
      if (t == 39) break;
      ASSERT_TRUE(w.commit({.sec = 1700000000 + t, .nsec = 0}));
    }
    ASSERT_TRUE(w.close_descriptor());
    if (GetParam().start != 1) {
      EXPECT_LT(w.position(), GetParam().start) << "the log must have wrapped";
    }
  }
  static void compare(LogImage& image, const std::vector<std::byte>& kernel) {
    const std::size_t bs = image.log->block_bytes();
    for (Blk n = image.data_block(0); n < image.data_block(60); ++n) {
      EXPECT_TRUE(std::equal(image.device.bytes.begin() + static_cast<std::ptrdiff_t>(n * bs),
                             image.device.bytes.begin() + static_cast<std::ptrdiff_t>((n + 1) * bs),
                             kernel.begin() + static_cast<std::ptrdiff_t>(n * bs)))
          << "block " << n;
    }
  }
  testing_support::TempDir dir_;
};
INSTANTIATE_TEST_SUITE_P(
    Formats, JournalKernel,
    ::testing::Values(Case{"None", 0, kIncompatRevoke, 0, 1}, Case{"V1Wrapped", kCompatChecksum, kIncompatRevoke, 0, 2000},
                      Case{"V2", 0, kIncompatCsumV2 | kIncompatRevoke, 0, 1},
                      Case{"V2Wide", 0, kIncompatCsumV2 | kIncompat64bit | kIncompatRevoke, 0, 1900},
                      Case{"V3Wide", 0, kIncompatCsumV3 | kIncompat64bit | kIncompatRevoke, 0, 2000},
                      Case{"V3FastCommitWrapped", 0, kIncompatCsumV3 | kIncompatFastCommit | kIncompatRevoke, 64, 1900}),
    [](const auto& c) { return std::string(c.param.name); });

TEST_P(JournalKernel, RandomLogsGiveTheSameBlocks) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    LogImage image(options());
    fill(image, seed);
    std::vector<std::byte> theirs;
    ASSERT_TRUE(kernel(image, theirs));
    ASSERT_TRUE(recover(image.device));
    compare(image, theirs);
  }
}

TEST_P(JournalKernel, DamagedLogsKeepTheSameBlocks) {
  // Without checksums a flipped tag would send a block into live metadata, and
  // such an image is not for mounting.
  if (GetParam().compat == 0 && (GetParam().incompat & (kIncompatCsumV2 | kIncompatCsumV3)) == 0) return;
  const char* more = std::getenv("E4_SEEDS");
  const std::uint64_t seeds = more != nullptr ? std::strtoull(more, nullptr, 10) : 6;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    LogImage image(options());
    fill(image, seed);
    Random random(seed * 31);
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t at = image.log->advance(GetParam().start, static_cast<std::uint32_t>(random.below(120)));
      image.log_block(at)[random.below(1024)] ^= static_cast<std::byte>(1U << random.below(8));
    }
    const auto plan = image.plan();
    ASSERT_TRUE(plan);
    std::vector<std::byte> theirs;
    const bool mounted = kernel(image, theirs);
    EXPECT_EQ(mounted, plan->complete()) << to_string(plan->verdict);
    ASSERT_TRUE(recover(image.device, true));
    compare(image, theirs);
  }
}

TEST_P(JournalKernel, KernelRecoversATransactionOfOurs) {
  LogImage image(options());
  fill(image, 9);
  // Stop right behind the write that makes our transaction count.
  auto fs = image::Filsys::open(image.device);
  ASSERT_TRUE(fs);
  auto plan = image.plan();
  ASSERT_TRUE(plan);
  image::Overlay overlay(image.device, image.log->block_bytes());
  ASSERT_TRUE(apply(*plan, overlay));
  auto committer = Committer::begin(std::move(*plan), overlay);
  ASSERT_TRUE(committer);
  for (std::uint32_t i = 100; i < 500; ++i) {
    auto block = overlay.create(image.data_block(i));
    ASSERT_TRUE(block);
    store<be32>(block->data(), 0, i % 3 == 0 ? kMagic : i);
  }
  ASSERT_TRUE(committer->commit());
  // In place already: undo that, so that only the log has it.
  for (std::uint32_t i = 100; i < 500; ++i) std::fill_n(image.home(image.data_block(i)), 1024, std::byte{0x55});
  std::vector<std::byte> theirs;
  ASSERT_TRUE(kernel(image, theirs));
  for (std::uint32_t i = 100; i < 500; ++i) {
    ASSERT_EQ(load<be32>(theirs.data(), image.data_block(i) * 1024), i % 3 == 0 ? kMagic : i);
    ASSERT_EQ(theirs[image.data_block(i) * 1024 + 77], std::byte{0});
  }
}

}  // namespace
}  // namespace e4::journal
