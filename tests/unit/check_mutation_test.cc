// SPDX-License-Identifier: GPL-2.0-only
// Damage of every kind to what recovery reads: superblock, descriptors,
// bitmaps, journal, orphan file, inodes. Whatever is there, a run ends in
// bounded time without a crash, and after -y a second run repairs nothing and
// finds nothing the first has not listed as left. E4_MUTATIONS: how many
// (default 300); E4_MUTATION_FIRST: the first seed; E4_MUTATION_DUMP: where to
// put the damaged image.
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <set>

#include "check/pipeline.h"
#include "support/crash_device.h"
#include "support/fsck_run.h"
#include "support/mutate.h"
#include "support/temp_dir.h"

namespace e4 {
namespace {

using namespace testing_support;

std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const char* s = std::getenv(name);
  return s != nullptr ? std::strtoull(s, nullptr, 10) : otherwise;
}

struct Recovery {
  check::Outcome outcome;
  std::set<std::string> left;  // what was found and not repaired
  std::set<std::string> all;
  double seconds = 0;
};

Recovery recover(image::Device& device, check::Mode mode) {
  report::Collector sink;
  auto progress = report::no_progress();
  const check::Options options{.mode = mode, .now = static_cast<std::uint64_t>(kFixedTime)};
  const auto start = std::chrono::steady_clock::now();
  Recovery r;
  r.outcome = check::check_image(device, options, sink, *progress);
  r.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (const report::Finding& f : sink.findings()) {
    if (f.severity == report::Severity::note) continue;
    const std::string key = std::string(f.id) + ": " + f.text;
    r.all.insert(key);
    if (f.fate != report::Fate::fixed) r.left.insert(key);
  }
  return r;
}

/// Keeps the damaged image for a look with other tools.
void dump(image::Device& device, const char* path) {
  std::vector<std::byte> all(device.size());
  ASSERT_TRUE(device.read(0, all));
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(all.data()), static_cast<std::streamsize>(all.size()));
}

class CheckMutation : public ::testing::TestWithParam<const char*> {};

TEST_P(CheckMutation, NoCrashNoHangAndASecondRunFindsNothingNew) {
  const TempDir dir;
  unzstd(std::string("tests/images/") + GetParam() + ".img.zst", dir / "image");
  const auto bytes = load_bytes(dir / "image");
  const Mutator mutator(*bytes);
  const std::uint64_t first = number("E4_MUTATION_FIRST", 1), count = number("E4_MUTATIONS", 300) / 2;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    CrashDevice device(bytes);
    const std::string what = mutator.apply(device, seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + what);
    if (const char* path = std::getenv("E4_MUTATION_DUMP"); path != nullptr) dump(device, path);
    auto rehearsal = device.clone();
    const std::uint64_t writes = rehearsal->writes();
    const Recovery dry = recover(*rehearsal, check::Mode::read_only);
    ASSERT_EQ(rehearsal->writes(), writes) << "-n wrote";
    const Recovery one = recover(device, check::Mode::yes);
    auto again = device.clone();
    const Recovery two = recover(*again, check::Mode::yes);
    ASSERT_LT(dry.seconds + one.seconds + two.seconds, 20.0);
    if (one.outcome.error) {
      ASSERT_FALSE(one.outcome.error->text.empty());
      continue;
    }
    ASSERT_FALSE(two.outcome.error) << two.outcome.error->message();
    ASSERT_EQ(two.outcome.verdict.fixed, 0u) << *two.all.begin();
    ASSERT_EQ(two.outcome.verdict.bytes_written, 0u);
    for (const std::string& f : two.all) ASSERT_TRUE(one.left.contains(f)) << "new in the second run: " << f;
  }
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  EXPECT_LT(usage.ru_maxrss, 4L << 20) << "KiB of memory";
}

INSTANTIATE_TEST_SUITE_P(Images, CheckMutation, ::testing::Values("orphan-file-4k", "overflow-1k"), [](const auto& param) {
  std::string s = param.param;
  for (char& c : s)
    if (c == '-') c = '_';
  return s;
});

}  // namespace
}  // namespace e4
