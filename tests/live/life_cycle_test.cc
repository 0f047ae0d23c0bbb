// SPDX-License-Identifier: GPL-2.0-only
// The running kernel and our life cycle go through the same steps on copies of
// one image; after each step needs_recovery, orphan_present, the state and the
// result must be the same.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <fstream>

#include "base/crc32c.h"
#include "base/endian.h"
#include "orphan/orphan_file.h"
#include "orphan/orphan_list.h"
#include "space/orphan_mount.h"
#include "support/child.h"
#include "support/temp_dir.h"

namespace e4::space {
namespace {

using testing_support::run_child;
using testing_support::TempDir;

constexpr unsigned long kShutdownIoctl = _IOR('X', 125, std::uint32_t);

std::string describe(const std::array<std::byte, 1024>& s) {
  const std::uint32_t state = load<le16>(s.data(), 0x3A);
  return std::string((load<le32>(s.data(), 0x60) & 4) != 0 ? "recover " : "- ") +
         ((load<le32>(s.data(), 0x64) & 0x10000) != 0 ? "present " : "- ") + ((state & 1) != 0 ? "valid " : "- ") +
         ((state & 2) != 0 ? "error" : "-");
}

/// The kernel's side: an image on a loop device.
class Kernel {
 public:
  Kernel(std::string image, const TempDir& dir) : image_(std::move(image)), dir_(dir), mnt_(dir / "mnt") {
    run_child({"mkdir", "-p", mnt_});
  }
  ~Kernel() {
    files_.clear();
    if (mounted_) ::umount2(mnt_.c_str(), MNT_DETACH);
    detach();
  }
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  bool attach(bool read_only) {
    detach();
    const std::string out = dir_ / "losetup";
    std::vector<std::string> args{"losetup", "-f", "--show"};
    if (read_only) args.emplace_back("-r");
    args.push_back(image_);
    if (run_child(args, out).status != 0) return false;
    std::getline(std::ifstream(out) >> std::ws, loop_);
    return !loop_.empty();
  }
  void detach() {
    if (!loop_.empty()) run_child({"losetup", "-d", loop_});
    loop_.clear();
  }
  /// 0 or an errno.
  int mount(bool read_only, bool noload) {
    const int r = ::mount(loop_.c_str(), mnt_.c_str(), "ext4", read_only ? static_cast<unsigned long>(MS_RDONLY) : 0UL, noload ? "noload" : "");
    mounted_ = r == 0;
    return r == 0 ? 0 : errno;
  }
  int remount(bool read_only) {
    return ::mount(nullptr, mnt_.c_str(), nullptr, static_cast<unsigned long>(read_only ? MS_REMOUNT | MS_RDONLY : +MS_REMOUNT), "") == 0 ? 0 : errno;
  }
  int umount() {
    files_.clear();
    const int r = ::umount(mnt_.c_str());
    if (r == 0) mounted_ = false;
    return r == 0 ? 0 : errno;
  }
  int ioctl(unsigned long what, std::uint32_t argument = 0) {
    const int fd = ::open(mnt_.c_str(), O_RDONLY | O_DIRECTORY);
    if (fd < 0) return errno;
    const int r = what == kShutdownIoctl ? ::ioctl(fd, what, &argument) : ::ioctl(fd, what, 0);
    const int e = r == 0 ? 0 : errno;
    ::close(fd);
    return e;
  }
  /// Opens files and takes away their names.
  void orphan(unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      const std::string p = mnt_ + "/f" + std::to_string(i);
      files_.emplace_back(::open(p.c_str(), O_RDWR | O_CREAT, 0600));
      EXPECT_GE(files_.back().fd, 0);
      EXPECT_EQ(::unlink(p.c_str()), 0);
    }
    const int fd = ::open(mnt_.c_str(), O_RDONLY);
    ::syncfs(fd);
    ::close(fd);
  }
  void close_files() { files_.clear(); }
  [[nodiscard]] std::string flags() const {
    std::array<std::byte, 1024> s{};
    std::ifstream f(image_, std::ios::binary);
    f.seekg(1024);
    f.read(reinterpret_cast<char*>(s.data()), s.size());
    return describe(s);
  }

 private:
  struct File {
    explicit File(int n) : fd(n) {}
    ~File() { ::close(fd); }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    int fd;
  };
  std::string image_;
  const TempDir& dir_;
  std::string mnt_, loop_;
  bool mounted_ = false;
  std::deque<File> files_;
};

/// Our side: the same bytes under an overlay. The log of these images is empty or may be dropped: what it holds is
/// already in place, because the kernel's side was synced and copied when idle.
class Ours {
 public:
  explicit Ours(const std::string& image)
      : device_(*image::open_file(image)), overlay_(*device_, 4096),
        fs_(overlay_, {.now = 1900000000, .replay_journal = [] { return Result<void>(); }}) {}
  LifeCycle& life() { return fs_.life(); }
  void orphan(unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      inodes_.emplace_back(20 + i);
      EXPECT_NE(fs_.tracker()->add(inodes_.back(), 0), alloc::OrphanTracker::Added::refused);
    }
    EXPECT_TRUE(fs_.flush());
  }
  void close_files() {
    if (fs_.tracker() != nullptr)
      for (auto& i : inodes_) fs_.tracker()->remove(i);
    inodes_.clear();
  }
  [[nodiscard]] std::size_t open_files() const { return inodes_.size(); }
  std::string flags() {
    std::array<std::byte, 1024> s{};
    EXPECT_TRUE(overlay_.read(1024, s));
    return describe(s);
  }

 private:
  std::unique_ptr<image::Device> device_;
  image::Overlay overlay_;
  OrphanMount fs_;
  std::deque<alloc::OrphanInode> inodes_;
};

class LifeLive : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    if (run_child({"mke2fs", "-Fq", "-t", "ext4", "-b", "4096", "-O", "orphan_file", dir_ / "base", "32M"}).status != 0)
      GTEST_SKIP() << "needs mke2fs with orphan_file";
    Kernel probe(dir_ / "base", dir_);
    if (!probe.attach(false) || probe.mount(false, false) != 0) GTEST_SKIP() << "cannot loop-mount ext4 with an orphan file here";
    probe.orphan(2);
    // Two images cut off with orphans: in the middle, and frozen.
    copy("base", "crash");
    ASSERT_EQ(probe.ioctl(FIFREEZE), 0);
    copy("base", "frozen");
    ASSERT_EQ(probe.ioctl(FITHAW), 0);
    ASSERT_EQ(probe.umount(), 0);
  }

  void copy(const std::string& from, const std::string& to) { ASSERT_EQ(run_child({"cp", dir_ / from, dir_ / to}).status, 0); }
  /// Both sides on copies of `image`; `patch` changes the superblock first.
  void start(const std::string& image, bool device_read_only = false, bool error_bit = false, std::uint32_t ro_compat = 0) {
    kernel_.reset();
    ours_.reset();
    copy(image, "kernel.img");
    if (error_bit || ro_compat != 0) {
      std::fstream f(dir_ / "kernel.img", std::ios::binary | std::ios::in | std::ios::out);
      std::array<std::byte, 1024> s{};
      f.seekg(1024);
      f.read(reinterpret_cast<char*>(s.data()), s.size());
      if (error_bit) store<le16>(s.data(), 0x3A, 2);
      store<le32>(s.data(), 0x64, load<le32>(s.data(), 0x64) | ro_compat);
      if ((load<le32>(s.data(), 0x64) & 0x400) != 0) store<le32>(s.data(), 0x3FC, crc32c(~0U, s.data(), 0x3FC));
      f.seekp(1024);
      f.write(reinterpret_cast<const char*>(s.data()), s.size());
    }
    copy("kernel.img", "ours.img");
    device_read_only_ = device_read_only;
    kernel_ = std::make_unique<Kernel>(dir_ / "kernel.img", dir_);
    ASSERT_TRUE(kernel_->attach(device_read_only));
    ours_ = std::make_unique<Ours>(dir_ / "ours.img");
  }
  void same(int theirs, const Result<void>& mine, const std::string& step) {
    EXPECT_EQ(theirs == 0, mine.has_value()) << step << ": kernel errno " << theirs << ", ours "
                                             << (mine ? "ok" : mine.error().message());
    EXPECT_EQ(kernel_->flags(), ours_->flags()) << "after " << step;
  }

  void mount(bool read_only = false, bool noload = false) {
    const int k = kernel_->mount(read_only, noload);
    same(k, ours_->life().mount({.read_only = read_only, .device_read_only = device_read_only_, .noload = noload}), "mount");
  }
  void umount() { same(kernel_->umount(), (ours_->close_files(), ours_->life().unmount()), "umount"); }
  void remount_ro() { same(kernel_->remount(true), ours_->life().remount_ro(ours_->open_files()), "remount ro"); }
  void remount_rw() { same(kernel_->remount(false), ours_->life().remount_rw(), "remount rw"); }
  void freeze() { same(kernel_->ioctl(FIFREEZE), ours_->life().freeze(), "freeze"); }
  void thaw() { same(kernel_->ioctl(FITHAW), ours_->life().thaw(), "thaw"); }
  void shutdown(std::uint32_t mode) {
    same(kernel_->ioctl(kShutdownIoctl, mode), ours_->life().shutdown(static_cast<LifeCycle::Shutdown>(mode)), "shutdown");
  }
  void orphan(unsigned n) { kernel_->orphan(n), ours_->orphan(n), same(0, {}, "orphans"); }
  void close_files() { kernel_->close_files(), ours_->close_files(); }

  TempDir dir_;
  bool device_read_only_ = false;
  std::unique_ptr<Kernel> kernel_;
  std::unique_ptr<Ours> ours_;
};

TEST_F(LifeLive, MountFreezeThawRemountUnmount) {
  start("base");
  mount(), freeze(), thaw(), remount_ro(), remount_rw(), umount();
  mount(), orphan(3), freeze(), thaw(), remount_ro();
  close_files(), remount_ro(), remount_rw(), orphan(1), umount();
}

TEST_F(LifeLive, ReadOnlyMountsOfACleanOne) {
  start("base");
  mount(true), freeze(), thaw(), remount_rw(), remount_ro(), umount();
  mount(true, true), remount_rw(), remount_ro(), umount();
  mount(false, true), umount();
}

TEST_F(LifeLive, ShutdownInEveryMode) {
  for (const std::uint32_t mode : {0U, 1U, 2U})
    for (const unsigned orphans : {0U, 2U}) {
      SCOPED_TRACE("mode " + std::to_string(mode) + ", orphans " + std::to_string(orphans));
      start("base");
      mount(), orphan(orphans), shutdown(mode), freeze(), remount_ro();
      umount();
    }
}

TEST_F(LifeLive, CrashImages) {
  for (const char* image : {"crash", "frozen"}) {
    SCOPED_TRACE(image);
    start(image), mount(), umount();
    start(image), mount(true), remount_rw(), umount();
    start(image), mount(true, true), umount();
  }
  start("crash"), mount(false, true);  // refused: recovery needed
  start("frozen"), mount(false, true), umount();
}

TEST_F(LifeLive, ReadOnlyDevice) {
  start("crash", true), mount(true);  // refused
  start("frozen", true), mount(true), remount_rw(), umount();
}

TEST_F(LifeLive, ErrorBitSkipsTheCleanUp) {
  start("frozen", false, true), mount(), remount_ro(), remount_rw(), umount();
  start("frozen", false, true), mount(), freeze(), thaw(), umount();
  start("frozen", false, true), mount(true);  // fails: orphan file not empty
  start("base", false, true), mount(true), remount_rw(), umount();
}

/// Where the entries stand on disk.
struct Placed {
  std::vector<std::uint32_t> slots;  // ascending, those in use
  std::size_t listed = 0;
};
Placed placed(image::Overlay& overlay) {
  Placed p;
  orphan::Volume volume = *orphan::Volume::load(overlay);
  const auto report = *orphan::inspect_orphan_file(volume);
  EXPECT_EQ(report.faults, 0U);
  std::uint32_t index = 0;
  for (const auto& b : report.blocks) {
    const auto block = *overlay.view(b.physical);
    const orphan::OrphanBlock look(block);
    for (std::uint32_t s = 0; s < look.slots(); ++s, ++index)
      if (look.slot(s) != 0) p.slots.push_back(index);
  }
  p.listed = orphan::read_orphan_list(volume)->inodes.size();
  return p;
}

TEST_F(LifeLive, SlotsAreTheOnesTheKernelTakesOnThatCpu) {
  cpu_set_t all;
  ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
  for (const char* size : {"orphan_file_size=2", "orphan_file_size=32"})
    for (const int cpu : {0, 1}) {
      if (!CPU_ISSET(cpu, &all)) continue;
      SCOPED_TRACE(std::string(size) + ", cpu " + std::to_string(cpu));
      ASSERT_EQ(run_child({"mke2fs", "-Fq", "-t", "ext4", "-b", "1024", "-N", "2048", "-O", "orphan_file", "-E", size,
                           dir_ / "slots", "32M"}).status, 0);
      Kernel kernel(dir_ / "slots", dir_);
      ASSERT_TRUE(kernel.attach(false));
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
      ASSERT_EQ(kernel.mount(false, false), 0);
      kernel.orphan(600);
      ASSERT_EQ(::sched_setaffinity(0, sizeof all, &all), 0);
      ASSERT_EQ(kernel.ioctl(FIFREEZE), 0);
      const auto device = *image::open_file(dir_ / "slots");
      image::Overlay theirs(*device, 1024);
      const Placed kernels = placed(theirs);
      ASSERT_EQ(kernel.ioctl(FITHAW), 0);
      ASSERT_EQ(kernel.umount(), 0);

      image::Overlay overlay(*device, 1024);
      OrphanMount fs(overlay, {});
      ASSERT_TRUE(fs.life().mount({}));
      std::deque<alloc::OrphanInode> inodes;
      for (Ino i = 0; i < 600; ++i) {
        inodes.emplace_back(20 + i);
        fs.tracker()->add(inodes.back(), static_cast<std::uint32_t>(cpu));
      }
      std::vector<std::uint32_t> ours;
      std::size_t listed = 0;
      for (const auto& i : inodes) {
        if (i.own.state == alloc::OrphanInode::State::in_file)
          ours.push_back(i.own.index);
        else
          ++listed;
      }
      std::sort(ours.begin(), ours.end());
      EXPECT_EQ(ours, kernels.slots);
      EXPECT_EQ(listed, kernels.listed);
    }
}

TEST_F(LifeLive, UnknownRoCompat) {
  start("frozen", false, false, 0x40000000), mount(), mount(true);  // both refused
  start("base", false, false, 0x40000000), mount(true), remount_rw(), umount();
}

}  // namespace
}  // namespace e4::space
