// SPDX-License-Identifier: GPL-2.0-only
#include <gtest/gtest.h>

#include <cstdlib>

#include "support/orphan_image.h"
#include "support/temp_dir.h"

namespace e4::testing_support {
namespace {

TEST(OrphanImage, E2fsckReleasesEveryOrphanOfFileAndList) {
  TempDir dir;
  const std::string img = dir / "img";
  auto r = make_orphan_image(img, {.orphans = 2000, .block_bytes = 1024, .orphan_blocks = 4});
  if (!r && r.error().kind == ErrorKind::usage) GTEST_SKIP() << r.error().message();
  ASSERT_TRUE(r) << r.error().message();
  const std::string log = dir / "log";
  EXPECT_LE(std::system(("e2fsck -fy " + img + " >" + log + " 2>&1").c_str()), 256);
  EXPECT_EQ(0, std::system(("test $(grep -c 'Clearing orphaned inode' " + log + ") = 2000").c_str()));
  EXPECT_EQ(0, std::system(("e2fsck -fn " + img + " >" + log + " 2>&1").c_str()));
}

}  // namespace
}  // namespace e4::testing_support
