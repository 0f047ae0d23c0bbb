// SPDX-License-Identifier: GPL-2.0-only
// The running kernel mounts what e4mkfs makes, writes to it, and a mounted one is refused.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "tests/support/child.h"
#include "tests/support/run_mkfs.h"
#include "tests/support/temp_dir.h"

namespace e4::testing_support {
namespace {

/// A loop mount, undone at the end of the scope.
class Mount {
 public:
  Mount(const std::string& image, std::string where) : where_(std::move(where)) {
    run_child({"mkdir", "-p", where_});
    status_ = run_child({"mount", "-t", "ext4", "-o", "loop", image, where_}, where_ + ".log").status;
  }
  ~Mount() { unmount(); }
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;
  [[nodiscard]] bool ok() const { return status_ == 0; }
  void unmount() {
    if (status_ == 0) run_child({"umount", where_});
    status_ = -1;
  }

 private:
  std::string where_;
  int status_ = -1;
};

/// Nothing when this machine can loop-mount ext4, else why not.
std::string why_not(const TempDir& dir) {
  if (::geteuid() != 0) return "needs root";
  if (run_child({"mke2fs", "-q", "-F", "-t", "ext4", dir / "probe", "8M"}).status != 0) return "needs mke2fs";
  const Mount probe(dir / "probe", dir / "probe.mnt");
  return probe.ok() ? "" : "cannot loop-mount ext4 here";
}

TEST(MkfsLive, TheKernelMountsAndUsesEveryKind) {
  const TempDir dir;
  if (const std::string why = why_not(dir); !why.empty()) GTEST_SKIP() << why;
  for (const std::vector<std::string>& options : std::vector<std::vector<std::string>>{
           {},
           {"-b", "4096"},
           {"-b", "2048"},
           {"-O", "bigalloc", "-b", "4096", "-C", "65536"},
           {"-O", "metadata_csum_seed,inline_data,fast_commit"},
           {"-O", "sparse_super2,^resize_inode"},
           {"-O", "meta_bg,^resize_inode"},
           {"-O", "^metadata_csum,^64bit"},
           {"-O", "^extent"},
           {"-E", "packed_meta_blocks=1"},
           {"-E", "orphan_file_size=1000000"},
           {"-t", "ext3"}}) {
    std::vector<std::string> args = options;
    args.insert(args.end(), {"-q", dir / "x", "100M"});
    std::string shown;
    for (const std::string& a : options) shown += a + " ";
    ASSERT_EQ(run_mkfs(args).status, 0) << shown;
    {
      Mount m(dir / "x", dir / "mnt");
      ASSERT_TRUE(m.ok()) << shown;
      std::ofstream(dir / "mnt/file") << std::string(100000, 'x');
      EXPECT_EQ(run_child({"mkdir", dir / "mnt/dir"}).status, 0) << shown;
      EXPECT_EQ(run_mkfs({"-q", dir / "x"}).status, 1) << "a mounted image was overwritten";
      m.unmount();
    }
    EXPECT_EQ(run_child({"e2fsck", "-fn", dir / "x"}).status, 0) << shown;
    ::unlink((dir / "x").c_str());
  }
}

TEST(MkfsLive, AMountedTargetIsNamedInTheRefusal) {
  const TempDir dir;
  if (const std::string why = why_not(dir); !why.empty()) GTEST_SKIP() << why;
  ASSERT_EQ(run_mkfs({"-q", dir / "x", "16M"}).status, 0);
  const Mount m(dir / "x", dir / "mnt");
  ASSERT_TRUE(m.ok());
  const ToolRun r = run_mkfs({"-F", dir / "x"});
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(r.err.find("mounted"), std::string::npos) << r.err;
}

TEST(MkfsLive, ABlockDeviceIsFormattedWholeAndRefusedWhenTooSmall) {
  const TempDir dir;
  if (const std::string why = why_not(dir); !why.empty()) GTEST_SKIP() << why;
  ASSERT_EQ(run_child({"truncate", "-s", "20M", dir / "x"}).status, 0);
  ASSERT_EQ(run_child({"losetup", "--find", "--show", dir / "x"}, dir / "loop").status, 0);
  std::string loop;
  std::ifstream(dir / "loop") >> loop;
  EXPECT_EQ(run_mkfs({"-q", loop, "21M"}).status, 1);
  EXPECT_EQ(run_mkfs({"-q", loop}).status, 0);
  EXPECT_EQ(run_child({"e2fsck", "-fn", loop}).status, 0);
  EXPECT_EQ(run_child({"losetup", "-d", loop}).status, 0);
}

}  // namespace
}  // namespace e4::testing_support
