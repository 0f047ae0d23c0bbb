// SPDX-License-Identifier: GPL-2.0-only
#include <gtest/gtest.h>

#include <vector>

#include "base/crc32c.h"
#include "base/random.h"

namespace e4 {
namespace {

TEST(Crc32c, KnownVectorWithoutFinalInversion) {
  EXPECT_EQ(crc32c(~0U, "123456789", 9), 0x1CF96D7CU);
  EXPECT_EQ(detail::crc32c_portable(~0U, "123456789", 9), 0x1CF96D7CU);
}

TEST(Crc32c, OrphanBlockChainOfARealImage) {
  const unsigned char uuid[16] = {0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0,
                                  0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0};
  std::uint32_t c = crc32c(~0U, uuid, 16);
  EXPECT_EQ(c, 0xa66087bdU);
  c = crc32c_le32(c, 12);
  EXPECT_EQ(c, 0x4a05a253U);
  c = crc32c_le32(c, 0);
  EXPECT_EQ(c, 0x725d7596U);
  c = crc32c_le64(c, 2065);
  EXPECT_EQ(c, 0xb613b79dU);
  const std::vector<unsigned char> slots(1022 * 4);
  EXPECT_EQ(crc32c(c, slots.data(), slots.size()), 0x2845bbb2U);
}

TEST(Crc32c, HardwareAgreesWithTablesAtEveryLengthAndOffset) {
  Random rng(1);
  std::vector<unsigned char> buf(70000);
  for (auto& b : buf) b = static_cast<unsigned char>(rng.next());
  for (std::size_t n = 0; n < 4200; n += (n < 40 ? 1 : 37))
    for (std::size_t off : {0U, 1U, 5U, 8U})
      ASSERT_EQ(crc32c(7, buf.data() + off, n), detail::crc32c_portable(7, buf.data() + off, n)) << n << "+" << off;
  EXPECT_EQ(crc32c(~0U, buf.data(), buf.size()), detail::crc32c_portable(~0U, buf.data(), buf.size()));
}

}  // namespace
}  // namespace e4
