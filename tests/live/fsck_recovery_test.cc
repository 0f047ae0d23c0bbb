// SPDX-License-Identifier: GPL-2.0-only
// The running kernel makes the crash: an image by e4mkfs is mounted, files of
// every kind are opened and unlinked, and the synced backing file is copied
// while they are open. One copy is recovered by mounting it, another by
// e4fsck: free space and files must come out the same.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "support/child.h"
#include "support/fsck_run.h"
#include "support/oracle.h"
#include "support/run_mkfs.h"
#include "support/temp_dir.h"

namespace e4 {
namespace {

using namespace testing_support;

class LoopMount {
 public:
  LoopMount(const std::string& image, std::string where, const std::string& options = "loop") : where_(std::move(where)) {
    ::mkdir(where_.c_str(), 0755);
    mounted_ = run_child({"mount", "-t", "ext4", "-o", options, image, where_}).status == 0;
  }
  ~LoopMount() { unmount(); }
  LoopMount(const LoopMount&) = delete;
  LoopMount& operator=(const LoopMount&) = delete;
  [[nodiscard]] bool mounted() const { return mounted_; }
  void unmount() {
    if (mounted_) mounted_ = run_child({"umount", where_}).status != 0;
  }

 private:
  std::string where_;
  bool mounted_ = false;
};

/// Open files that are closed at the end, whatever happens.
struct OpenFiles {
  std::vector<int> fds;
  OpenFiles() = default;
  ~OpenFiles() {
    for (const int fd : fds) ::close(fd);
  }
  OpenFiles(const OpenFiles&) = delete;
  OpenFiles& operator=(const OpenFiles&) = delete;
  int add(int fd) {
    if (fd >= 0) fds.push_back(fd);
    return fd;
  }
};

void fill(int fd, std::size_t bytes, off_t at = 0) {
  const std::string data(bytes, static_cast<char>('a' + bytes % 26));
  EXPECT_EQ(::pwrite(fd, data.data(), data.size(), at), static_cast<ssize_t>(bytes));
}

void make_survivors(const std::string& mnt) {
  for (int i = 0; i < 20; ++i) {
    const int fd = ::open((mnt + "/keep" + std::to_string(i)).c_str(), O_RDWR | O_CREAT, 0640);
    ASSERT_GE(fd, 0);
    fill(fd, 1 + static_cast<std::size_t>(i) * 3001);
    if (i % 4 == 0) ::fsetxattr(fd, "user.kept", "value", 5, 0);
    ::close(fd);
  }
  EXPECT_EQ(::symlink("keep1", (mnt + "/short").c_str()), 0);
  EXPECT_EQ(::link((mnt + "/keep2").c_str(), (mnt + "/hard").c_str()), 0);
  EXPECT_EQ(::mkdir((mnt + "/kept-dir").c_str(), 0755), 0);
}

/// Creates orphans-to-be of every kind under mnt and keeps them open; returns their names.
std::vector<std::string> make_doomed(const std::string& mnt, OpenFiles& open_files) {
  std::vector<std::string> names;
  const auto create = [&](const std::string& name) {
    names.push_back(mnt + "/" + name);
    return open_files.add(::open(names.back().c_str(), O_RDWR | O_CREAT, 0600));
  };
  for (int i = 0; i < 40; ++i) fill(create("small" + std::to_string(i)), 10 + static_cast<std::size_t>(i) * 500);
  const int sparse = create("sparse");
  for (int i = 0; i < 200; ++i) fill(sparse, 100, static_cast<off_t>(i) * 20000);
  fill(create("big"), 3 << 20);
  EXPECT_GE(::posix_fallocate(create("preallocated"), 0, 1 << 20), 0);
  const int attributes = create("attributes");
  const std::string value(700, 'v');
  EXPECT_EQ(::fsetxattr(attributes, "user.big", value.data(), value.size(), 0), 0);
  create("empty");
  const std::string dir = mnt + "/dir", fifo = mnt + "/fifo", link = mnt + "/link";
  EXPECT_EQ(::mkdir(dir.c_str(), 0755), 0);
  open_files.add(::open(dir.c_str(), O_RDONLY | O_DIRECTORY));
  EXPECT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  open_files.add(::open(fifo.c_str(), O_RDWR | O_NONBLOCK));
  EXPECT_EQ(::symlink(std::string(150, 't').c_str(), link.c_str()), 0);
  open_files.add(::open(link.c_str(), O_PATH | O_NOFOLLOW));
  names.insert(names.end(), {fifo, link});
  const int unnamed = open_files.add(::open(mnt.c_str(), O_TMPFILE | O_RDWR, 0600));
  if (unnamed >= 0) fill(unnamed, 9000);
  return names;
}

struct Kind {
  std::string name;
  std::vector<std::string> options;
};

class FsckLive : public ::testing::TestWithParam<Kind> {};

TEST_P(FsckLive, RecoversAsTheRunningKernelDoes) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const TempDir dir;
  const std::string image = dir / "x.img", mnt = dir / "mnt", ours = dir / "ours.img", kernels = dir / "kernels.img";
  std::vector<std::string> args = GetParam().options;
  args.insert(args.end(), {"-q", image, "64M"});
  const auto made = run_mkfs(args);
  ASSERT_EQ(made.status, 0) << made.err;
  {
    LoopMount mount(image, mnt);
    if (!mount.mounted()) GTEST_SKIP() << "cannot loop-mount ext4 with these features here";
    OpenFiles open_files;
    make_survivors(mnt);
    const auto doomed = make_doomed(mnt, open_files);
    ASSERT_EQ(run_child({"sync", "-f", mnt}).status, 0);
    for (const std::string& name : doomed) EXPECT_EQ(::unlink(name.c_str()), 0) << name;
    EXPECT_EQ(::rmdir((mnt + "/dir").c_str()), 0);
    ASSERT_EQ(run_child({"sync", "-f", mnt}).status, 0);
    copy_file(image, ours);  // the power goes here

    const FsckRun refused = e4fsck({"-p", image});
    EXPECT_EQ(refused.status, 8) << "a mounted image was not refused: " << refused.out;
    EXPECT_NE(refused.err.find("mounted"), std::string::npos) << refused.err;
    EXPECT_EQ(e4fsck({"-n", image}).status & ~4, 0) << "-n must work on a mounted one";
  }
  copy_file(ours, kernels);
  {
    LoopMount recover(kernels, mnt);
    ASSERT_TRUE(recover.mounted());
  }
  const auto j = e4fsck_json({"-p", ours});
  EXPECT_EQ(j["exit_status"], 0) << j.dump(1);
  EXPECT_GE(j["verdict"]["orphans"]["deleted"], 48) << j.dump(1);
  const FreeSpace mine = free_space(ours), theirs = free_space(kernels);
  EXPECT_EQ(mine.free_blocks, theirs.free_blocks);
  EXPECT_EQ(mine.free_inodes, theirs.free_inodes);
  EXPECT_EQ(mine.lists, theirs.lists);
  const auto paths = all_paths(kernels);
  EXPECT_EQ(all_paths(ours), paths);
  EXPECT_GE(paths.size(), 24u);
  for (const std::string& d : compare_files(ours, describe_files(kernels, paths))) ADD_FAILURE() << d;
  const ProcessRun second = e2fsck_fn(ours);
  EXPECT_EQ(second.status, 0) << second.output;
  // And the kernel takes over what we left, without a word about recovery.
  LoopMount again(ours, mnt);
  EXPECT_TRUE(again.mounted());
}

std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.name; }

INSTANTIATE_TEST_SUITE_P(Kinds, FsckLive,
                         ::testing::Values(Kind{"default", {}}, Kind{"four_kib", {"-b", "4096"}}, Kind{"list", {"-O", "^orphan_file"}},
                                           Kind{"overflow", {"-E", "orphan_file_size=1", "-b", "1024"}},
                                           Kind{"plain", {"-O", "^metadata_csum,^64bit"}}, Kind{"block_maps", {"-O", "^extent,^64bit"}},
                                           Kind{"bigalloc", {"-O", "bigalloc", "-b", "4096", "-C", "16384"}},
                                           Kind{"inline_data", {"-O", "inline_data"}}, Kind{"fast_commit", {"-O", "fast_commit"}}),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace e4
