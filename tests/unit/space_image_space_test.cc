// SPDX-License-Identifier: GPL-2.0-only
#include "space/image_space.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "alloc/bits.h"
#include "base/random.h"
#include "image/overlay.h"
#include "tests/support/mini_file.h"
#include "tests/support/temp_dir.h"

namespace e4::space {
namespace {

/// What a file of the test owns.
struct MiniFileExtents {
  Ino ino;
  std::map<Lblk, test::MiniFile::Extent> extents;
};
struct Layout {
  const char* options;
  const char* size;
};
class ImageSpace : public testing::TestWithParam<Layout> {
 protected:
  void SetUp() override {
    path_ = dir_ / "img";
    const std::string cmd =
        "mke2fs -Fq " + std::string(GetParam().options) + " " + path_ + " " + GetParam().size + " >/dev/null 2>&1";
    if (std::system(cmd.c_str()) != 0) GTEST_SKIP() << "mke2fs did not run: " << cmd;
  }
  int fsck() const { return std::system(("e2fsck -fn " + path_ + " >/dev/null 2>&1").c_str()); }
  testing_support::TempDir dir_;
  std::string path_;
};

INSTANTIATE_TEST_SUITE_P(
    Layouts, ImageSpace,
    testing::Values(Layout{"-t ext4 -b 4096 -O metadata_csum,64bit", "600M"}, Layout{"-t ext4 -b 1024 -O ^metadata_csum,uninit_bg", "60M"},
                    Layout{"-t ext4 -b 1024 -g 2048 -O metadata_csum", "40M"}, Layout{"-t ext4 -O bigalloc,metadata_csum -C 16384", "600M"},
                    Layout{"-t ext4 -O meta_bg,^resize_inode,metadata_csum", "400M"}, Layout{"-t ext2 -b 2048", "50M"},
                    Layout{"-t ext4 -b 4096 -O ^flex_bg,metadata_csum", "400M"}));

TEST_P(ImageSpace, AllocatingStoringAndFreeingLeavesACleanFileSystem) {
  ASSERT_EQ(fsck(), 0);
  std::int64_t free_before = 0;
  std::vector<MiniFileExtents> files;
  {
    auto dev = std::move(*image::open_file(path_, {.writable = true}));
    auto fs = image::Filsys::open(*dev, {.writable = true});
    ASSERT_TRUE(fs) << fs.error().message();
    auto space = Space::load(*fs);
    ASSERT_TRUE(space) << space.error().message();
    alloc::Allocator& a = (*space)->allocator();
    free_before = a.free_clusters_count();
    EXPECT_EQ(static_cast<std::uint64_t>(free_before) << a.geometry().cluster_bits, ext2fs_free_blocks_count(fs->raw()->super));
    Random random(7);
    for (Ino ino = 12; ino < 60; ++ino) {
      test::MiniFile f(a, ino);
      f.delalloc = a.mount().delalloc;
      f.write(0, static_cast<std::uint32_t>(random.between(1, 300)));
      f.close();
      files.push_back({ino, f.extents()});
    }
    EXPECT_TRUE(a.verify()) << a.verify().error().message();
    auto stored = (*space)->store();
    ASSERT_TRUE(stored) << stored.error().message();
    EXPECT_GT(*stored, 0U);
    EXPECT_FALSE(a.group_dirty(0) && a.group_dirty(1));
  }
  {
    // libext2fs reads what was stored, checksums and all, and agrees on every count.
    auto dev = std::move(*image::open_file(path_, {.writable = true}));
    auto fs = image::Filsys::open(*dev, {.writable = true});
    ASSERT_TRUE(fs) << fs.error().message();
    ASSERT_TRUE(fs->read_bitmaps());
    for (const auto& file : files)
      for (const auto& [lblk, e] : file.extents)
        for (std::uint32_t i = 0; i < e.len; ++i) ASSERT_TRUE(ext2fs_test_block_bitmap2(fs->raw()->block_map, e.pblk + i));
    auto space = Space::load(*fs);
    ASSERT_TRUE(space) << space.error().message();
    alloc::Allocator& a = (*space)->allocator();
    EXPECT_EQ(static_cast<std::uint64_t>(a.free_clusters_count()) << a.geometry().cluster_bits,
              ext2fs_free_blocks_count(fs->raw()->super));
    EXPECT_LT(a.free_clusters_count(), free_before);
    for (const auto& file : files) {
      for (const auto& [lblk, e] : file.extents) {
        alloc::FreeRequest f;
        f.ino = file.ino;
        f.block = e.pblk;
        f.count_blocks = e.len;
        f.when = alloc::FreeRequest::When::at_once;
        const auto freed = a.free(f);
        ASSERT_TRUE(freed) << freed.error().message();
      }
    }
    ASSERT_TRUE(a.load_all());
    EXPECT_TRUE(a.verify()) << a.verify().error().message();
    EXPECT_EQ(a.free_clusters_count(), free_before);
    ASSERT_TRUE((*space)->store());
  }
  EXPECT_EQ(fsck(), 0);
}

TEST_P(ImageSpace, UntouchedGroupsAreNotReadAndCostLittle) {
  auto dev = std::move(*image::open_file(path_));
  auto fs = image::Filsys::open(*dev);
  ASSERT_TRUE(fs);
  auto space = Space::load(*fs);
  ASSERT_TRUE(space);
  const alloc::Stats s = (*space)->allocator().stats();
  EXPECT_EQ(s.groups_loaded, 0U);
  EXPECT_EQ(s.memory_touched_bytes, 0U);
  EXPECT_EQ(*(*space)->store(), 0U);
}

TEST_P(ImageSpace, InodeUseOfAnUninitializedGroupWritesItsBitmap) {
  auto dev = std::move(*image::open_file(path_, {.writable = true}));
  {
    auto fs = image::Filsys::open(*dev, {.writable = true});
    ASSERT_TRUE(fs);
    auto space = Space::load(*fs);
    ASSERT_TRUE(space);
    alloc::Allocator& a = (*space)->allocator();
    GroupNo uninit = 0;
    while (uninit < a.geometry().groups() && !a.block_uninit(uninit)) ++uninit;
    if (uninit == a.geometry().groups()) {
      // Nothing to do in layouts whose descriptors carry no such flag.
      EXPECT_FALSE(ext2fs_has_feature_flex_bg(&fs->super()) && a.geometry().groups() > 32 && a.geometry().checksummed_descriptors);
      return;
    }
    a.note_inode_allocated(uninit);
    EXPECT_FALSE(a.block_uninit(uninit));
    EXPECT_EQ(*(*space)->store(), 1U);
  }
  dev.reset();
  EXPECT_EQ(fsck(), 0);
}

TEST(ImageSpaceHostile, WrongChecksumIsAnErrorAndTheGroupIsLeftAlone) {
  testing_support::TempDir dir;
  const std::string path = dir / "img";
  if (std::system(("mke2fs -Fq -t ext4 -b 4096 -O metadata_csum " + path + " 300M >/dev/null 2>&1").c_str()) != 0)
    GTEST_SKIP() << "mke2fs did not run";
  auto dev = std::move(*image::open_file(path));
  image::Overlay overlay(*dev, 4096);
  auto fs = image::Filsys::open(overlay);
  ASSERT_TRUE(fs);
  const Blk at = ext2fs_block_bitmap_loc(fs->raw(), 0);
  auto block = overlay.edit(at);
  ASSERT_TRUE(block);
  (*block)[100] ^= std::byte{1};
  auto space = Space::load(*fs);
  ASSERT_TRUE(space);
  alloc::Allocator& a = (*space)->allocator();
  const auto loaded = a.load_group(0);
  ASSERT_FALSE(loaded);
  EXPECT_NE(loaded.error().message().find("group 0"), std::string::npos) << loaded.error().message();
  alloc::Request rq;
  rq.ino = 12;
  rq.goal = 100;
  alloc::Outcome out;
  ASSERT_EQ(a.allocate(rq, out), alloc::Status::ok);
  EXPECT_NE(out.result.group, 0U);
}

}  // namespace
}  // namespace e4::space
