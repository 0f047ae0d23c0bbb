// SPDX-License-Identifier: GPL-2.0-only
#include "journal/fast_commit.h"

#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "base/random.h"
#include "journal/committer.h"
#include "tests/support/child.h"
#include "tests/support/fast_commit_builder.h"
#include "tests/support/temp_dir.h"

namespace e4::journal {
namespace {

using test::FastCommitBuilder;
using test::LogImage;
using test::LogOptions;

constexpr Tid kEnd = 101;  // the transaction that was not complete when power went

class JournalFastCommit : public ::testing::TestWithParam<std::string> {
 protected:
  JournalFastCommit() : image_(options(GetParam())) {
    auto w = image_.writer();
    EXPECT_TRUE(w.commit({.sec = 5, .nsec = 0}));  // tid 100
    free_ino_ = 64 + 13;
    auto fs = image::Filsys::open(image_.device);
    root_file_ = lookup(*fs, EXT2_ROOT_INO, "file");
    dir_ = lookup(*fs, EXT2_ROOT_INO, "dir");
    many_ = lookup(*fs, EXT2_ROOT_INO, "many");
  }
  static LogOptions options(const std::string& features) {
    LogOptions o;
    o.features = features;
    o.incompat = kIncompatFastCommit | kIncompatCsumV3;
    o.fast_commit_blocks = 64;
    o.journal_mib = 2;
    o.size = "16M";
    o.files = true;
    return o;
  }
  static Ino lookup(image::Filsys& fs, Ino dir, const std::string& name) {
    ext2_ino_t ino = 0;
    if (ext2fs_lookup(fs.raw(), dir, name.data(), static_cast<int>(name.size()), nullptr, &ino) != 0) return 0;
    return ino;
  }
  // An inode as the kernel logs it: 128 bytes and i_extra_isize.
  static std::vector<std::byte> raw_inode(std::uint16_t mode, std::uint16_t links, std::uint32_t size, std::uint32_t flags = EXT4_EXTENTS_FL) {
    ext2_inode_large i{};
    i.i_mode = mode;
    i.i_links_count = links;
    i.i_size = size;
    i.i_flags = flags;
    i.i_generation = 77;
    i.i_ctime = i.i_mtime = i.i_atime = 1700000000;
    i.i_extra_isize = 32;
    const auto* p = reinterpret_cast<const std::byte*>(&i);
    return {p, p + 160};
  }
  FastCommitBuilder begin() {
    FastCommitBuilder b(image_);
    b.head(kEnd);
    return b;
  }
  // Replays in an overlay; what became of it is in `shown`, as an image.
  FastCommitResult replay() {
    auto plan = image_.plan();
    EXPECT_TRUE(plan);
    EXPECT_EQ(plan->end_tid, kEnd);
    image::Overlay overlay(image_.device, 1024);
    EXPECT_TRUE(apply(*plan, overlay));
    auto result = replay_fast_commits(*plan, overlay);
    EXPECT_TRUE(result) << result.error().message();
    shown_ = image_.device.bytes;
    EXPECT_TRUE(overlay.read(0, shown_));
    return result ? std::move(*result) : FastCommitResult{};
  }
  // e2fsck over the replayed image, log emptied first.
  void expect_consistent() {
    test::VectorDevice device(shown_);
    SuperOnDisk raw = image_.log->super().raw;
    raw.s_start = 0;
    Log log = *image_.log;
    ASSERT_TRUE(log.write_super(device, raw));
    testing_support::TempDir dir;
    const std::string path = dir / "image";
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(device.bytes.data()), static_cast<std::streamsize>(device.bytes.size()));
    const auto run = testing_support::run_child({"e2fsck", "-fn", path}, dir / "output");
    std::ifstream in(dir / "output");
    EXPECT_EQ(run.status, 0) << std::string(std::istreambuf_iterator<char>(in), {});
  }
  image::Filsys open_shown() {
    device_ = std::make_unique<test::VectorDevice>(shown_);
    auto fs = image::Filsys::open(*device_);
    EXPECT_TRUE(fs);
    EXPECT_TRUE(fs->read_bitmaps());
    return std::move(*fs);
  }
  static ext2_inode_large inode_of(image::Filsys& fs, Ino ino) {
    ext2_inode_large i{};
    EXPECT_EQ(ext2fs_read_inode_full(fs.raw(), ino, reinterpret_cast<ext2_inode*>(&i), sizeof i), 0);
    return i;
  }
  Blk free_block(std::uint32_t n) const { return image_.data_block(n); }

  LogImage image_;
  Ino root_file_ = 0, dir_ = 0, many_ = 0, free_ino_ = 0;
  std::vector<std::byte> shown_;
  std::unique_ptr<test::VectorDevice> device_;
};
INSTANTIATE_TEST_SUITE_P(Features, JournalFastCommit,
                         ::testing::Values("metadata_csum,64bit,^orphan_file", "^metadata_csum,^64bit,uninit_bg,^orphan_file",
                                           "metadata_csum,^resize_inode,bigalloc,^orphan_file"),
                         [](const auto& features) {
                           return std::string(features.param.find("bigalloc") != std::string::npos ? "Bigalloc"
                                              : features.param[0] == '^'                         ? "NoChecksums"
                                                                                                 : "Checksums");
                         });

TEST_P(JournalFastCommit, NewFileHasItsNameInodeAndBlocks) {
  auto b = begin();
  b.inode(free_ino_, raw_inode(LINUX_S_IFREG | 0644, 1, 3 * 1024)).add_range(free_ino_, 0, 3, free_block(16));
  b.creat(EXT2_ROOT_INO, free_ino_, "new").tail(kEnd).write();
  const FastCommitResult r = replay();
  EXPECT_TRUE(r.problems.empty()) << r.problems[0].text();
  EXPECT_EQ(r.records, 5U);
  EXPECT_TRUE(r.full_check_needed);
  auto fs = open_shown();
  EXPECT_EQ(lookup(fs, EXT2_ROOT_INO, "new"), free_ino_);
  const auto inode = inode_of(fs, free_ino_);
  EXPECT_EQ(inode.i_links_count, 1);
  EXPECT_EQ(inode.i_generation, 77U);
  EXPECT_TRUE(ext2fs_test_inode_bitmap2(fs.raw()->inode_map, free_ino_));
  EXPECT_TRUE(ext2fs_test_block_bitmap2(fs.raw()->block_map, free_block(17)));
  expect_consistent();
}

TEST_P(JournalFastCommit, RepeatingTheReplayChangesNothing) {
  auto b = begin();
  b.inode(free_ino_, raw_inode(LINUX_S_IFREG | 0644, 2, 3 * 1024)).add_range(free_ino_, 0, 3, free_block(16));
  b.creat(EXT2_ROOT_INO, free_ino_, "new").link(dir_, free_ino_, "again").del_range(root_file_, 1, 5).tail(kEnd).write();
  replay();
  std::vector<std::byte> once = shown_;
  image_.device.bytes = shown_;
  test::set_recover(image_.device.bytes, true);
  const FastCommitResult r = replay();
  EXPECT_TRUE(r.problems.empty());
  // libext2fs stamps the superblock with the time of the write.
  for (auto* image : {&shown_, &once}) {
    std::fill_n(image->begin() + 1024 + offsetof(ext2_super_block, s_wtime), 4, std::byte{0});
    std::fill_n(image->begin() + 1024 + offsetof(ext2_super_block, s_checksum), 4, std::byte{0});
  }
  const auto at = std::ranges::mismatch(shown_, once).in1 - shown_.begin();
  EXPECT_EQ(at, static_cast<std::ptrdiff_t>(once.size())) << "byte " << std::hex << at;
}

TEST_P(JournalFastCommit, LinkAndUnlinkMoveAName) {
  auto b = begin();
  b.link(dir_, root_file_, "moved").unlink(EXT2_ROOT_INO, root_file_, "file").tail(kEnd).write();
  const FastCommitResult r = replay();
  EXPECT_TRUE(r.problems.empty());
  auto fs = open_shown();
  EXPECT_EQ(lookup(fs, EXT2_ROOT_INO, "file"), 0U);
  EXPECT_EQ(lookup(fs, dir_, "moved"), root_file_);
  EXPECT_EQ(inode_of(fs, root_file_).i_links_count, 1);
  expect_consistent();
}

TEST_P(JournalFastCommit, UnlinkLeavesANameOfAnotherInodeAlone) {
  auto b = begin();
  b.unlink(EXT2_ROOT_INO, dir_, "file").unlink(EXT2_ROOT_INO, root_file_, "nothing").tail(kEnd).write();
  EXPECT_TRUE(replay().problems.empty());
  auto fs = open_shown();
  EXPECT_EQ(lookup(fs, EXT2_ROOT_INO, "file"), root_file_);
  expect_consistent();
}

TEST_P(JournalFastCommit, LinkTakesANameFromAnotherInode) {
  auto b = begin();
  b.inode(free_ino_, raw_inode(LINUX_S_IFREG | 0644, 1, 0)).link(dir_, free_ino_, "inner").tail(kEnd).write();
  EXPECT_TRUE(replay().problems.empty());
  auto fs = open_shown();
  EXPECT_EQ(lookup(fs, dir_, "inner"), free_ino_);
}

TEST_P(JournalFastCommit, NewDirectoryGetsItsFirstBlockAndCounts) {
  auto b = begin();
  b.inode(free_ino_, raw_inode(LINUX_S_IFDIR | 0755, 2, 1024)).add_range(free_ino_, 0, 1, free_block(16));
  b.creat(EXT2_ROOT_INO, free_ino_, "newdir");
  b.inode(free_ino_ + 1, raw_inode(LINUX_S_IFREG | 0600, 1, 0)).creat(free_ino_, free_ino_ + 1, "inside");
  b.tail(kEnd).write();
  const FastCommitResult r = replay();
  EXPECT_TRUE(r.problems.empty()) << r.problems[0].text();
  auto fs = open_shown();
  EXPECT_EQ(lookup(fs, free_ino_, ".."), static_cast<Ino>(EXT2_ROOT_INO));
  EXPECT_EQ(lookup(fs, free_ino_, "inside"), free_ino_ + 1);
  EXPECT_EQ(inode_of(fs, free_ino_).i_links_count, 2);
  expect_consistent();  // the parent's link count, used directories, i_blocks
}

TEST_P(JournalFastCommit, DirectoryWithoutRangeGetsABlockOfItsOwn) {
  auto b = begin();
  b.inode(free_ino_, raw_inode(LINUX_S_IFDIR | 0755, 2, 0)).creat(dir_, free_ino_, "newdir").tail(kEnd).write();
  EXPECT_TRUE(replay().problems.empty());
  expect_consistent();
}

TEST_P(JournalFastCommit, FullDirectoryGrows) {
  auto b = begin();
  for (std::uint32_t i = 0; i < 60; ++i) {
    b.inode(free_ino_ + i, raw_inode(LINUX_S_IFREG | 0600, 1, 0));
    b.creat(dir_, free_ino_ + i, "another-name-of-some-length-" + std::to_string(i));
  }
  b.tail(kEnd).write();
  ASSERT_GT(b.blocks(), 10U);
  const FastCommitResult r = replay();
  EXPECT_TRUE(r.problems.empty()) << r.problems[0].text();
  auto fs = open_shown();
  EXPECT_EQ(lookup(fs, dir_, "another-name-of-some-length-59"), free_ino_ + 59);
  expect_consistent();
}

TEST_P(JournalFastCommit, ShortSymlinkKeepsItsTarget) {
  auto raw = raw_inode(LINUX_S_IFLNK | 0777, 1, 9, 0);
  std::memcpy(raw.data() + offsetof(ext2_inode, i_block), "to/inside", 9);
  auto b = begin();
  b.inode(free_ino_, raw).creat(EXT2_ROOT_INO, free_ino_, "short").tail(kEnd).write();
  EXPECT_TRUE(replay().problems.empty());
  auto fs = open_shown();
  const auto inode = inode_of(fs, free_ino_);
  EXPECT_EQ(std::memcmp(inode.i_block, "to/inside", 9), 0);
  expect_consistent();
}

TEST_P(JournalFastCommit, DeletedRangeIsFreed) {
  auto fs_before = image::Filsys::open(image_.device);
  blk64_t second = 0;
  ASSERT_EQ(ext2fs_bmap2(fs_before->raw(), root_file_, nullptr, nullptr, 0, 0, nullptr, &second), 0);
  auto b = begin();
  auto raw = raw_inode(LINUX_S_IFREG | 0644, 1, 0);
  const auto now = inode_of(*fs_before, root_file_);
  store<le32>(raw.data(), offsetof(ext2_inode, i_generation), now.i_generation);
  b.inode(root_file_, raw).del_range(root_file_, 0, 0x7FFFFFFF).del_range(root_file_, 0x7FFFFFFF, 0x7FFFFFFF);
  b.tail(kEnd).write();
  EXPECT_TRUE(replay().problems.empty());
  auto fs = open_shown();
  EXPECT_FALSE(ext2fs_test_block_bitmap2(fs.raw()->block_map, second));
  EXPECT_EQ(inode_of(fs, root_file_).i_blocks, 0U);
  expect_consistent();
}

TEST_P(JournalFastCommit, ManyRangesMakeATreeAndFewAgainNone) {
  auto b = begin();
  b.inode(free_ino_, raw_inode(LINUX_S_IFREG | 0644, 1, 400 * 1024));
  for (std::uint32_t i = 0; i < 20; ++i) b.add_range(free_ino_, i * 16, 1, free_block(16 + i * 32), i % 5 == 4);
  b.creat(EXT2_ROOT_INO, free_ino_, "pieces").tail(kEnd);
  b.write();
  EXPECT_TRUE(replay().problems.empty());
  expect_consistent();
  b.head(kEnd).del_range(free_ino_, 32, 1000).tail(kEnd).write();
  EXPECT_TRUE(replay().problems.empty());
  auto fs = open_shown();
  EXPECT_FALSE(ext2fs_test_block_bitmap2(fs.raw()->block_map, free_block(16 + 19 * 32)));
  expect_consistent();
}

TEST_P(JournalFastCommit, RemappedRangeFreesTheOldBlocks) {
  auto b = begin();
  b.inode(free_ino_, raw_inode(LINUX_S_IFREG | 0644, 1, 16 * 1024)).add_range(free_ino_, 0, 16, free_block(32));
  b.creat(EXT2_ROOT_INO, free_ino_, "moving").tail(kEnd);
  b.add_range(free_ino_, 0, 16, free_block(64)).tail(kEnd).write();
  EXPECT_TRUE(replay().problems.empty());
  auto fs = open_shown();
  EXPECT_FALSE(ext2fs_test_block_bitmap2(fs.raw()->block_map, free_block(32)));
  EXPECT_TRUE(ext2fs_test_block_bitmap2(fs.raw()->block_map, free_block(64)));
  expect_consistent();
}

TEST_P(JournalFastCommit, UnlinkedWhileOpenIsReportedAsAnOrphan) {
  auto b = begin();
  b.inode(free_ino_, raw_inode(LINUX_S_IFREG | 0600, 0, 1024)).add_range(free_ino_, 0, 1, free_block(16)).tail(kEnd).write();
  const FastCommitResult r = replay();
  EXPECT_TRUE(r.problems.empty());
  EXPECT_THAT(r.orphans, ::testing::ElementsAre(free_ino_));
  auto fs = open_shown();
  EXPECT_TRUE(ext2fs_test_inode_bitmap2(fs.raw()->inode_map, free_ino_));
}

TEST_P(JournalFastCommit, StaleHeadMeansNoneAndTheLogIsStillReplayed) {
  FastCommitBuilder b(image_);
  b.head(kEnd - 1).unlink(EXT2_ROOT_INO, root_file_, "file").tail(kEnd - 1).write();
  const auto plan = image_.plan();
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->verdict, Verdict::ok);
  EXPECT_EQ(plan->transactions, 1U);
  EXPECT_EQ(plan->fast_commit_records, 0U);
  EXPECT_TRUE(plan->problems.empty());
}

TEST_P(JournalFastCommit, OnlyWholeFastCommitsCount) {
  auto b = begin();
  b.link(dir_, root_file_, "one").tail(kEnd);
  b.link(dir_, root_file_, "two").tail(kEnd, 1).write();
  const auto plan = image_.plan();
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->verdict, Verdict::ok);
  EXPECT_EQ(plan->fast_commit_records, 3U);
  EXPECT_EQ(plan->fast_commit_blocks, 1U);
  replay();
  auto fs = open_shown();
  EXPECT_EQ(lookup(fs, dir_, "one"), root_file_);
  EXPECT_EQ(lookup(fs, dir_, "two"), 0U);
}

TEST_P(JournalFastCommit, TornFirstFastCommitIsARemarkNotDamage) {
  auto b = begin();
  b.link(dir_, root_file_, "one").tail(kEnd, 1).write();
  const auto plan = image_.plan();
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->verdict, Verdict::ok);
  EXPECT_EQ(plan->fast_commit_records, 0U);
  ASSERT_EQ(plan->problems.size(), 1U);
  EXPECT_EQ(plan->problems[0].kind, ProblemKind::fast_commit_damaged);
}

TEST_P(JournalFastCommit, UnknownFeaturesAreNotReplayed) {
  FastCommitBuilder b(image_);
  b.head(kEnd, 1).link(dir_, root_file_, "one").tail(kEnd).write();
  const auto plan = image_.plan();
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->verdict, Verdict::partial);
  EXPECT_EQ(plan->fast_commit_records, 0U);
}

TEST_P(JournalFastCommit, AreaFilledToItsLastBlockIsReadToItsEnd) {
  auto b = begin();
  const std::uint32_t area = fast_commit_area(image_.log->super()).blocks;
  for (std::uint32_t i = 0; i < area; ++i) b.link(dir_, root_file_, "n" + std::to_string(i)).tail(kEnd);
  ASSERT_EQ(b.blocks(), area);
  b.write();
  const auto plan = image_.plan();
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->fast_commit_blocks, area);
  EXPECT_EQ(plan->fast_commit_records, 1 + 2 * area);
}

TEST_P(JournalFastCommit, ImpossibleRecordsAreNamedAndLeftOut) {
  auto b = begin();
  auto fs0 = image::Filsys::open(image_.device);
  const Blk itable = ext2fs_inode_table_loc(fs0->raw(), 0);
  b.add_range(root_file_, 10, 1, itable);                     // metadata
  b.add_range(root_file_, 10, 1, image_.log->physical(50));   // the journal
  b.add_range(root_file_, 10, 2, 16 * 1024 - 1);              // past the end
  b.add_range(root_file_, 0xFFFFFFFF, 2, free_block(0));      // past any file
  b.add_range(99999, 0, 1, free_block(0));                    // no such inode
  b.inode(8, raw_inode(LINUX_S_IFREG, 1, 0));                 // the journal's inode
  b.creat(root_file_, free_ino_, "x");                        // parent is no directory, inode is free
  b.link(dir_, root_file_, "a/b");
  b.link(dir_, dir_, "self");
  b.link(dir_, root_file_, "good");
  b.tail(kEnd).write();
  const FastCommitResult r = replay();
  EXPECT_EQ(r.problems.size(), 9U);
  for (const Problem& p : r.problems) EXPECT_EQ(p.kind, ProblemKind::fast_commit_record);
  auto fs = open_shown();
  EXPECT_EQ(lookup(fs, dir_, "good"), root_file_);
}

TEST_P(JournalFastCommit, AnyRecordsLeaveAnImageThatOpens) {
  Random random(2024);
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    auto b = begin();
    for (int i = 0; i < 12; ++i) {
      const auto ino = static_cast<Ino>(random.one_in(8) ? random.below(4000) : 11 + random.below(70));
      const auto parent = static_cast<Ino>(random.one_in(3) ? EXT2_ROOT_INO : random.one_in(2) ? dir_ : 11 + random.below(60));
      const std::string name(1 + random.below(40), static_cast<char>(1 + random.below(255)));
      switch (random.below(6)) {
        case 0: b.add_range(ino, static_cast<Lblk>(random.below(40)), static_cast<std::uint16_t>(random.below(400)), random.below(16 * 1024 + 5), random.one_in(3)); break;
        case 1: b.del_range(ino, static_cast<Lblk>(random.below(40)), static_cast<std::uint32_t>(random.next())); break;
        case 2: b.creat(parent, ino, name); break;
        case 3: b.link(parent, ino, name); break;
        case 4: b.unlink(parent, ino, random.one_in(2) ? "file" : name); break;
        default: {
          auto raw = raw_inode(static_cast<std::uint16_t>(random.next()), static_cast<std::uint16_t>(random.below(4)), static_cast<std::uint32_t>(random.next()));
          for (int k = 0; k < 6; ++k) raw[random.below(raw.size())] = static_cast<std::byte>(random.next());
          b.inode(ino, raw);
        }
      }
    }
    b.tail(kEnd).write();
    replay();
    open_shown();
  }
}

}  // namespace
}  // namespace e4::journal
