// SPDX-License-Identifier: GPL-2.0-only
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/random.h"
#include "image/filsys.h"
#include "image/overlay.h"
#include "image/undo.h"
#include "support/temp_dir.h"

namespace e4::image {
namespace {

class FilsysTest : public ::testing::Test {
 protected:
  void make(const std::string& options, const std::string& size = "16M") {
    path_ = dir_ / "img";
    const std::string cmd = "mke2fs -Fq " + options + " " + path_ + " " + size + " >/dev/null 2>&1";
    if (std::system(cmd.c_str()) != 0) GTEST_SKIP() << "mke2fs did not run: " << cmd;
  }
  testing_support::TempDir dir_;
  std::string path_;
};

TEST_F(FilsysTest, OpensOverAnOverlayAndFlushesIntoItOnly) {
  make("-t ext4 -b 1024 -O metadata_csum");
  const auto before = testing_support::file_crc32c(path_);
  auto dev = open_file(path_);
  ASSERT_TRUE(dev) << dev.error().message();
  Overlay o(**dev, 1024);
  auto fs = Filsys::open(o, {.writable = true});
  ASSERT_TRUE(fs) << fs.error().message();
  ASSERT_TRUE(fs->read_bitmaps());
  fs->super().s_last_orphan = 12;
  ext2fs_mark_super_dirty(fs->raw());
  auto r = fs->flush();
  ASSERT_TRUE(r) << r.error().message();
  auto again = Filsys::open(o);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(again->super().s_last_orphan, 12U);
  EXPECT_EQ(testing_support::file_crc32c(path_), before);
}

TEST_F(FilsysTest, ReadOnlyDeviceRefusesToWrite) {
  make("-t ext4");
  auto dev = open_file(path_);
  ASSERT_TRUE(dev);
  EXPECT_FALSE((*dev)->writable());
  std::byte b{};
  EXPECT_FALSE((*dev)->write(0, std::span(&b, 1)));
  EXPECT_FALSE(Filsys::open(**dev, {.writable = true}));
}

TEST_F(FilsysTest, SecondWriterIsRefusedAsBusy) {
  make("-t ext4");
  auto one = open_file(path_, {.writable = true});
  ASSERT_TRUE(one) << one.error().message();
  auto two = open_file(path_, {.writable = true});
  ASSERT_FALSE(two);
  EXPECT_EQ(two.error().kind, ErrorKind::busy);
}

TEST_F(FilsysTest, OffsetInTheNameFindsAFileSystemInsideAFile) {
  make("-t ext4 -b 1024", "8M");
  const std::string big = dir_ / "big";
  ASSERT_EQ(0, std::system(("dd if=" + path_ + " of=" + big + " bs=1M seek=3 status=none").c_str()));
  auto dev = open_file(big + "?offset=3145728");
  ASSERT_TRUE(dev) << dev.error().message();
  EXPECT_TRUE(Filsys::open(**dev));
  EXPECT_FALSE(open_file(big + "?offset=x"));
  EXPECT_FALSE(open_file(big + "?offset=999999999999"));
}

TEST_F(FilsysTest, DamagedSuperblocksGiveAnErrorAndNeverACrash) {
  make("-t ext4 -b 1024 -O metadata_csum,orphan_file", "8M");
  auto file = open_file(path_);
  ASSERT_TRUE(file);
  ext2_super_block good{};
  ASSERT_TRUE((*file)->read(1024, std::as_writable_bytes(std::span(&good, 1))));
  EXPECT_TRUE(check_geometry(good, (*file)->size()));
  Random rng(42);
  Overlay o(**file, 1024);
  for (int i = 0; i < 2000; ++i) {
    ext2_super_block bad = good;
    auto* bytes = reinterpret_cast<unsigned char*>(&bad);
    for (std::uint64_t n = rng.between(1, 3); n != 0; --n) bytes[rng.below(512)] = static_cast<unsigned char>(rng.next());
    ASSERT_TRUE(o.write(1024, std::as_bytes(std::span(&bad, 1))));
    auto fs = Filsys::open(o, {.writable = true, .ignore_checksums = true, .any_features = true});
    if (fs) (void)fs->read_bitmaps();
  }
}

TEST_F(FilsysTest, UndoFileTakesTheImageBackWithE2undo) {
  make("-t ext4 -b 1024 -O metadata_csum", "8M");
  const auto before = testing_support::file_crc32c(path_);
  const std::string undo_path = dir_ / "undo";
  for (int round = 0; round < 2; ++round) {  // the second round continues the first one's file
    auto dev = open_file(path_, {.writable = true});
    ASSERT_TRUE(dev);
    auto undo = open_undo(**dev, undo_path, 1024);
    ASSERT_TRUE(undo) << undo.error().message();
    auto fs = Filsys::open(**undo, {.writable = true});
    ASSERT_TRUE(fs) << fs.error().message();
    fs->super().s_last_orphan = 12U + static_cast<unsigned>(round);
    std::vector<std::byte> junk(3000, std::byte{0x5A});
    for (int i = 0; i < 100; ++i) ASSERT_TRUE((*undo)->write(4000000 + 9000U * static_cast<unsigned>(i + 30 * round), junk));
    ext2fs_mark_super_dirty(fs->raw());
    ASSERT_TRUE(fs->flush());
  }
  ASSERT_NE(testing_support::file_crc32c(path_), before);
  ASSERT_EQ(0, std::system(("e2undo " + undo_path + " " + path_ + " >" + (dir_ / "log") + " 2>&1").c_str()))
      << std::ifstream(dir_ / "log").rdbuf();
  EXPECT_EQ(testing_support::file_crc32c(path_), before);
  std::ofstream(dir_ / "other") << "not an undo file";
  auto dev = open_file(path_, {.writable = true});
  ASSERT_TRUE(dev);
  EXPECT_FALSE(open_undo(**dev, dir_ / "other", 1024));
}

}  // namespace
}  // namespace e4::image
