// SPDX-License-Identifier: GPL-2.0-only
// What the running kernel does while a recording is made is what compare finds again.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "replay/comparison.h"
#include "replay/mounted.h"
#include "replay/recorder.h"
#include "replay/tracefs.h"
#include "tests/support/child.h"
#include "tests/support/temp_dir.h"

namespace e4::replay {
namespace {

using testing_support::run_child;
using testing_support::TempDir;

class LiveMount {
 public:
  LiveMount(const std::string& image, std::string where, const std::string& options) : where_(std::move(where)) {
    std::filesystem::create_directory(where_);
    ok_ = run_child({"mount", "-t", "ext4", "-o", "loop" + options, image, where_}).status == 0;
  }
  ~LiveMount() {
    if (ok_) run_child({"umount", where_});
  }
  LiveMount(const LiveMount&) = delete;
  LiveMount& operator=(const LiveMount&) = delete;
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  std::string where_;
  bool ok_ = false;
};

// Grows and shrinks by truncate, preallocates, deletes, syncs: what a trace of ext4's own events does not tell whole.
constexpr const char* kWorkload = R"sh(
i=0
while [ $i -lt 60 ]; do
  f=f$((i * 7 % 13))
  head -c $((i * 3777 % 90000 + 1)) /dev/zero >> $f
  case $((i % 6)) in
    1) truncate -s $((i * 9973 % 400000)) $f ;;
    2) truncate -s +$((i * 7919 % 300000)) $f; echo y >> $f ;;
    3) fallocate -l $((i * 5003 % 200000 + 1)) $f ;;
    4) sync $f ;;
    5) rm -f f$((i * 5 % 13)) ;;
  esac
  [ $((i % 20)) = 19 ] && sync
  i=$((i + 1))
done
)sh";

class RecordLive : public ::testing::TestWithParam<const char*> {};

TEST_P(RecordLive, ComparesWithoutADifference) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  if (TraceInstance::root().empty()) GTEST_SKIP() << "no writable tracefs at /sys/kernel/tracing";
  const TempDir dir;
  const std::string image = dir / "image";
  run_child({"truncate", "-s", "96M", image});
  ASSERT_EQ(run_child({"mke2fs", "-q", "-F", "-t", "ext4", "-E", "lazy_itable_init=0", image}).status, 0);
  const std::string mount_point = dir / "mnt";
  const LiveMount mount(image, mount_point, GetParam());
  if (!mount.ok()) GTEST_SKIP() << "cannot loop-mount ext4 here";

  RecordOptions o;
  o.target = mount_point;
  o.output = dir / "recording";
  o.buffer_kib = 8192;
  o.command = {"sh", "-c", kWorkload};
  const auto recorded = record(o, {}, [](const std::string&) {});
  ASSERT_TRUE(recorded) << recorded.error().message();
  EXPECT_EQ(recorded->lost, 0U);
  EXPECT_EQ(recorded->command_status, 0);
  EXPECT_GT(recorded->events, 500U);
  EXPECT_TRUE(find_mounted(mount_point)) << "mounted again as it was found";
  EXPECT_FALSE(std::filesystem::exists(TraceInstance::root() + "/instances/e4replay." + std::to_string(::getpid())));

  CompareOptions c;
  c.from.recording = o.output;
  const auto result = compare(c);
  ASSERT_TRUE(result) << result.error().message();
  const ComparedFilesystem& f = result->filesystems.at(0);
  EXPECT_GT(f.result.total.decisions, 20U);
  // One thing no recording can hold: which lock another CPU had at an instant.
  EXPECT_EQ(f.result.differences_count, f.result.causes[static_cast<std::size_t>(trace::Cause::busy_lock)] +
                                            f.result.causes[static_cast<std::size_t>(trace::Cause::interleaved)])
      << comparison_text(*result, true);
  EXPECT_EQ(f.result.missed_sizes, 0U);
  EXPECT_EQ(f.end_different_blocks, std::optional<std::uint64_t>(0));
}

INSTANTIATE_TEST_SUITE_P(Mount, RecordLive, ::testing::Values("", ",discard", ",data=journal", ",nodelalloc"),
                         [](const auto& param) {
                           const std::string s = param.param;
                           return s.empty() ? std::string("Default") : s == ",data=journal" ? std::string("DataJournal") : s.substr(1);
                         });

TEST(RecordLiveErrors, AFailedRecordingLeavesNothingBehind) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const TempDir dir;
  RecordOptions o;
  o.target = dir.path();
  o.output = dir / "recording";
  const auto r = record(o, {}, [](const std::string&) {});
  ASSERT_FALSE(r);
  EXPECT_NE(r.error().message().find("no ext4 file system is mounted there"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(o.output));
}

}  // namespace
}  // namespace e4::replay
