// SPDX-License-Identifier: GPL-2.0-only
#include "orphan/format.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/crc32c.h"

namespace e4::orphan {
namespace {

constexpr unsigned char kUuid[16] = {0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0,
                                     0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0};

struct Vector {
  std::uint32_t block_bytes, empty, first, first_and_last;
};
constexpr Vector kVectors[] = {
    {1024, 0x2b8127ec, 0xd8833d2e, 0x766b51bf},  {2048, 0x8673363d, 0x865b9aa3, 0x28b3f632},
    {4096, 0x2845bbb2, 0xaaf28387, 0x041aef16},  {8192, 0xca1ebbef, 0x6760d672, 0xc988bae3},
    {16384, 0xb8d15d30, 0x3c254fac, 0x92cd233d}, {32768, 0x8b1aa4ab, 0x636d2fe7, 0xcd854376},
    {65536, 0x7d7c9565, 0x962d3b0e, 0x38c5579f},
};

TEST(OrphanFormat, ChecksumVectorsAtEveryBlockSize) {
  const std::uint32_t seed = inode_csum_seed(crc32c(~0U, kUuid, 16), 12, 0);
  EXPECT_EQ(seed, 0x725d7596U);
  for (const Vector& v : kVectors) {
    std::vector<std::byte> block(v.block_bytes);
    EXPECT_EQ(orphan_block_checksum(seed, 2065, block), v.empty) << v.block_bytes;
    set_slot(block, 0, 13);
    EXPECT_EQ(orphan_block_checksum(seed, 2065, block), v.first) << v.block_bytes;
    set_slot(block, slots_per_block(v.block_bytes) - 1, 700);
    EXPECT_EQ(orphan_block_checksum(seed, 2065, block), v.first_and_last) << v.block_bytes;
    seal_orphan_block(block, seed, 2065, true);
    const OrphanBlock look(block);
    EXPECT_EQ(look.magic(), kOrphanBlockMagic);
    EXPECT_EQ(look.stored_checksum(), v.first_and_last);
    EXPECT_EQ(look.slot(0), 13U);
    EXPECT_EQ(look.slot(look.slots() - 1), 700U);
    EXPECT_EQ(orphan_block_checksum(seed, 2065, block), v.first_and_last) << "the tail is not covered";
  }
}

TEST(OrphanFormat, NeighbouringBlocksDifferByPhysicalNumberAlone) {
  const std::vector<std::byte> block(4096);
  const std::uint32_t seed = inode_csum_seed(0xa66087bd, 12, 0);
  EXPECT_EQ(orphan_block_checksum(seed, 2066, block), 0x6a4717a1U);
  EXPECT_EQ(orphan_block_checksum(seed, 2067, block), 0xa8e2a1ffU);
}

TEST(OrphanFormat, GenerationAndSixtyFourBitBlockEnterTheChecksum) {
  const std::vector<std::byte> block(4096);
  EXPECT_EQ(orphan_block_checksum(inode_csum_seed(0xa66087bd, 12, 0xDEADBEEF), 0x100000001, block), 0x50939e4fU);
}

TEST(OrphanFormat, ChecksumIsZeroWithoutMetadataCsum) {
  std::vector<std::byte> block(1024, std::byte{0xFF});
  seal_orphan_block(block, 1, 2, false);
  EXPECT_EQ(OrphanBlock(block).stored_checksum(), 0U);
  EXPECT_EQ(OrphanBlock(block).magic(), kOrphanBlockMagic);
}

TEST(OrphanFormat, SlotsPerBlock) {
  EXPECT_EQ(slots_per_block(1024), 254U);
  EXPECT_EQ(slots_per_block(4096), 1022U);
  EXPECT_EQ(slots_per_block(65536), 16382U);
}

TEST(OrphanSize, DefaultFollowsTheBlockCount) {
  // 600 MiB at 1k, 2k, 4k, 64k; then the edges of the rule at 4k.
  EXPECT_EQ(default_orphan_file_blocks(600 * 1024, 1024), 150U);
  EXPECT_EQ(default_orphan_file_blocks(600 * 512, 2048), 75U);
  EXPECT_EQ(default_orphan_file_blocks(600 * 256, 4096), 37U);
  EXPECT_EQ(default_orphan_file_blocks(600 * 16, 65536), 32U);
  EXPECT_EQ(default_orphan_file_blocks(8191 * 256, 4096), 511U);
  EXPECT_EQ(default_orphan_file_blocks(8192 * 256, 4096), 512U);
  EXPECT_EQ(default_orphan_file_blocks(131071, 4096), 32U);
}

TEST(OrphanSize, NeverAboveWhatEveryKernelMounts) {
  EXPECT_EQ(max_orphan_file_blocks(4096), 512U);
  EXPECT_EQ(max_orphan_file_blocks(65536), 128U);
  EXPECT_EQ(default_orphan_file_blocks(std::uint64_t{1} << 32, 65536), 128U);
  EXPECT_EQ(clamp_orphan_file_blocks(100000, 4096), 512U);
  EXPECT_EQ(clamp_orphan_file_blocks(0, 4096), 1U);
}

TEST(OrphanSize, RoundsToClustersThenClamps) {
  EXPECT_EQ(default_orphan_file_blocks(150000, 4096, 16), 48U);
  EXPECT_EQ(default_orphan_file_blocks(1 << 22, 4096, 1024), 512U);
}

}  // namespace
}  // namespace e4::orphan
