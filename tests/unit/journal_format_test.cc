// SPDX-License-Identifier: GPL-2.0-only
#include "journal/format.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "base/crc32c.h"
#include "base/random.h"
#include "journal/commit.h"
#include "journal/crc32_be.h"
#include "journal/descriptor.h"
#include "journal/fast_commit_format.h"
#include "journal/log_writer.h"
#include "journal/revoke.h"
#include "journal/superblock.h"

namespace e4::journal {
namespace {

constexpr std::array<std::uint8_t, 16> kUuid = {0x13, 0x51, 0xe3, 0x22, 0xd1, 0x70, 0x4e, 0x0a,
                                                0x9d, 0x1a, 0x1e, 0xb6, 0x7d, 0x4f, 0x11, 0xc9};

LogFormat format(Checksums checksums, bool wide, std::uint32_t block_bytes = 4096) {
  return {.block_bytes = block_bytes, .checksums = checksums, .wide = wide, .seed = crc32c(~0U, kUuid.data(), 16)};
}

std::span<const std::byte> bytes_of(const SuperOnDisk& raw) { return std::as_bytes(std::span(&raw, 1)); }

TEST(JournalFormat, SeedIsTheRawCrcOfTheUuid) { EXPECT_EQ(crc32c(~0U, kUuid.data(), 16), 0xa861e83cU); }

TEST(JournalFormat, TagSizesFollowTheFeatures) {
  EXPECT_EQ(format(Checksums::none, false).tag_bytes(), 8U);
  EXPECT_EQ(format(Checksums::v1, true).tag_bytes(), 12U);
  EXPECT_EQ(format(Checksums::v2, false).tag_bytes(), 10U);
  EXPECT_EQ(format(Checksums::v2, true).tag_bytes(), 14U);
  EXPECT_EQ(format(Checksums::v3, false).tag_bytes(), 16U);
  EXPECT_EQ(format(Checksums::v3, true).tag_bytes(), 16U);
}

TEST(JournalCrc32Be, KnownValue) {
  const char* text = "123456789";
  // CRC-32/MPEG-2.
  EXPECT_EQ(crc32_be(~0U, std::as_bytes(std::span(text, 9))), 0x0376E6E7U);
}

TEST(JournalCrc32Be, SplitAnywhereIsTheSame) {
  std::array<std::byte, 64> data{};
  Random random(5);
  for (auto& b : data) b = static_cast<std::byte>(random.below(256));
  const std::uint32_t whole = crc32_be(~0U, data);
  for (std::size_t cut = 0; cut <= data.size(); ++cut) {
    EXPECT_EQ(crc32_be(crc32_be(~0U, std::span(data).first(cut)), std::span(data).subspan(cut)), whole);
  }
}

TEST(JournalDescriptor, TagsReadBackAsWritten) {
  for (const Checksums c : {Checksums::none, Checksums::v1, Checksums::v2, Checksums::v3}) {
    for (const bool wide : {false, true}) {
      const LogFormat f = format(c, wide);
      std::vector<Tag> tags;
      for (std::uint32_t i = 0; i < f.tags_per_descriptor(); ++i) {
        tags.push_back({.block = (wide ? 0x500000000ULL : 0) + i * 7, .flags = i % 3 == 0 ? kTagEscape : 0, .checksum = i * 31});
      }
      std::vector<std::byte> block(f.block_bytes);
      write_descriptor(block, f, 42, tags, kUuid);
      EXPECT_TRUE(tail_checksum_ok(block, f));
      std::vector<Tag> back;
      read_tags(block, f, back);
      ASSERT_EQ(back.size(), tags.size());
      for (std::size_t i = 0; i < tags.size(); ++i) {
        EXPECT_EQ(back[i].block, tags[i].block);
        EXPECT_EQ(back[i].escaped(), tags[i].escaped());
        if (f.sealed()) {
          EXPECT_EQ(back[i].checksum, tags[i].checksum & (c == Checksums::v2 ? 0xFFFFU : ~0U));
        }
      }
      const Header h = parse_header(block);
      EXPECT_TRUE(h.is_log_block);
      EXPECT_EQ(h.type, kDescriptorBlock);
      EXPECT_EQ(h.tid, 42U);
    }
  }
}

TEST(JournalDescriptor, AnyBytesGiveTagsInsideTheBlock) {
  Random random(11);
  for (int round = 0; round < 2000; ++round) {
    const LogFormat f = format(static_cast<Checksums>(random.below(4)), random.one_in(2), 1024);
    std::vector<std::byte> block(f.block_bytes);
    for (auto& b : block) b = static_cast<std::byte>(random.one_in(3) ? 0 : random.below(256));
    std::vector<Tag> tags;
    read_tags(block, f, tags);
    EXPECT_LE(tags.size(), (f.block_bytes - 12) / f.tag_bytes());
  }
}

TEST(JournalDescriptor, EveryBitOfABlockIsCovered) {
  for (const Checksums c : {Checksums::v2, Checksums::v3}) {
    const LogFormat f = format(c, true, 1024);
    std::vector<std::byte> block(f.block_bytes);
    write_descriptor(block, f, 7, std::vector<Tag>{{.block = 5}}, kUuid);
    for (std::size_t i = 0; i < block.size(); ++i) {
      block[i] ^= std::byte{0x10};
      EXPECT_FALSE(tail_checksum_ok(block, f)) << i;
      block[i] ^= std::byte{0x10};
    }
    EXPECT_TRUE(tail_checksum_ok(block, f));
  }
}

TEST(JournalRevoke, RecordsReadBackAsWritten) {
  for (const bool wide : {false, true}) {
    const LogFormat f = format(Checksums::v3, wide);
    std::vector<Blk> blocks;
    for (std::uint32_t i = 0; i < revokes_per_block(f); ++i) blocks.push_back((wide ? 0x700000000ULL : 0) + i);
    std::vector<std::byte> block(f.block_bytes);
    write_revoke(block, f, 3, blocks);
    EXPECT_TRUE(tail_checksum_ok(block, f));
    ASSERT_EQ(revoke_records(block, f), blocks.size());
    for (std::uint32_t i = 0; i < blocks.size(); ++i) EXPECT_EQ(revoke_record(block, f, i), blocks[i]);
  }
}

TEST(JournalRevoke, CountIncludesTheHeader) {
  const LogFormat f = format(Checksums::v3, true);
  std::vector<std::byte> block(f.block_bytes);
  write_revoke(block, f, 3, std::vector<Blk>{1, 2, 3, 4, 5});
  EXPECT_EQ(load<be32>(block.data(), 12), 56U);  // seen on a real log: 16 + 5 x 8
}

TEST(JournalRevoke, CountOutsideTheBlockIsRefused) {
  const LogFormat f = format(Checksums::v3, false, 1024);
  std::vector<std::byte> block(f.block_bytes);
  write_revoke(block, f, 3, {});
  for (const std::uint32_t count : {0U, 15U, 1021U, 1024U, 0x80000000U, 0xFFFFFFFFU}) {
    store<be32>(block.data(), 12, count);
    EXPECT_FALSE(revoke_records(block, f)) << count;
  }
  store<be32>(block.data(), 12, 1020U);
  EXPECT_EQ(revoke_records(block, f), 251U);
}

TEST(JournalCommit, HeaderAloneIsEnoughWhenTheRestIsTorn) {
  const LogFormat f = format(Checksums::v3, true);
  std::vector<std::byte> block(f.block_bytes);
  write_commit(block, f, 9, {.sec = 123, .nsec = 456}, 0);
  EXPECT_TRUE(commit_checksum_ok(block, f));
  EXPECT_EQ(commit_time(block).sec, 123U);
  EXPECT_EQ(commit_time(block).nsec, 456U);
  std::fill(block.begin() + 512, block.end(), std::byte{0xA5});
  EXPECT_TRUE(commit_checksum_ok(block, f));
  block[0x31] ^= std::byte{1};
  EXPECT_FALSE(commit_checksum_ok(block, f));
}

TEST(JournalCommit, V1SumOrNoSumAtAll) {
  const LogFormat f = format(Checksums::v1, false, 1024);
  std::vector<std::byte> block(f.block_bytes);
  write_commit(block, f, 9, {}, 0xCAFE);
  EXPECT_TRUE(commit_v1_checksum_ok(block, 0xCAFE));
  EXPECT_FALSE(commit_v1_checksum_ok(block, 0xCAFF));
  write_commit(block, format(Checksums::none, false, 1024), 9, {}, 0);
  EXPECT_TRUE(commit_v1_checksum_ok(block, 0xCAFF));
}

TEST(JournalSuperblock, FreshOneIsValidAndEmpty) {
  const SuperOnDisk raw = make_superblock(4096, 4096, kUuid);
  const auto s = parse_superblock(bytes_of(raw), 4096, 4096);
  ASSERT_TRUE(s) << s.error().message();
  EXPECT_EQ(s->ring_first(), 1U);
  EXPECT_EQ(s->ring_end(), 4096U);
  EXPECT_EQ(s->format.checksums, Checksums::none);
}

TEST(JournalSuperblock, ImpossibleFieldsAreRefused) {
  const auto refused = [](auto&& change, ErrorKind kind = ErrorKind::corrupt) {
    SuperOnDisk raw = make_superblock(4096, 4096, kUuid);
    raw.s_checksum_type = kChecksumTypeCrc32c;
    change(raw);
    const auto s = parse_superblock(bytes_of(raw), 4096, 4096);
    return !s && s.error().kind == kind;
  };
  EXPECT_TRUE(refused([](SuperOnDisk& r) { r.s_header.h_magic = 1; }));
  EXPECT_TRUE(refused([](SuperOnDisk& r) { r.s_header.h_blocktype = 1; }));
  EXPECT_TRUE(refused([](SuperOnDisk& r) { r.s_blocksize = 1024; }));
  EXPECT_TRUE(refused([](SuperOnDisk& r) { r.s_maxlen = 4097; }));
  EXPECT_TRUE(refused([](SuperOnDisk& r) { r.s_maxlen = 1023; }));
  EXPECT_TRUE(refused([](SuperOnDisk& r) { r.s_first = 0; }));
  EXPECT_TRUE(refused([](SuperOnDisk& r) { r.s_first = 4096; }));
  EXPECT_TRUE(refused([](SuperOnDisk& r) { r.s_start = 4096; }));
  EXPECT_TRUE(refused([](SuperOnDisk& r) { r.s_first = 5, r.s_start = 4; }));
  EXPECT_TRUE(refused([](SuperOnDisk& r) { r.s_feature_incompat = 0x40; }, ErrorKind::incompatible));
  EXPECT_TRUE(refused([](SuperOnDisk& r) { r.s_feature_ro_compat = 1; }, ErrorKind::incompatible));
  EXPECT_TRUE(refused([](SuperOnDisk& r) { r.s_nr_users = 2; }, ErrorKind::incompatible));
  EXPECT_TRUE(refused([](SuperOnDisk& r) { r.s_feature_incompat = kIncompatCsumV2 | kIncompatCsumV3; }));
  EXPECT_TRUE(refused([](SuperOnDisk& r) { r.s_feature_incompat = kIncompatCsumV3, r.s_feature_compat = 1; }));
  EXPECT_TRUE(refused([](SuperOnDisk& r) { r.s_feature_incompat = kIncompatCsumV3; })) << "no checksum";
  EXPECT_TRUE(refused([](SuperOnDisk& r) {
    r.s_feature_incompat = kIncompatCsumV3;
    r.s_checksum_type = 1;
    seal_superblock(r);
  }));
  EXPECT_TRUE(refused([](SuperOnDisk& r) { r.s_feature_incompat = kIncompatFastCommit, r.s_num_fc_blks = 3073; }));
  EXPECT_FALSE(refused([](SuperOnDisk& r) { r.s_feature_incompat = kIncompatFastCommit, r.s_num_fc_blks = 3072; }));
}

TEST(JournalSuperblock, FastCommitAreaShortensTheRing) {
  SuperOnDisk raw = make_superblock(4096, 4096, kUuid);
  raw.s_feature_incompat = kIncompatFastCommit;
  auto s = parse_superblock(bytes_of(raw), 4096, 4096);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->ring_end(), 4096U - 256U) << "256 blocks when the count is 0";
  raw.s_num_fc_blks = 64;
  s = parse_superblock(bytes_of(raw), 4096, 4096);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->ring_end(), 4032U);
  EXPECT_EQ(fast_commit_area(*s).first, 4033U) << "block ring_end itself is never used";
  EXPECT_EQ(fast_commit_area(*s).blocks, 63U);
}

TEST(JournalSuperblock, V1HasNoFeatures) {
  SuperOnDisk raw = make_superblock(4096, 4096, kUuid);
  raw.s_header.h_blocktype = kSuperV1;
  raw.s_feature_incompat = 0xFFFFFFFF;
  const auto s = parse_superblock(bytes_of(raw), 4096, 4096);
  ASSERT_TRUE(s) << s.error().message();
  EXPECT_EQ(s->format.checksums, Checksums::none);
}

TEST(JournalFastCommitFormat, LengthsAreThoseOfTheirTag) {
  EXPECT_TRUE(fc_length_ok(kFcAddRange, 16, 256));
  EXPECT_FALSE(fc_length_ok(kFcAddRange, 15, 256));
  EXPECT_TRUE(fc_length_ok(kFcDelRange, 12, 256));
  EXPECT_FALSE(fc_length_ok(kFcCreat, 8, 256));
  EXPECT_TRUE(fc_length_ok(kFcLink, 9, 256));
  EXPECT_TRUE(fc_length_ok(kFcUnlink, 263, 256));
  EXPECT_FALSE(fc_length_ok(kFcUnlink, 264, 256));
  EXPECT_FALSE(fc_length_ok(kFcInode, 131, 256));
  EXPECT_TRUE(fc_length_ok(kFcInode, 260, 256));
  EXPECT_FALSE(fc_length_ok(kFcInode, 261, 256));
  EXPECT_FALSE(fc_length_ok(kFcTail, 7, 256));
  EXPECT_FALSE(fc_length_ok(kFcHead, 9, 256));
  EXPECT_FALSE(fc_length_ok(0, 0, 256));
  EXPECT_FALSE(fc_length_ok(10, 0, 256));
}

TEST(JournalLogWriter, LargestTransactionFitsExactly) {
  for (const std::uint32_t bs : {1024U, 4096U, 65536U}) {
    const LogFormat f = format(Checksums::v3, true, bs);
    for (std::uint64_t room = 0; room < 3000; ++room) {
      const std::uint64_t n = LogWriter::most_data_blocks(f, room);
      if (n > 0) {
        EXPECT_LE(LogWriter::blocks_needed(f, n), room);
      }
      EXPECT_GT(LogWriter::blocks_needed(f, n + 1), room);
    }
  }
}

}  // namespace
}  // namespace e4::journal
