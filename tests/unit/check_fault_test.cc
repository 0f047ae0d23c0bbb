// SPDX-License-Identifier: GPL-2.0-only
// The power goes at every write of a recovery; running again must end in the
// state an uninterrupted run ends in: every block outside the journal's log
// the same, byte for byte. Once with everything written before the cut on the
// medium, and once with a random half of what was not flushed lost.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "check/pipeline.h"
#include "image/filsys.h"
#include "journal/log.h"
#include "support/crash_device.h"
#include "support/fsck_run.h"
#include "support/oracle.h"
#include "support/temp_dir.h"

namespace e4 {
namespace {

using namespace testing_support;

struct Case {
  std::string name;
  std::string source;          // a .zst under tests/ or in the corpus; empty: made by `make`
  std::vector<std::string> options = {};  // for mke2fs
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

check::Outcome recover(image::Device& device) {
  report::Collector sink;
  auto progress = report::no_progress();
  const check::Options options{.mode = check::Mode::yes, .now = static_cast<std::uint64_t>(kFixedTime)};
  return check::check_image(device, options, sink, *progress);
}

/// Pages of the journal's log, which may differ from run to run.
std::set<std::uint64_t> log_pages(CrashDevice& device) {
  std::set<std::uint64_t> pages;
  auto fs = image::Filsys::open(device, {.ignore_checksums = true, .any_features = true});
  if (!fs) return pages;
  auto log = journal::Log::open(device, *fs);
  if (!log) return pages;
  for (const auto& run : log->runs())
    for (std::uint64_t p = run.physical * log->block_bytes() / CrashDevice::kPageBytes,
                       end = (run.physical + run.blocks) * log->block_bytes() / CrashDevice::kPageBytes;
         p < end; ++p)
      pages.insert(p);
  return pages;
}

/// The first page outside the log where the two differ, or -1.
long long first_difference(CrashDevice& a, CrashDevice& b, const std::set<std::uint64_t>& except) {
  std::set<std::uint64_t> pages;
  for (const auto p : a.pages()) pages.insert(p);
  for (const auto p : b.pages()) pages.insert(p);
  Bytes x(CrashDevice::kPageBytes), y(CrashDevice::kPageBytes);
  for (const auto p : pages) {
    if (except.contains(p)) continue;
    const std::size_t n = std::min<std::uint64_t>(CrashDevice::kPageBytes, a.size() - p * CrashDevice::kPageBytes);
    if (!a.read(p * CrashDevice::kPageBytes, std::span(x).first(n)) || !b.read(p * CrashDevice::kPageBytes, std::span(y).first(n)) || x != y)
      return static_cast<long long>(p);
  }
  return -1;
}

/// A sink whose user loses patience at the n-th orphan.
class Impatient final : public report::Sink {
 public:
  Impatient(std::stop_source& stop, int orphans) : stop_(stop), left_(orphans) {}
  void say(std::string_view) override {}
  void say_orphan(std::string_view) override {
    if (left_-- == 0) stop_.request_stop();
  }
  void add(const report::Finding&) override {}
  void retract() override {}

 private:
  std::stop_source& stop_;
  int left_;
};

TEST(CheckCancel, WhatWasDoneIsCompleteAndTheNextRunDoesTheRest) {
  const TempDir dir;
  unzstd("tests/images/overflow-1k.img.zst", dir / "image");
  const auto bytes = load_bytes(dir / "image");
  CrashDevice reference(bytes), device(bytes);
  ASSERT_FALSE(recover(reference).error);
  auto progress = report::no_progress();
  {
    std::stop_source stop;
    stop.request_stop();
    Impatient sink(stop, -1);
    const auto o = check::check_image(device, {.mode = check::Mode::yes, .now = static_cast<std::uint64_t>(kFixedTime), .stop = stop.get_token()},
                                      sink, *progress);
    EXPECT_TRUE(o.cancelled);
    EXPECT_EQ(device.writes(), 0u);
  }
  std::stop_source stop;
  Impatient sink(stop, 10);
  const auto o = check::check_image(device, {.mode = check::Mode::yes, .now = static_cast<std::uint64_t>(kFixedTime), .stop = stop.get_token()},
                                    sink, *progress);
  EXPECT_TRUE(o.cancelled);
  EXPECT_FALSE(o.error);
  ASSERT_FALSE(recover(device).error);
  EXPECT_EQ(first_difference(reference, device, log_pages(reference)), -1);
}

class CheckFault : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const Case& c = GetParam();
    const std::string image = dir_ / "image";
    if (!c.options.empty()) {
      mke2fs(image, "16M", c.options);
      debugfs(image, {"write /usr/share/common-licenses/GPL-2 f", "sif <13> links_count 0", "unlink f", "write /etc/passwd g", "sif <14> links_count 0",
                      "unlink g", "zap_block -f <12> -o 0 -l 1 -p 13 0", "zap_block -f <12> -o 40 -l 1 -p 14 0", "feature orphan_present",
                      "ssv state 1"});
    } else {
      std::string source = c.source;
      if (source.rfind("tests/", 0) != 0) {
        if (corpus_folder().empty()) GTEST_SKIP() << "no corpus folder (E4_CORPUS)";
        source = corpus_folder() + "/crash/" + source + "/image.zst";
      }
      unzstd(source, image);
    }
    bytes_ = load_bytes(image);
  }
  TempDir dir_;
  std::shared_ptr<const Bytes> bytes_;
};

TEST_P(CheckFault, ACutAtAnyWriteEndsInTheSameState) {
  CrashDevice reference(bytes_);
  const check::Outcome whole = recover(reference);
  ASSERT_FALSE(whole.error) << whole.error->message();
  ASSERT_EQ(whole.verdict.left, 0u);
  const std::uint64_t writes = reference.writes();
  ASSERT_GT(writes, 0u);
  const auto log = log_pages(reference);

  // Every write where that is cheap; else evenly spaced ones (E4_FAULT_ALL: all).
  const std::uint64_t limit = std::getenv("E4_FAULT_ALL") != nullptr ? writes : 150;
  const std::uint64_t step = std::max<std::uint64_t>(1, writes / limit);
  for (std::uint64_t n = 0; n < writes; n += step) {
    for (const bool lossy : {false, true}) {
      CrashDevice device(bytes_);
      device.cut_after(n);
      const check::Outcome cut = recover(device);
      ASSERT_TRUE(device.cut()) << n;
      ASSERT_TRUE(cut.error) << "a failed write went unnoticed at write " << n;
      Random rng(n);
      auto medium = device.after_cut(lossy ? &rng : nullptr);
      const check::Outcome again = recover(*medium);
      ASSERT_FALSE(again.error) << "cut at write " << n << ": " << again.error->message();
      ASSERT_EQ(again.verdict.left, 0u) << "cut at write " << n;
      const long long page = first_difference(reference, *medium, log);
      ASSERT_EQ(page, -1) << "cut at write " << n << " of " << writes << (lossy ? ", unflushed writes lost" : "") << ": KiB " << page
                          << " differs";
    }
  }
  RecordProperty("writes", static_cast<int>(writes));
}

INSTANTIATE_TEST_SUITE_P(
    All, CheckFault,
    ::testing::Values(Case{"orphan_file", "tests/images/orphan-file-4k.img.zst"}, Case{"overflow_nocsum", "tests/images/overflow-1k.img.zst"},
                      Case{"legacy_list", "c05-legacy-4k-csum"}, Case{"bigalloc", "c09-bigalloc"}, Case{"fast_commit", "c13-fast-commit"},
                      Case{"truncate", "c16-truncate-in-progress"}, Case{"ea_inode", "c11-ea-inode"}, Case{"quota", "c30-quota-4k"},
                      Case{"frozen", "c21-frozen"}, Case{"fast_commit_refused", "c29-fast-commit-kernel-refuses"},
                      Case{"empty_log", "", {"-b", "4096", "-t", "ext4", "-J", "size=4", "-O", "^metadata_csum,orphan_file"}}),
    [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace e4
