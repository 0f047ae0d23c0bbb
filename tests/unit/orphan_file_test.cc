// SPDX-License-Identifier: GPL-2.0-only
// The orphan file must prove itself, and nothing that a damaged superblock
// points at is ever written.
#include "orphan/orphan_file.h"

#include <gtest/gtest.h>

#include "orphan/inode.h"
#include "tests/support/orphan_lab.h"

namespace e4::orphan {
namespace {

using testing_support::OrphanLab;
using testing_support::record_of;

constexpr Ino kOrphanFile = 12;
constexpr std::uint64_t kNow = 1'900'000'000;
constexpr const char* kOnPlain = "-b 4096 -t ext4 -O orphan_file,^metadata_csum,^metadata_csum_seed";

FileReport inspect(OrphanLab& lab) {
  FileReport report;
  lab.edit([&](Volume& v) { report = *inspect_orphan_file(v); });
  return report;
}

void name_inode(OrphanLab& lab, Ino ino) {
  lab.edit([&](Volume& v) { ASSERT_TRUE(v.set_orphan_file(ino, true)); });
}

TEST(OrphanFile, AsMadeByMke2fsItIsProved) {
  OrphanLab lab;
  const FileReport r = inspect(lab);
  EXPECT_EQ(r.faults, 0U);
  EXPECT_TRUE(r.proved());
  EXPECT_EQ(r.ino, kOrphanFile);
  EXPECT_EQ(r.blocks.size(), 32U);
}

TEST(OrphanFile, BlockWithoutMagicKeepsTheOthersWorkingAndIsRewritten) {
  OrphanLab lab;
  const Ino a = lab.unnamed_file(5000), b = lab.unnamed_file(5000);
  lab.put_slots(0, {a});
  lab.put_slots(2, {b});
  lab.damage_block(1, 4088, 0);
  EXPECT_EQ(inspect(lab).faults, std::uint32_t{kFileMagic});
  EXPECT_FALSE(inspect(lab).proved());
  EXPECT_TRUE(inspect(lab).repairable());
  EXPECT_EQ(lab.recover().totals.erased, 2U);
  EXPECT_EQ(lab.rewrite(), 1U);
  EXPECT_EQ(lab.fsck(), 0) << lab.fsck_text;
}

TEST(OrphanFile, StaleBlockChecksumIsPutRightWithTheEntries) {
  OrphanLab lab;
  const Ino a = lab.unnamed_file(5000);
  lab.put_slots(0, {a});
  lab.damage_block(0, 4092, 0x12345678);
  EXPECT_EQ(inspect(lab).faults, std::uint32_t{kFileBlockCsum});
  EXPECT_EQ(lab.recover().totals.erased, 1U);
  EXPECT_EQ(lab.fsck(), 0) << lab.fsck_text;
}

TEST(OrphanFile, ChecksumsFollowMetadataCsumBothWays) {
  OrphanLab lab(kOnPlain);
  lab.debugfs({"feature metadata_csum"});
  EXPECT_NE(inspect(lab).faults, 0U);
  OrphanLab off;
  off.edit([](Volume& v) {  // what tune2fs -O ^metadata_csum leaves: the old checksum
    const auto file = *inspect_orphan_file(v);
    store<le32>(v.overlay().edit(file.blocks[0].physical)->data(), 4092, 77U);
  });
  EXPECT_EQ(off.rewrite(), 1U);
  EXPECT_EQ(off.fsck(), 0) << off.fsck_text;
}

struct Target {
  const char* what;
  Ino ino;
  std::uint32_t fault;
};

TEST(OrphanFile, WhateverTheSuperblockNamesIsNotTouched) {
  OrphanLab lab;
  const Ino file = lab.file("user", 3 * 4096);
  lab.debugfs({"mkdir dir"});
  const Ino dir = lab.file("other", 100) - 1;
  for (const Target& t : {Target{"none", 0, kFileNoInode}, Target{"past the last", 0xFFFFFF, kFileNoInode},
                          Target{"journal", 8, kFileReserved}, Target{"root", 2, kFileReserved},
                          Target{"resize inode", 7, kFileReserved}, Target{"directory", dir, kFileNotRegular},
                          Target{"a user's file", file, kFileMagic}, Target{"free", 300, kFileFree}}) {
    name_inode(lab, t.ino);
    const FileReport r = inspect(lab);
    EXPECT_NE(r.faults & t.fault, 0U) << t.what;
    EXPECT_FALSE(r.proved()) << t.what;
    EXPECT_FALSE(r.repairable()) << t.what;
    lab.edit([&](Volume& v) {
      EXPECT_FALSE(rewrite_orphan_file(v, r)) << t.what;
      EXPECT_FALSE(drop_orphan_file(v, kNow)) << t.what;
      EXPECT_FALSE(resize_orphan_file(v, 8, kNow)) << t.what;
      EXPECT_EQ(v.overlay().dirty_count(), 0U) << t.what;
    });
    EXPECT_TRUE(lab.recover().plan.records.empty()) << t.what;
  }
  // Found again by what it is, not by its number.
  lab.edit([&](Volume& v) {
    EXPECT_EQ(*find_orphan_file(v), kOrphanFile);
    EXPECT_TRUE(v.set_orphan_file(kOrphanFile, true));
  });
  EXPECT_EQ(lab.fsck(), 0) << lab.fsck_text;
}

TEST(OrphanFile, NamedFileFullOfMagicIsAUsersFile) {
  OrphanLab lab;
  lab.debugfs({"ln <12> copy"});
  lab.put_slots(0, {lab.unnamed_file(5000)});
  const auto out = lab.recover();
  EXPECT_NE(out.plan.file.faults & kFileNamed, 0U);
  EXPECT_FALSE(out.plan.file.proved());
  EXPECT_EQ(out.totals.left, 1U);
}

TEST(OrphanFile, HoleOrShortMappingMakesItUnusable) {
  OrphanLab lab;
  lab.put_slots(0, {lab.unnamed_file(5000)});
  lab.edit_inode(kOrphanFile, [](auto raw) { set_size(raw, 33 * 4096); });
  EXPECT_EQ(inspect(lab).faults, std::uint32_t{kFileHole});
  EXPECT_TRUE(lab.recover().plan.records.empty());
}

TEST(OrphanFile, SizeThatIsNoMultipleIsRoundedDownAsTheKernelDoes) {
  OrphanLab lab;
  lab.put_slots(0, {lab.unnamed_file(5000)});
  lab.edit_inode(kOrphanFile, [](auto raw) { set_size(raw, 32 * 4096 - 7); });
  EXPECT_EQ(inspect(lab).faults, std::uint32_t{kFileSize});
  EXPECT_EQ(lab.recover().totals.erased, 1U);
}

TEST(OrphanFile, OtherDamageIsNamed) {
  OrphanLab lab;
  lab.edit_inode(kOrphanFile, [](auto raw) { set_size(raw, 0); });
  EXPECT_NE(inspect(lab).faults & kFileSize, 0U);
  lab.edit_inode(kOrphanFile, [](auto raw) {
    set_size(raw, 32 * 4096);
    store<le16>(raw.data(), 0x1A, 0U);
  });
  EXPECT_EQ(inspect(lab).faults, std::uint32_t{kFileLinks});
  lab.edit_inode(kOrphanFile, [](auto raw) { store<le32>(raw.data(), 0x20, kFlagInlineData); });
  EXPECT_NE(inspect(lab).faults & kFileFlags, 0U);
  lab.edit_inode(kOrphanFile, [](auto raw) { std::fill(raw.begin(), raw.end(), std::byte{0}); });
  EXPECT_NE(inspect(lab).faults & kFileNotRegular, 0U);
  lab.debugfs({"feature ^orphan_file", "feature orphan_present"});
  EXPECT_EQ(inspect(lab).faults, std::uint32_t{kFileNoFeature});
}

TEST(OrphanFile, AboveTheKernelsLimitItIsCalledTooBig) {
  OrphanLab lab("-b 4096 -t ext4 -O orphan_file,metadata_csum -E orphan_file_size=600", "64M");
  const FileReport r = inspect(lab);
  EXPECT_EQ(r.faults, std::uint32_t{kFileTooBig});
  EXPECT_EQ(r.blocks.size(), 600U);
  lab.edit([&](Volume& v) { ASSERT_TRUE(resize_orphan_file(v, 512, kNow)); });
  EXPECT_EQ(inspect(lab).faults, 0U);
  EXPECT_EQ(lab.fsck(), 0) << lab.fsck_text;
}

class OrphanFileEdit : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Formats, OrphanFileEdit,
                         ::testing::Values("-b 4096 -t ext4 -O orphan_file,metadata_csum", "-b 1024 -t ext4 -O orphan_file",
                                           "-b 1024 -t ext3 -O orphan_file", "-b 65536 -t ext4 -O orphan_file,metadata_csum",
                                           "-b 4096 -C 16384 -t ext4 -O bigalloc,orphan_file,metadata_csum"));

TEST_P(OrphanFileEdit, ResizeKeepsPendingEntries) {
  OrphanLab lab(GetParam(), "128M");
  const Ino a = lab.unnamed_file(5000), b = lab.unnamed_file(7000);
  lab.put_slots(0, {a});
  lab.put_slots(20, {b});
  for (const std::uint32_t blocks : {300U, 4U}) {
    lab.edit([&](Volume& v) {
      const std::uint32_t n = clamp_orphan_file_blocks(blocks, v.geo().block_bytes, v.geo().cluster_blocks);
      const auto done = resize_orphan_file(v, n, kNow);
      ASSERT_TRUE(done) << done.error().message();
    });
    EXPECT_EQ(inspect(lab).used_slots, 2U);
    EXPECT_TRUE(inspect(lab).proved());
  }
  EXPECT_EQ(lab.recover().totals.erased, 2U);
  EXPECT_EQ(lab.fsck(), 0) << lab.fsck_text;
}

TEST_P(OrphanFileEdit, DropAndCreateLeaveACleanImage) {
  OrphanLab lab(GetParam(), "128M");
  lab.put_slots(0, {lab.unnamed_file(5000)});
  lab.edit([](Volume& v) { EXPECT_EQ(drop_orphan_file(v, kNow).error().kind, ErrorKind::busy) << "an orphan waits in it"; });
  lab.recover();
  lab.edit([](Volume& v) { ASSERT_TRUE(drop_orphan_file(v, kNow)); });
  EXPECT_FALSE(inspect(lab).feature);
  EXPECT_EQ(lab.fsck(), 0) << lab.fsck_text;
  lab.edit([](Volume& v) { ASSERT_TRUE(create_orphan_file(v, 64, kNow)); });
  EXPECT_EQ(inspect(lab).blocks.size(), 64U);
  EXPECT_EQ(inspect(lab).faults, 0U);
  EXPECT_EQ(lab.fsck(), 0) << lab.fsck_text;
}

TEST(OrphanFileEdit, EntriesThatDoNotFitAreNotLost) {
  OrphanLab lab("-b 1024 -t ext4 -O orphan_file");
  lab.put_slots(0, std::vector<Ino>(200, 20));
  lab.put_slots(1, std::vector<Ino>(200, 20));
  lab.edit([](Volume& v) {
    EXPECT_EQ(resize_orphan_file(v, 1, kNow).error().kind, ErrorKind::usage);
    EXPECT_EQ(v.overlay().dirty_count(), 0U);
  });
  EXPECT_EQ(inspect(lab).used_slots, 400U);
}

TEST(OrphanFileEdit, SlotsAreClaimedAndCleared) {
  OrphanLab lab("-b 1024 -t ext4 -O orphan_file,metadata_csum");
  lab.edit([](Volume& v) {
    ASSERT_TRUE(resize_orphan_file(v, 1, kNow));
    for (std::uint32_t i = 0; i < slots_per_block(1024); ++i) {
      const auto place = claim_slot(v, *inspect_orphan_file(v), 100 + i);
      ASSERT_TRUE(place);
      EXPECT_EQ(place->slot, i);
    }
    EXPECT_EQ(claim_slot(v, *inspect_orphan_file(v), 99).error().kind, ErrorKind::no_space);
    EXPECT_TRUE(v.orphan_present());
    ASSERT_TRUE(clear_slot(v, *inspect_orphan_file(v), {0, 7}));
    EXPECT_EQ(claim_slot(v, *inspect_orphan_file(v), 99)->slot, 7U);
    EXPECT_EQ(inspect_orphan_file(v)->faults, 0U);
    EXPECT_FALSE(clear_slot(v, *inspect_orphan_file(v), {5, 0}));
  });
}

}  // namespace
}  // namespace e4::orphan
