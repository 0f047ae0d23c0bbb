// SPDX-License-Identifier: GPL-2.0-only
#include "image/features.h"

#include <gtest/gtest.h>

#include <bit>

namespace e4::image {
namespace {

TEST(Features, EveryKnownNameParsesBackToItsOwnBit) {
  for (const Feature& f : known_features()) {
    EXPECT_EQ(std::popcount(f.mask), 1) << f.name;
    const auto bit = parse_feature(f.name);
    ASSERT_TRUE(bit) << f.name;
    EXPECT_EQ(*bit, (FeatureBit{f.word, f.mask})) << f.name;
    EXPECT_EQ(feature_name(*bit), f.name);
  }
}

TEST(Features, UnknownBitsArePrintedAndParsedByWordAndNumber) {
  EXPECT_EQ(feature_name({FeatureWord::compat, 1u << 20}), "FEATURE_C20");
  EXPECT_EQ(feature_name({FeatureWord::ro_compat, 1u << 31}), "FEATURE_R31");
  EXPECT_EQ(parse_feature("FEATURE_I5"), (FeatureBit{FeatureWord::incompat, 1u << 5}));
  EXPECT_FALSE(parse_feature("FEATURE_I32"));
  EXPECT_FALSE(parse_feature("FEATURE_X1"));
  EXPECT_FALSE(parse_feature("FEATURE_C1x"));
  EXPECT_FALSE(parse_feature("FEATURE_C"));
  EXPECT_FALSE(parse_feature(""));
}

TEST(Features, AKnownBitInNumberFormHasItsRealName) {
  const auto bit = parse_feature("FEATURE_C12");
  ASSERT_TRUE(bit);
  EXPECT_EQ(feature_name(*bit), "orphan_file");
}

TEST(Features, AliasesMeanTheFeatureE2fsprogsMeans) {
  EXPECT_EQ(parse_feature("extents"), parse_feature("extent"));
  EXPECT_EQ(parse_feature("gdt_csum"), parse_feature("uninit_bg"));
}

TEST(Features, NamesComeInTheOrderOfDumpe2fs) {
  const FeatureBits bits{.compat = 0x1004, .incompat = 0x2, .ro_compat = 0x10000};
  EXPECT_EQ(feature_names(bits),
            (std::vector<std::string>{"has_journal", "orphan_file", "filetype", "orphan_present"}));
}

Reading reads(const char* reader, const char* feature) {
  const auto r = parse_reader(reader);
  const auto bit = parse_feature(feature);
  return r && bit ? reading_of(*r, *find_feature(*bit)) : Reading::refused;
}

TEST(Features, AReaderIsANameAndAVersion) {
  EXPECT_EQ(parse_reader("linux-5.10")->version, (std::vector<unsigned>{5, 10}));
  for (const char* bad : {"linux", "linux-", "linux-x", "linux-5.", "linux-5..1", "bsd-14", "-5", ""})
    EXPECT_FALSE(parse_reader(bad)) << bad;
}

TEST(Features, KernelsIgnoreUnknownCompatBitsAndReadOnlyWhereRoCompatIsUnknown) {
  EXPECT_EQ(reads("linux-5.10", "orphan_file"), Reading::full);
  EXPECT_EQ(reads("linux-5.10", "orphan_present"), Reading::read_only);
  EXPECT_EQ(reads("linux-5.15", "orphan_present"), Reading::full);
  EXPECT_EQ(reads("linux-4.3", "metadata_csum_seed"), Reading::refused);
}

TEST(Features, E2fsprogsRefusesEveryBitItDoesNotKnow) {
  EXPECT_EQ(reads("e2fsprogs-1.46.6", "orphan_file"), Reading::refused);
  EXPECT_EQ(reads("e2fsprogs-1.47.0", "orphan_file"), Reading::full);
  EXPECT_EQ(reads("e2fsprogs-1.47", "has_journal"), Reading::full);
  EXPECT_EQ(reads("e2fsprogs-1.47.4", "compression"), Reading::refused);
}

TEST(Features, GrubLooksAtIncompatBitsOnly) {
  EXPECT_EQ(reads("grub-2.06", "metadata_csum"), Reading::full);
  EXPECT_EQ(reads("grub-2.06", "metadata_csum_seed"), Reading::refused);
  EXPECT_EQ(reads("grub-2.12", "metadata_csum_seed"), Reading::full);
  EXPECT_EQ(reads("grub-2.06", "64bit"), Reading::full);
}

}  // namespace
}  // namespace e4::image
