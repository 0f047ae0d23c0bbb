// SPDX-License-Identifier: GPL-2.0-only
// Entries that are not what they should be: each rule once, on a real image
// that e2fsck then calls clean, or that is left exactly as it was.
#include <gtest/gtest.h>

#include "orphan/inode.h"
#include "tests/support/orphan_lab.h"

namespace e4::orphan {
namespace {

using testing_support::OrphanLab;
using testing_support::record_of;

constexpr Ino kOrphanFile = 12;
constexpr const char* kOnCsum = "-b 4096 -t ext4 -O orphan_file,metadata_csum";
constexpr const char* kOnPlain = "-b 4096 -t ext4 -O orphan_file,^metadata_csum,^metadata_csum_seed";
constexpr const char* kOnSmall = "-b 1024 -t ext4 -O orphan_file,^metadata_csum,^extent,^64bit,^flex_bg";

std::string format_name(const ::testing::TestParamInfo<const char*>& info) {
  constexpr const char* kNames[] = {"Csum", "NoCsum", "BlockMap1k"};
  return kNames[info.index];
}

class OrphanEntry : public ::testing::TestWithParam<const char*> {
 protected:
  OrphanLab lab{GetParam()};
  void expect_clean() { EXPECT_EQ(lab.fsck(), 0) << lab.fsck_text; }
};
INSTANTIATE_TEST_SUITE_P(Formats, OrphanEntry, ::testing::Values(kOnCsum, kOnPlain, kOnSmall),
                         format_name);

TEST_P(OrphanEntry, DeletedFileGivesBackItsBlocks) {
  const Ino ino = lab.unnamed_file(300000);
  lab.put_slots(0, {ino});
  const auto out = lab.recover();
  EXPECT_EQ(out.totals.erased, 1U);
  EXPECT_EQ(record_of(out.plan, ino).back_bytes, out.totals.freed_bytes);
  EXPECT_GE(out.totals.freed_bytes, 300000U);
  expect_clean();
}

TEST_P(OrphanEntry, OutOfRangeIsReportedDroppedAndTheOthersGoOn) {
  const Ino ino = lab.unnamed_file(5000);
  lab.put_slots(0, {0xFFFFFF, ino});
  const auto out = lab.recover();
  EXPECT_EQ(record_of(out.plan, 0xFFFFFF).reasons, kRange);
  EXPECT_EQ(record_of(out.plan, 0xFFFFFF).action, Action::drop);
  EXPECT_EQ(out.totals.erased, 1U);
  EXPECT_EQ(out.totals.dropped, 1U);
  expect_clean();
}

TEST_P(OrphanEntry, ReservedInodesAndTheOrphanFileAreNeverTouched) {
  lab.put_slots(0, {2, 8, 11, kOrphanFile});
  const auto out = lab.recover();
  EXPECT_EQ(record_of(out.plan, 2).reasons, kReserved);
  EXPECT_EQ(record_of(out.plan, 8).reasons, kReserved);
  EXPECT_EQ(record_of(out.plan, kOrphanFile).reasons, kSpecial);
  EXPECT_EQ(record_of(out.plan, 11).action, Action::drop);
  EXPECT_EQ(out.totals.dropped, 4U);
  EXPECT_EQ(out.totals.erased + out.totals.truncated, 0U);
  expect_clean();
}

TEST_P(OrphanEntry, FreeInodeIsNotFreedAgain) {
  lab.put_slots(0, {200});
  const auto out = lab.recover();
  EXPECT_EQ(record_of(out.plan, 200).reasons, kFree);
  EXPECT_EQ(out.totals.dropped, 1U);
  expect_clean();
}

TEST_P(OrphanEntry, SameInodeTwiceIsReleasedOnce) {
  const Ino ino = lab.unnamed_file(5000);
  lab.put_slots(0, {ino});
  lab.put_slots(1, {ino});
  const auto out = lab.recover();
  EXPECT_EQ(record_of(out.plan, ino, 1).reasons, kDuplicate);
  EXPECT_EQ(out.totals.erased, 1U);
  EXPECT_EQ(out.totals.dropped, 1U);
  expect_clean();
}

TEST_P(OrphanEntry, OnListAndInFileIsReleasedOnce) {
  const Ino ino = lab.unnamed_file(5000);
  lab.put_slots(0, {ino});
  lab.set_list_head(ino);
  const auto out = lab.recover();
  EXPECT_EQ(record_of(out.plan, ino).source, Source::list);
  EXPECT_EQ(record_of(out.plan, ino, 1).reasons, kDuplicate);
  EXPECT_EQ(out.totals.erased, 1U);
  expect_clean();
}

TEST_P(OrphanEntry, DeletionTimeOfAFileEntryIsNoPointer) {
  const Ino large = lab.unnamed_file(5000), small = lab.unnamed_file(5000);
  lab.edit_inode(large, [](auto raw) { set_dtime(raw, 1700000000); });
  lab.edit_inode(small, [](auto raw) { set_dtime(raw, 2); });
  lab.put_slots(0, {large, small});
  EXPECT_EQ(lab.recover().totals.erased, 2U);
  expect_clean();
}

TEST_P(OrphanEntry, FileIsReadThoughOrphanPresentIsClear) {
  const Ino ino = lab.unnamed_file(5000);
  lab.put_slots(0, {ino}, false);
  EXPECT_EQ(lab.recover().totals.erased, 1U);
  expect_clean();
}

TEST_P(OrphanEntry, EmptyFileOnlyLosesTheFlag) {
  lab.put_slots(0, {}, true);
  const auto out = lab.recover();
  EXPECT_TRUE(out.plan.records.empty());
  EXPECT_FALSE(lab.classify().file.present);
  expect_clean();
}

TEST_P(OrphanEntry, LinkedFileIsCutAtItsSizeAndItsTailZeroed) {
  const Ino ino = lab.file("kept", 100000);
  const Blk block = lab.first_block(ino);
  lab.edit_inode(ino, [](auto raw) { set_size(raw, 700); });
  lab.put_slots(0, {ino});
  const auto out = lab.recover();
  EXPECT_EQ(record_of(out.plan, ino).action, Action::truncate);
  EXPECT_EQ(record_of(out.plan, ino).back_bytes, out.totals.freed_bytes);
  EXPECT_EQ(out.totals.truncated, 1U);
  lab.edit([&](Volume& v) {
    const auto data = v.overlay().view(block);
    for (std::size_t i = 700; i < v.geo().block_bytes; ++i) ASSERT_EQ((*data)[i], std::byte{0}) << i;
    EXPECT_EQ((*data)[699], std::byte('a' + 699 % 23));
  });
  expect_clean();
}

TEST_P(OrphanEntry, ErrorFlagDoesNotKeepATruncateFromBeingFinished) {
  const Ino ino = lab.file("kept", 40000);
  lab.edit_inode(ino, [](auto raw) { set_size(raw, 5000); });
  lab.put_slots(0, {ino});
  lab.debugfs({"ssv state 3"});
  EXPECT_EQ(lab.recover().totals.truncated, 1U);
  EXPECT_NE(lab.fsck(), 8);
  EXPECT_EQ(lab.fsck_text.find("i_size"), std::string::npos) << lab.fsck_text;
}

TEST_P(OrphanEntry, LinkedFileCoveredByItsSizeIsOnlyDropped) {
  const Ino ino = lab.file("kept", 8192);
  lab.put_slots(0, {ino});
  const auto out = lab.recover();
  EXPECT_EQ(record_of(out.plan, ino).reasons, kCovered);
  EXPECT_EQ(out.totals.dropped, 1U);
  expect_clean();
}

TEST_P(OrphanEntry, VerityFileIsNeverCut) {
  const Ino ino = lab.file("kept", 40000);
  lab.edit_inode(ino, [](auto raw) {
    set_size(raw, 5000);
    store<le32>(raw.data(), 0x20, load<le32>(raw.data(), 0x20) | kFlagVerity);
  });
  lab.put_slots(0, {ino});
  const auto out = lab.recover();
  EXPECT_EQ(record_of(out.plan, ino).reasons, kVerity);
  EXPECT_EQ(out.totals.freed_bytes, 0U);
}

TEST_P(OrphanEntry, NamedFileWithoutLinksKeepsItsDataAndGetsItsLinksBack) {
  const Ino ino = lab.file("kept", 40000);
  lab.edit_inode(ino, [](auto raw) { store<le16>(raw.data(), 0x1A, 0U); });
  lab.put_slots(0, {ino});
  const auto out = lab.recover();
  EXPECT_EQ(record_of(out.plan, ino).action, Action::fix_links);
  EXPECT_EQ(out.plan.paths.at(ino), std::vector<std::string>{"/kept"});
  EXPECT_EQ(out.totals.relinked, 1U);
  expect_clean();
}

TEST_P(OrphanEntry, NonEmptyDirectoryIsNeverDiscarded) {
  lab.debugfs({"mkdir d"});
  const Ino dir = lab.file("d/inside", 100) - 1;
  lab.debugfs({"sif d links_count 0", "unlink d"});
  lab.put_slots(0, {dir});
  const auto out = lab.recover();
  EXPECT_EQ(record_of(out.plan, dir).reasons, kNotEmpty);
  EXPECT_EQ(out.totals.left, 1U);
  EXPECT_EQ(lab.classify().file.used_slots, 1U) << "the entry stays with its inode";
}

TEST_P(OrphanEntry, EmptyDirectoryGoesAndTheGroupCountsOneLess) {
  lab.debugfs({"mkdir d"});
  const Ino dir = lab.file("x", 100) - 1;
  lab.debugfs({"sif d links_count 0", "unlink d", "sif <2> links_count 3"});
  lab.put_slots(0, {dir});
  EXPECT_EQ(lab.recover().totals.erased, 1U);
  expect_clean();
}

TEST_P(OrphanEntry, BlockThatAnotherFileHoldsIsNotFreed) {
  const Ino kept = lab.file("kept", 9000), doomed = lab.unnamed_file(9000), alone = lab.unnamed_file(9000);
  lab.edit([&](Volume& v) {
    // The doomed inode maps what the kept one maps.
    std::vector<std::byte> i_block(60);
    const auto from = InodeTable(v).view(kept);
    std::copy_n(from->begin() + 0x28, 60, i_block.begin());
    const auto to = InodeTable(v).edit(doomed);
    std::copy(i_block.begin(), i_block.end(), to->begin() + 0x28);
    seal_inode(v.geo(), doomed, *to);
  });
  lab.put_slots(0, {doomed, alone});
  const Blk block = lab.first_block(kept);
  const auto before = lab.content(block);
  const auto out = lab.recover();
  EXPECT_EQ(record_of(out.plan, doomed).reasons, kShared);
  EXPECT_EQ(record_of(out.plan, doomed).action, Action::leave);
  EXPECT_EQ(out.totals.erased, 1U) << "the other orphan goes";
  EXPECT_EQ(out.totals.left, 1U);
  EXPECT_EQ(lab.content(block), before);
  EXPECT_TRUE(lab.classify().file.present);
}

TEST_P(OrphanEntry, NothingWithBlocksGoesWhileAnotherInodeIsUnreadable) {
  const Ino broken = lab.file("broken", 9000), doomed = lab.unnamed_file(9000), empty = lab.unnamed_file(0);
  lab.edit_inode(broken, [](auto raw) { store<le32>(raw.data(), 0x28, 0x7FFFFFFFU); });
  lab.put_slots(0, {doomed, empty});
  const auto out = lab.recover();
  EXPECT_EQ(record_of(out.plan, doomed).reasons, kUnproved);
  EXPECT_EQ(record_of(out.plan, empty).action, Action::erase);
  EXPECT_FALSE(out.plan.ownership_proved);
  EXPECT_NE(out.plan.obstacles.at(0).find("inode " + std::to_string(broken)), std::string::npos);
}

TEST(OrphanEntryCsum, InodeWithAWrongChecksumStaysForTheFullCheck) {
  OrphanLab lab(kOnCsum);
  const Ino ino = lab.unnamed_file(5000);
  lab.edit([&](Volume& v) { (*InodeTable(v).edit(ino))[0x64] ^= std::byte{1}; });
  lab.put_slots(0, {ino});
  const auto out = lab.recover();
  EXPECT_EQ(record_of(out.plan, ino).reasons, kCsum);
  EXPECT_EQ(out.totals.left, 1U);
}

class OrphanList : public OrphanEntry {};
INSTANTIATE_TEST_SUITE_P(Formats, OrphanList, ::testing::Values(kOnCsum, kOnPlain, kOnSmall),
                         format_name);

TEST_P(OrphanList, ChainIsReleasedHeadFirst) {
  const Ino a = lab.unnamed_file(5000), b = lab.unnamed_file(70000), c = lab.unnamed_file(0);
  lab.edit_inode(a, [&](auto raw) { set_dtime(raw, b); });
  lab.edit_inode(b, [&](auto raw) { set_dtime(raw, c); });
  lab.set_list_head(a);
  const auto out = lab.recover();
  EXPECT_EQ(out.plan.list.inodes, (std::vector<Ino>{a, b, c}));
  EXPECT_EQ(out.totals.erased, 3U);
  expect_clean();
}

TEST_P(OrphanList, LoopIsCalledALoop) {
  const Ino a = lab.unnamed_file(5000), b = lab.unnamed_file(5000);
  lab.edit_inode(a, [&](auto raw) { set_dtime(raw, b); });
  lab.edit_inode(b, [&](auto raw) { set_dtime(raw, a); });
  lab.set_list_head(a);
  const auto out = lab.recover();
  EXPECT_EQ(out.plan.list.end, ListReport::End::loop);
  EXPECT_EQ(record_of(out.plan, a, 1).reasons, kLoop);
  EXPECT_EQ(out.totals.erased, 2U);
  expect_clean();
}

TEST_P(OrphanList, BadHeadIsDroppedAndNothingTouched) {
  for (const Ino head : {Ino{2}, Ino{8}, Ino{0xFFFFFF}, Ino{200}}) {
    lab.set_list_head(head);
    const auto out = lab.recover();
    EXPECT_EQ(out.totals.dropped, 1U) << head;
    EXPECT_EQ(out.totals.erased + out.totals.truncated, 0U) << head;
    expect_clean();
  }
}

TEST_P(OrphanList, ARealDeletionTimeEndsTheChain) {
  const Ino a = lab.unnamed_file(5000);
  lab.edit_inode(a, [](auto raw) { set_dtime(raw, 1700000000); });
  lab.set_list_head(a);
  const auto out = lab.recover();
  EXPECT_EQ(record_of(out.plan, 1700000000).reasons, kRange | kBadNext);
  EXPECT_EQ(out.totals.erased, 1U);
  expect_clean();
}

TEST_P(OrphanList, MemberThatStaysIsStillLinked) {
  lab.debugfs({"mkdir d"});
  const Ino dir = lab.file("d/inside", 100) - 1;
  lab.debugfs({"sif d links_count 0", "unlink d"});
  const Ino a = lab.unnamed_file(5000), b = lab.unnamed_file(5000);
  lab.edit_inode(a, [&](auto raw) { set_dtime(raw, dir); });
  lab.edit_inode(dir, [&](auto raw) { set_dtime(raw, b); });
  lab.set_list_head(a);
  EXPECT_EQ(lab.recover().totals.erased, 2U);
  const auto after = lab.classify();
  EXPECT_EQ(after.list.inodes, std::vector<Ino>{dir});
  EXPECT_EQ(after.list.end, ListReport::End::clean);
}

}  // namespace
}  // namespace e4::orphan
