// SPDX-License-Identifier: GPL-2.0-only
#include "journal/log.h"

#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "journal/committer.h"
#include "journal/fc_space.h"
#include "journal/file_map.h"
#include "journal/layout.h"
#include "journal/write_order.h"
#include "tests/support/log_image.h"

namespace e4::journal {
namespace {

using ::testing::HasSubstr;
using test::LogImage;
using test::LogOptions;

// Edits inode `ino` (its raw 128 bytes) of an image without checksums.
void edit_inode(LogImage& image, Ino ino, const std::function<void(ext2_inode&)>& change) {
  auto fs = image::Filsys::open(image.device);
  ASSERT_TRUE(fs);
  const std::size_t at = ext2fs_inode_table_loc(fs->raw(), 0) * fs->block_bytes() + (ino - 1) * EXT2_INODE_SIZE(&fs->super());
  ext2_inode inode{};
  std::memcpy(&inode, image.device.bytes.data() + at, sizeof inode);
  change(inode);
  std::memcpy(image.device.bytes.data() + at, &inode, sizeof inode);
}

void edit_super(LogImage& image, const std::function<void(ext2_super_block&)>& change) {
  ext2_super_block super{};
  std::memcpy(&super, image.device.bytes.data() + 1024, sizeof super);
  change(super);
  std::memcpy(image.device.bytes.data() + 1024, &super, sizeof super);
}

Result<Log> open(LogImage& image) {
  auto fs = image::Filsys::open(image.device);
  if (!fs) return fs.error();
  return Log::open(image.device, *fs);
}

// No second chance through s_jnl_blocks.
void drop_backup(LogImage& image) {
  edit_super(image, [](ext2_super_block& s) { s.s_jnl_backup_type = 0; });
}

TEST(JournalLog, RingWrapsInFrontOfTheFastCommitArea) {
  LogOptions o;
  o.incompat = kIncompatFastCommit;
  o.fast_commit_blocks = 64;
  o.journal_mib = 2;
  o.size = "16M";
  LogImage image(o);
  const Log& log = *image.log;
  EXPECT_EQ(log.super().ring_end(), 2048U - 64U);
  EXPECT_EQ(log.next(1983), 1U);
  EXPECT_EQ(log.advance(1980, 10), 7U);
  EXPECT_EQ(log.next(5), 6U);
}

TEST(JournalLog, ExternalJournalIsRefusedWithItsUuidAndDevice) {
  LogImage image;
  edit_super(image, [](ext2_super_block& s) {
    s.s_journal_inum = 0;
    s.s_journal_dev = 0x0811;
    for (std::uint8_t i = 0; i < 16; ++i) s.s_journal_uuid[i] = static_cast<std::uint8_t>(0xA0 + i);
  });
  const auto log = open(image);
  ASSERT_FALSE(log);
  EXPECT_EQ(log.error().kind, ErrorKind::incompatible);
  EXPECT_THAT(log.error().text, HasSubstr("a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf"));
  EXPECT_THAT(log.error().text, HasSubstr("8:17"));
  auto plan = image.plan();
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->verdict, Verdict::external);
  image::Overlay overlay(image.device, 1024);
  const auto committer = Committer::begin(std::move(*plan), overlay, {.empty_damaged_log = true});
  ASSERT_FALSE(committer) << "consent to empty a log is none to do without one elsewhere";
  EXPECT_EQ(committer.error().kind, ErrorKind::incompatible);
}

TEST(JournalLog, InodeAndDeviceAtOnceAreRefused) {
  LogImage image;
  edit_super(image, [](ext2_super_block& s) { s.s_journal_dev = 0x0811; });
  const auto log = open(image);
  ASSERT_FALSE(log);
  EXPECT_EQ(log.error().kind, ErrorKind::incompatible);
}

TEST(JournalLog, ImpossibleInodesAreRefused) {
  const auto refused = [](const std::function<void(ext2_inode&)>& change, const char* text) {
    LogImage image;
    drop_backup(image);
    edit_inode(image, 8, change);
    const auto log = open(image);
    ASSERT_FALSE(log) << text;
    EXPECT_EQ(log.error().ino, 8U) << text;
    EXPECT_THAT(log.error().message(), HasSubstr(text));
  };
  refused([](ext2_inode& i) { i.i_mode = LINUX_S_IFDIR; }, "not a regular file");
  refused([](ext2_inode& i) { i.i_links_count = 0; }, "no links");
  refused([](ext2_inode& i) { i.i_flags |= EXT4_ENCRYPT_FL; }, "encrypted");
  refused([](ext2_inode& i) { i.i_size = 1023 * 1024; }, "1023 blocks");
  // ee_start of the first extent: the superblock, then outside.
  refused([](ext2_inode& i) { i.i_block[5] = 1; }, "bad magic");
  refused([](ext2_inode& i) { i.i_block[5] = 8191; }, "outside the file system");
  refused([](ext2_inode& i) { i.i_block[1] = 6; }, "bad extent header");
  refused([](ext2_inode& i) { i.i_block[0] = (i.i_block[0] & 0xFFFF) | 5U << 16; }, "bad extent header");
}

TEST(JournalLog, HoleInTheLogIsRefused) {
  LogImage image;
  drop_backup(image);
  // The last extent in the root: one block short.
  edit_inode(image, 8, [](ext2_inode& i) {
    const std::uint32_t entries = i.i_block[0] >> 16;
    i.i_block[3 + (entries - 1) * 3 + 1] -= 1;
  });
  const auto log = open(image);
  ASSERT_FALSE(log);
  EXPECT_THAT(log.error().message(), HasSubstr("block 1023 of the log is not mapped"));
}

TEST(JournalLog, LogOnMetadataIsRefused) {
  LogImage image;
  drop_backup(image);
  auto fs = image::Filsys::open(image.device);
  ASSERT_TRUE(fs);
  const Blk bitmap = ext2fs_block_bitmap_loc(fs->raw(), 0);
  // A journal that starts right in front of the block bitmap.
  const SuperOnDisk raw = image.log->super().raw;
  std::memcpy(image.home(bitmap - 1), &raw, sizeof raw);
  edit_inode(image, 8, [&](ext2_inode& i) { i.i_block[5] = static_cast<std::uint32_t>(bitmap - 1); });
  const auto log = open(image);
  ASSERT_FALSE(log);
  EXPECT_THAT(log.error().message(), HasSubstr("metadata"));
}

TEST(JournalLog, DamagedInodeIsReplacedByTheCopyInTheSuperblock) {
  LogImage image;
  edit_inode(image, 8, [](ext2_inode& i) { i.i_mode = 0; });
  const auto log = open(image);
  ASSERT_TRUE(log) << log.error().message();
  EXPECT_TRUE(log->from_backup());
  EXPECT_EQ(log->physical(0), image.log->physical(0));
}

TEST(JournalLog, BlockMapsAreFollowedThroughEveryLevel) {
  LogOptions o;
  o.features = "^extents,^64bit,^metadata_csum,^orphan_file";
  LogImage image(o);
  EXPECT_GE(image.log->blocks(), 1024U);
  std::uint32_t covered = 0;
  for (const Log::Run& r : image.log->runs()) {
    EXPECT_EQ(r.log_block, covered);
    covered += r.blocks;
  }
  EXPECT_EQ(covered, image.log->blocks());
  auto fs = image::Filsys::open(image.device);
  for (const std::uint32_t n : {0U, 11U, 12U, 267U, 268U, 1023U}) {
    blk64_t theirs = 0;
    ASSERT_EQ(ext2fs_bmap2(fs->raw(), 8, nullptr, nullptr, 0, n, nullptr, &theirs), 0);
    EXPECT_EQ(image.log->physical(n), theirs) << n;
    EXPECT_TRUE(image.log->holds(theirs));
  }
}

TEST(JournalLog, OverlapIsSeenAtBothEnds) {
  LogImage image;
  const Log::Run run = image.log->runs()[0];
  EXPECT_TRUE(image.log->overlaps(run.physical, 1));
  EXPECT_TRUE(image.log->overlaps(run.physical + run.blocks - 1, 5));
  EXPECT_TRUE(image.log->overlaps(1, 8000));
  EXPECT_FALSE(image.log->overlaps(1, 1));
  EXPECT_FALSE(image.log->overlaps(image.data_block(0), 1000));
  EXPECT_TRUE(image.log->overlaps(run.physical - 3, 4));
  EXPECT_FALSE(image.log->overlaps(run.physical - 3, 3));
}

TEST(JournalFileMap, MappingBlockUsedTwiceIsNoEndlessWalk) {
  test::VectorDevice device(std::vector<std::byte>(1024 * 1024));
  std::vector<std::byte> i_block(60);
  // Triple indirect; block 20 points to itself everywhere.
  store<le32>(i_block.data(), 14 * 4, 20U);
  for (std::size_t at = 0; at < 1024; at += 4) store<le32>(device.bytes.data(), 20 * 1024 + at, 20U);
  const auto map = map_file(device, {.i_block = std::span<const std::byte, 60>(i_block), .ino = 8, .block_bytes = 1024, .fs_blocks = 1024});
  ASSERT_FALSE(map);
  EXPECT_EQ(map.error().kind, ErrorKind::corrupt);
  EXPECT_EQ(map.error().block, 20U);
}

TEST(JournalFileMap, ExtentTreeThatEntersItselfIsRefused) {
  test::VectorDevice device(std::vector<std::byte>(1024 * 1024));
  std::vector<std::byte> i_block(60);
  const auto node = [](std::byte* p, std::uint16_t entries, std::uint16_t max, std::uint16_t depth) {
    store<le16>(p, 0, 0xF30A);
    store<le16>(p, 2, entries);
    store<le16>(p, 4, max);
    store<le16>(p, 6, depth);
  };
  node(i_block.data(), 1, 4, 2);
  store<le32>(i_block.data(), 16, 30U);
  node(device.bytes.data() + 30 * 1024, 2, 84, 1);
  store<le32>(device.bytes.data(), 30 * 1024 + 16, 31U);
  store<le32>(device.bytes.data(), 30 * 1024 + 28, 31U);
  node(device.bytes.data() + 31 * 1024, 0, 84, 0);
  const auto map = map_file(device, {.i_block = std::span<const std::byte, 60>(i_block), .ino = 8, .block_bytes = 1024, .fs_blocks = 1024});
  ASSERT_FALSE(map);
  EXPECT_EQ(map.error().block, 31U);
}

TEST(JournalBlockSet, DifferenceIsExact) {
  BlockSet a, b;
  a.add(10, 10);
  a.add(15, 10);
  a.add(40, 1);
  b.add(0, 12);
  b.add(14, 2);
  b.add(24, 100);
  a.normalize();
  b.normalize();
  const auto rest = a.minus(b);
  ASSERT_EQ(rest.size(), 2U);
  EXPECT_EQ(rest[0].from, 12U);
  EXPECT_EQ(rest[0].blocks, 2U);
  EXPECT_EQ(rest[1].from, 16U);
  EXPECT_EQ(rest[1].blocks, 8U);
}

TEST(JournalExtentList, MapAndUnmapAgreeWithAPlainArray) {
  ExtentList list;
  std::vector<Blk> plain(300, 0);
  std::uint64_t x = 12345;
  const auto next = [&x](std::uint64_t n) {
    x = x * 6364136223846793005ULL + 1442695040888963407ULL;
    return (x >> 33) % n;
  };
  for (int round = 0; round < 3000; ++round) {
    const auto from = static_cast<Lblk>(next(280));
    const auto n = static_cast<std::uint32_t>(1 + next(20));
    if (next(3) == 0) {
      list.unmap(from, n);
      std::fill_n(plain.begin() + from, n, 0);
    } else {
      const Blk to = 1000 + next(40) * 10;
      list.map({.lblk = from, .blocks = n, .physical = to});
      for (std::uint32_t i = 0; i < n; ++i) plain[from + i] = to + i;
    }
    std::vector<Blk> seen(300, 0);
    std::uint64_t end = 0;
    for (const MappedExtent& e : list.list()) {
      ASSERT_GE(e.lblk, end);
      end = e.end();
      for (std::uint32_t i = 0; i < e.blocks; ++i) seen[e.lblk + i] = e.physical + i;
    }
    ASSERT_EQ(seen, plain);
  }
}

TEST(JournalWriteOrder, MapsComeFirstAndTheSuperblockLast) {
  LogOptions o;
  o.features = "orphan_file,^64bit,metadata_csum";
  LogImage image(o);
  auto fs = image::Filsys::open(image.device);
  ASSERT_TRUE(fs);
  const Blk bitmap = ext2fs_block_bitmap_loc(fs->raw(), 0), itable = ext2fs_inode_table_loc(fs->raw(), 0);
  blk64_t orphan = 0;
  ASSERT_EQ(ext2fs_bmap2(fs->raw(), fs->super().s_orphan_file_inum, nullptr, nullptr, 0, 0, nullptr, &orphan), 0);
  image::Overlay overlay(image.device, 1024);
  const auto steps = in_place_steps(overlay, {1, bitmap, itable, orphan, image.data_block(0)});
  std::vector<Blk> order;
  for (const auto& step : steps) order.insert(order.end(), step.begin(), step.end());
  EXPECT_THAT(order, ::testing::ElementsAre(bitmap, image.data_block(0), itable, orphan, 1));
}

}  // namespace
}  // namespace e4::journal
