// SPDX-License-Identifier: GPL-2.0-only
#include "mkfs/plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/units.h"
#include "mkfs/size.h"

namespace e4::mkfs {
namespace {

Wishes wish(std::string size, std::vector<std::string> features = {}, std::vector<std::string> extended = {}) {
  Wishes w;
  w.image = "x.img";
  w.size = std::move(size);
  w.features = std::move(features);
  w.extended = std::move(extended);
  return w;
}

bool has(const Plan& p, std::string_view name) {
  return std::ranges::count(image::feature_names(p.features), name) == 1;
}
bool noted(const Plan& p, std::string_view text) {
  return std::ranges::any_of(p.notes, [&](const std::string& n) { return n.find(text) != std::string::npos; });
}
std::string refusal(const Wishes& w, const Surroundings& world = {.now = 1}) {
  const auto p = plan(w, world);
  return p ? "" : p.error().text;
}

TEST(MkfsSize, SuffixesAreBinaryAndSectorsAre512Bytes) {
  EXPECT_EQ(parse_bytes("3", 4096).value(), 3 * 4096U);
  EXPECT_EQ(parse_bytes("3k", 4096).value(), 3 * kKiB);
  EXPECT_EQ(parse_bytes("3M", 1).value(), 3 * kMiB);
  EXPECT_EQ(parse_bytes("2049s", 1).value(), 2049U * 512);
  EXPECT_EQ(parse_bytes("16t", 1).value(), 16 * 1024 * kGiB);
}

TEST(MkfsSize, WhatIsNoSizeOrOverflowsIsRefused) {
  for (const char* text : {"", "k", "1x", "-1", "1kk", " 1", "0x10", "99999999999999999999", "9999999999999t"})
    EXPECT_FALSE(parse_bytes(text, 1024)) << text;
}

TEST(MkfsPlan, APlainSizeCountsKiBOrBlocksOfTheGivenSize) {
  EXPECT_EQ(plan(wish("65536"), {.now = 1})->blocks * 1024, 64 * kMiB);
  Wishes w = wish("65536");
  w.block_bytes = 4096;
  EXPECT_EQ(plan(w, {.now = 1})->blocks, 65536U);
}

TEST(MkfsPlan, SmallFileSystemsGetOneKiBBlocks) {
  EXPECT_EQ(plan(wish("511m"), {.now = 1})->block_bytes, 1024U);
  EXPECT_EQ(plan(wish("512m"), {.now = 1})->block_bytes, 4096U);
}

TEST(MkfsPlan, DefaultsAreWhatLinux618AndE2fsprogs1470Take) {
  const Plan p = plan(wish("1g"), {.now = 1}).value();
  EXPECT_EQ(image::feature_names(p.features),
            (std::vector<std::string>{"has_journal", "ext_attr", "resize_inode", "dir_index", "orphan_file", "filetype",
                                      "extent", "64bit", "flex_bg", "sparse_super", "large_file", "huge_file",
                                      "dir_nlink", "extra_isize", "metadata_csum"}));
  EXPECT_TRUE(p.notes.empty());
}

// Two blocks above 2^21 was a fault of e2fsprogs 1.47.4.
TEST(MkfsPlan, OrphanFileFollowsTheSizingRuleAndNeverExceedsTheKernelsLimit) {
  struct Row {
    const char* size;
    std::int64_t block;
    std::uint32_t blocks;
  };
  for (const Row& r : {Row{"511m", 4096, 32}, Row{"600m", 1024, 150}, Row{"600m", 2048, 75}, Row{"600m", 4096, 37},
                       Row{"600m", 65536, 32}, Row{"8191m", 4096, 511}, Row{"8192m", 4096, 512}, Row{"64g", 4096, 512},
                       Row{"4g", 1024, 512}, Row{"40g", 65536, 128}, Row{"1t", 65536, 128}, Row{"1t", 32768, 256}}) {
    Wishes w = wish(r.size);
    w.block_bytes = r.block;
    const Plan p = plan(w, {.now = 1}).value();
    EXPECT_EQ(p.orphan_file_blocks, r.blocks) << r.size << " at " << r.block;
    EXPECT_LE(std::uint64_t{p.orphan_file_blocks} * p.block_bytes, 8 * kMiB);
  }
}

TEST(MkfsPlan, AnExplicitOrphanFileSizeIsInBlocksOrBytesAndIsCutWithANote) {
  EXPECT_EQ(plan(wish("1g", {}, {"orphan_file_size=7"}), {.now = 1})->orphan_file_blocks, 7U);
  EXPECT_EQ(plan(wish("1g", {}, {"orphan_file_size=40k"}), {.now = 1})->orphan_file_blocks, 10U);
  EXPECT_EQ(plan(wish("1g", {}, {"orphan_file_size=16s"}), {.now = 1})->orphan_file_blocks, 2U);
  const Plan p = plan(wish("1g", {}, {"orphan_file_size=513"}), {.now = 1}).value();
  EXPECT_EQ(p.orphan_file_blocks, 512U);
  EXPECT_TRUE(noted(p, "513 blocks cut to 512"));
  for (const char* bad : {"orphan_file_size=0", "orphan_file_size=1k", "orphan_file_size=x", "orphan_file_size", "orphan_file_size="})
    EXPECT_NE(refusal(wish("1g", {}, {bad})).find("orphan_file_size"), std::string::npos) << bad;
}

TEST(MkfsPlan, OrphanFileIsRoundedToWholeClusters) {
  Wishes w = wish("1g", {"bigalloc"}, {"orphan_file_size=3"});
  w.block_bytes = 4096;
  w.cluster_bytes = "64k";
  EXPECT_EQ(plan(w, {.now = 1})->orphan_file_blocks, 16U);
}

TEST(MkfsPlan, OrphanFileWithoutJournalIsDroppedWhenDefaultAndRefusedWhenAskedFor) {
  const Plan p = plan(wish("1g", {"^has_journal"}), {.now = 1}).value();
  EXPECT_FALSE(has(p, "orphan_file"));
  EXPECT_EQ(p.orphan_file_blocks, 0U);
  EXPECT_TRUE(noted(p, "orphan_file left out"));
  for (const auto& w : {wish("1g", {"^has_journal", "orphan_file"}), wish("1g", {"orphan_file", "^has_journal"}),
                        wish("1g", {"^has_journal"}, {"orphan_file_size=8"}), wish("1m", {"orphan_file"})}) {
    const std::string why = refusal(w);
    EXPECT_NE(why.find("orphan_file"), std::string::npos);
    EXPECT_NE(why.find("journal"), std::string::npos) << why;
  }
}

TEST(MkfsPlan, OrphanFileSizeContradictingTheFeatureIsRefused) {
  EXPECT_NE(refusal(wish("1g", {"^orphan_file"}, {"orphan_file_size=8"})), "");
  EXPECT_NE(refusal(wish("1g", {"none", "has_journal", "extent"}, {"orphan_file_size=8"})), "");
}

TEST(MkfsPlan, AskingForTheSizeAsksForTheFile) {
  Wishes w = wish("1g", {}, {"orphan_file_size=8"});
  w.type = "ext3";
  EXPECT_TRUE(has(plan(w, {.now = 1}).value(), "orphan_file"));
}

TEST(MkfsPlan, OrphanPresentCannotBeSet) {
  EXPECT_NE(refusal(wish("1g", {"orphan_present"})).find("orphan_present"), std::string::npos);
  EXPECT_EQ(refusal(wish("1g", {"^orphan_present"})), "");
  EXPECT_NE(refusal(wish("1g", {"needs_recovery"})), "");
}

// Scripts switch features off that an older tool never had.
TEST(MkfsPlan, TakingAwayAnUnknownFeatureIsANoteAndAddingOneAnError) {
  for (const char* word : {"^no_such", "-no_such", "no_such"}) {
    const bool adds = std::string_view(word) == "no_such";  // "no_" in front: takes "such" away
    const auto p = plan(wish("1g", {word}), {.now = 1});
    ASSERT_TRUE(p) << word;
    EXPECT_TRUE(noted(*p, adds ? "'such'" : "'no_such'")) << word;
  }
  EXPECT_NE(refusal(wish("1g", {"such"})).find("'such'"), std::string::npos);
  EXPECT_NE(refusal(wish("1g", {"+such"})), "");
  EXPECT_NE(refusal(wish("1g", {"FEATURE_C20"})), "");
  EXPECT_TRUE(plan(wish("1g", {"^FEATURE_C20"}), {.now = 1}));
}

TEST(MkfsPlan, FeaturesCanBeTakenAwayWithoutACaret) {
  for (const char* word : {"^orphan_file", "-orphan_file", "no_orphan_file", "FEATURE_C12"}) {
    const bool named = std::string_view(word) == "FEATURE_C12";
    EXPECT_EQ(has(plan(wish("1g", {word}), {.now = 1}).value(), "orphan_file"), named) << word;
  }
  EXPECT_FALSE(has(plan(wish("1g", {"^FEATURE_C12"}), {.now = 1}).value(), "orphan_file"));
}

TEST(MkfsPlan, TheLastWordOfAFeatureWins) {
  EXPECT_TRUE(has(plan(wish("1g", {"^orphan_file", "orphan_file"}), {.now = 1}).value(), "orphan_file"));
  EXPECT_FALSE(has(plan(wish("1g", {"orphan_file", "^orphan_file"}), {.now = 1}).value(), "orphan_file"));
  EXPECT_EQ(image::feature_names(plan(wish("1g", {"none", "extent", "has_journal"}), {.now = 1})->features),
            (std::vector<std::string>{"has_journal", "extent"}));
}

TEST(MkfsPlan, NothingTheCheckerCallsUnsoundCanBeMade) {
  EXPECT_NE(refusal(wish("1g", {"^metadata_csum", "metadata_csum_seed"})).find("metadata_csum_seed"), std::string::npos);
  EXPECT_NE(refusal(wish("1g", {"meta_bg", "resize_inode"})).find("resize_inode"), std::string::npos);
  EXPECT_NE(refusal(wish("1g", {"^extent", "64bit"})).find("64bit"), std::string::npos);
  EXPECT_NE(refusal(wish("1g", {"^extent", "bigalloc"})).find("bigalloc"), std::string::npos);
  EXPECT_NE(refusal(wish("1g", {"^sparse_super", "resize_inode"})).find("resize_inode"), std::string::npos);
  EXPECT_NE(refusal(wish("1g", {"^has_journal", "fast_commit"})).find("fast_commit"), std::string::npos);
  EXPECT_FALSE(has(plan(wish("1g", {"^extent"}), {.now = 1}).value(), "64bit"));
  EXPECT_FALSE(has(plan(wish("1g", {"meta_bg"}), {.now = 1}).value(), "resize_inode"));
}

TEST(MkfsPlan, AnOlderReaderGetsAnImageItCanUseAndTheUserHearsWhatWasLeftOut) {
  Wishes w = wish("1g");
  w.readers = {"e2fsprogs-1.46.2"};
  const Plan p = plan(w, {.now = 1}).value();
  EXPECT_FALSE(has(p, "orphan_file"));
  EXPECT_TRUE(has(p, "metadata_csum"));
  EXPECT_TRUE(noted(p, "for e2fsprogs-1.46.2 left out: orphan_file"));
  w.readers = {"linux-5.10"};
  EXPECT_FALSE(has(plan(w, {.now = 1}).value(), "orphan_file"));
  w.readers = {"linux-3.2"};
  EXPECT_FALSE(has(plan(w, {.now = 1}).value(), "metadata_csum"));
  w.readers = {"linux-6.18", "e2fsprogs-1.47.0", "grub-2.06"};
  EXPECT_TRUE(plan(w, {.now = 1})->notes.empty());
  w.features = {"metadata_csum_seed"};
  EXPECT_NE(refusal(w).find("grub-2.06 cannot use it"), std::string::npos);
  w.readers = {"windows-11"};
  EXPECT_NE(refusal(w), "");
}

TEST(MkfsPlan, SizesOutsideTheFormatAreRefused) {
  const auto with = [](auto set) {
    Wishes w = wish("1g");
    set(w);
    return refusal(w);
  };
  EXPECT_NE(with([](Wishes& w) { w.block_bytes = 3000; }), "");
  EXPECT_NE(with([](Wishes& w) { w.block_bytes = 512; }), "");
  EXPECT_NE(with([](Wishes& w) { w.block_bytes = 131072; }), "");
  EXPECT_NE(with([](Wishes& w) { w.block_bytes = INT64_MIN; }), "");
  EXPECT_NE(with([](Wishes& w) { w.group_blocks = UINT64_MAX; }), "");
  EXPECT_NE(with([](Wishes& w) { w.inodes = UINT64_MAX; }), "");
  EXPECT_NE(with([](Wishes& w) { w.size = "9223372036854775807s"; }), "");
  EXPECT_NE(with([](Wishes& w) { w.extended = {"offset=9223372036854775807"}; }), "");
  EXPECT_NE(with([](Wishes& w) { w.extended = {"resize=9223372036854775807"}; }), "");
  EXPECT_NE(with([](Wishes& w) { w.journal = {"location=9223372036854775807"}; }), "");
  EXPECT_NE(with([](Wishes& w) { w.cluster_bytes = "64k"; }), "");
  EXPECT_NE(with([](Wishes& w) { w.inode_bytes = 8192; }), "");
  EXPECT_NE(with([](Wishes& w) { w.inode_bytes = 200; }), "");
  EXPECT_NE(with([](Wishes& w) { w.group_blocks = 100; }), "");
  EXPECT_NE(with([](Wishes& w) { w.group_blocks = 1U << 20; }), "");
  EXPECT_NE(with([](Wishes& w) { w.flex_groups = 3; }), "");
  EXPECT_NE(with([](Wishes& w) { w.reserved_percent = 51; }), "");
  EXPECT_NE(with([](Wishes& w) { w.reserved_percent = -1; }), "");
  EXPECT_NE(with([](Wishes& w) { w.inode_ratio = "100"; }), "");
  EXPECT_NE(with([](Wishes& w) { w.inodes = 100000000; }), "");
  EXPECT_NE(with([](Wishes& w) { w.size = "0"; }), "");
  EXPECT_NE(with([](Wishes& w) { w.type = "xfs"; }), "");
  EXPECT_NE(with([](Wishes& w) { w.usage = {"gigantic"}; }), "");
  EXPECT_NE(with([](Wishes& w) { w.errors = "ignore"; }), "");
  EXPECT_NE(with([](Wishes& w) { w.uuid = "foo"; }), "");
  EXPECT_NE(with([](Wishes& w) { w.extended = {"foo"}; }), "");
  EXPECT_NE(with([](Wishes& w) { w.journal = {"size=1"}; }), "");
  EXPECT_NE(with([](Wishes& w) { w.journal = {"size=900"}; }), "");
  EXPECT_NE(with([](Wishes& w) { w.journal = {"device=/dev/x"}; }), "");
}

TEST(MkfsPlan, AMissingFileNeedsASizeAndADeviceMustHoldIt) {
  Wishes w = wish("1g");
  w.size.reset();
  EXPECT_NE(refusal(w).find("does not exist and no size was specified"), std::string::npos);
  EXPECT_EQ(plan(w, {.exists = true, .target_bytes = 64 * kMiB, .now = 1})->blocks, 65536U);
  EXPECT_NE(refusal(wish("1g"), {.exists = true, .block_device = true, .target_bytes = 64 * kMiB, .now = 1}), "");
}

TEST(MkfsPlan, MoreThan32BitsOfBlocksGoWithoutResizeInode) {
  Wishes w = wish("17t");
  w.block_bytes = 4096;
  const Plan p = plan(w, {.now = 1}).value();
  EXPECT_FALSE(has(p, "resize_inode"));
  EXPECT_EQ(p.orphan_file_blocks, 512U);
  w.features = {"^64bit"};
  EXPECT_NE(refusal(w), "");
}

TEST(MkfsPlan, TheSameWishesAtAFixedTimeGiveTheSamePlanWhateverTheRandomNumbers) {
  Wishes w = wish("1g");
  w.uuid = "12345678-9abc-def0-1234-56789abcdef0";
  Surroundings a{.now = 7, .time_is_fixed = true}, b = a;
  a.random_hash_seed.fill(1);
  b.random_hash_seed.fill(2);
  EXPECT_EQ(plan(w, a)->hash_seed, plan(w, b)->hash_seed);
  a.time_is_fixed = b.time_is_fixed = false;
  EXPECT_NE(plan(w, a)->hash_seed, plan(w, b)->hash_seed);
  w.extended = {"hash_seed=12345678-9abc-def0-1234-56789abcdef0"};
  EXPECT_EQ(format_uuid(plan(w, a)->hash_seed), "12345678-9abc-def0-1234-56789abcdef0");
}

TEST(MkfsPlan, UuidCanBeClearedRandomOrOfTheTime) {
  Wishes w = wish("1g");
  Surroundings world{.now = 1700000000};
  world.random_uuid.fill(0xAB);
  EXPECT_EQ(plan(w, world)->uuid, world.random_uuid);
  w.uuid = "random";
  EXPECT_EQ(plan(w, world)->uuid, world.random_uuid);
  w.uuid = "clear";
  EXPECT_EQ(plan(w, world)->uuid, Uuid{});
  w.uuid = "time";
  const std::string text = format_uuid(plan(w, world)->uuid);
  EXPECT_EQ(text.substr(0, 18), "04afc000-833b-11ee") << text;
}

TEST(MkfsPlan, LabelsThatAreTooLongAreCutWithANote) {
  Wishes w = wish("1g");
  w.label = "0123456789abcdefgh";
  const Plan p = plan(w, {.now = 1}).value();
  EXPECT_EQ(p.label, "0123456789abcdef");
  EXPECT_TRUE(noted(p, "label too long"));
}

TEST(MkfsPlan, FastCommitAreaIsA64thOfTheDefaultJournalUnlessGiven) {
  Wishes w = wish("200m", {"fast_commit"});
  EXPECT_EQ(plan(w, {.now = 1})->journal.fast_commit_blocks, 64U);
  w.journal = {"fast_commit_size=100"};
  EXPECT_EQ(plan(w, {.now = 1})->journal.fast_commit_blocks, 100U);
  w.features.clear();
  EXPECT_NE(refusal(w).find("fast_commit"), std::string::npos);
}

}  // namespace
}  // namespace e4::mkfs
