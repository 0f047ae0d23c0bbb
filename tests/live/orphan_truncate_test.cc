// SPDX-License-Identifier: GPL-2.0-only
// Truncates cut off half-way, finished by us and, on a copy, by the running
// kernel: the same blocks free, the same sizes, block counts and bytes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/random.h"
#include "orphan/inode.h"
#include "tests/support/child.h"
#include "tests/support/fsck_run.h"
#include "tests/support/oracle.h"
#include "tests/support/orphan_lab.h"

namespace e4::orphan {
namespace {

using namespace testing_support;

class Mount {
 public:
  Mount(const std::string& image, std::string where, const char* how) : where_(std::move(where)) {
    run_child({"mkdir", "-p", where_});
    status_ = run_child({"mount", "-t", "ext4", "-o", how, image, where_}).status;
  }
  ~Mount() {
    if (status_ == 0) run_child({"umount", where_});
  }
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;
  [[nodiscard]] bool ok() const { return status_ == 0; }
  [[nodiscard]] std::string path(int i) const { return where_ + "/f" + std::to_string(i); }

 private:
  std::string where_;
  int status_ = -1;
};

constexpr int kFiles = 9;

/// Contiguous, scattered, preallocated and sparse files; their inodes.
std::vector<Ino> write_files(const Mount& m, Random& rng) {
  std::vector<Ino> inodes;
  const std::string junk(700'000, 'j');
  for (int i = 0; i < kFiles; ++i) {
    const int fd = ::open(m.path(i).c_str(), O_CREAT | O_RDWR, 0644);
    const auto put = [&](std::size_t bytes, std::uint64_t at) {
      EXPECT_EQ(::pwrite(fd, junk.data(), bytes, static_cast<off_t>(at)), static_cast<ssize_t>(bytes));
    };
    switch (i % 4) {
      case 0: put(5000 + rng.next() % 600'000, 0); break;
      case 1:
        for (unsigned k = 0; k < 300; ++k) put(700, k * 8192U);
        break;
      case 2:
        put(100'000, 0);
        ::fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 2 << 20);
        break;
      default:
        for (unsigned k = 0; k < 20; ++k) put(3000, k * 1'000'003U);
    }
    struct stat s {};
    ::fstat(fd, &s);
    inodes.push_back(static_cast<Ino>(s.st_ino));
    ::close(fd);
  }
  return inodes;
}

/// "size blocks checksum" of each file.
std::vector<std::string> look(const std::string& image, const std::string& where) {
  std::vector<std::string> seen;
  const Mount m(image, where, "loop,ro");
  for (int i = 0; i < kFiles; ++i) {
    struct stat s {};
    ::stat(m.path(i).c_str(), &s);
    seen.push_back(std::to_string(s.st_size) + " " + std::to_string(s.st_blocks) + " " + std::to_string(file_crc32c(m.path(i))));
  }
  return seen;
}

class TruncateLive : public ::testing::TestWithParam<const char*> {};

TEST_P(TruncateLive, IsFinishedAsTheRunningKernelFinishesIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  OrphanLab lab(GetParam(), "96M");
  const TempDir dir;
  Random rng(7);
  std::vector<Ino> inodes;
  {
    const Mount m(lab.image(), dir / "mnt", "loop");
    if (!m.ok()) GTEST_SKIP() << "cannot loop-mount ext4 with these features here";
    inodes = write_files(m, rng);
  }
  for (const Ino ino : inodes)
    lab.edit_inode(ino, [&](auto raw) { set_size(raw, rng.next() % 5 == 0 ? 0 : rng.next() % (InodeView(raw).size() + 1)); });
  lab.put_slots(0, inodes);
  copy_file(lab.image(), dir / "kernel");
  const auto ours = lab.recover();
  EXPECT_EQ(ours.totals.truncated + ours.totals.dropped, inodes.size());
  { ASSERT_TRUE(Mount(dir / "kernel", dir / "mnt", "loop").ok()); }
  EXPECT_EQ(lab.fsck(), 0) << lab.fsck_text;
  EXPECT_EQ(free_space(lab.image()).lists, free_space(dir / "kernel").lists);
  EXPECT_EQ(look(lab.image(), dir / "mnt"), look(dir / "kernel", dir / "mnt"));
}

INSTANTIATE_TEST_SUITE_P(Formats, TruncateLive,
                         ::testing::Values("-b 4096 -t ext4 -O orphan_file,metadata_csum", "-b 1024 -t ext4 -O orphan_file,metadata_csum",
                                           "-b 1024 -t ext4 -O orphan_file,^extent,^64bit",
                                           "-b 4096 -C 32768 -t ext4 -O bigalloc,orphan_file,metadata_csum"));

}  // namespace
}  // namespace e4::orphan
