// SPDX-License-Identifier: GPL-2.0-only
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "replay/comparison.h"

namespace e4::replay {
namespace {

/// What the first throw-away model reached on each recorded file system: never fewer alike, never more that differ.
struct Floor {
  const char* recording;
  std::size_t filesystem;
  std::uint64_t decisions;   // completed by the kernel
  std::uint64_t differing;   // at most so many
  bool clean;                // no difference at all, in both modes, final bitmap included
};
constexpr Floor kFloors[] = {
    {"01-seqcreate", 0, 2616, 0, true},         {"02-falloc8k-1p", 0, 9010, 0, true},
    {"03-falloc128m-1p", 0, 25387, 0, true},    {"04-falloc8k-2p", 0, 16006, 6, false},
    {"05-cp-include", 0, 1229, 0, true},        {"06-fsmark", 0, 1844, 0, true},
    {"07-append-logs", 0, 844, 0, true},        {"08-aged90-big", 0, 1319, 0, true},
    {"09-aged90-big-noopt", 0, 1493, 0, true},  {"10-rwpunch", 0, 3334, 0, true},
    {"11-sqlite", 0, 264, 0, true},             {"12-fio-randwrite-2j", 0, 6157, 0, true},
    {"13-dbench", 0, 323, 1, false},            {"14-bigalloc", 0, 2413, 1, false},
    {"15-1k-block", 0, 2262, 0, true},          {"16-stripe", 0, 281, 0, true},
    {"17-nodelalloc", 0, 13342, 0, true},       {"18-data-journal", 0, 17208, 15, false},
    {"19-enospc", 0, 6080, 28, false},          {"20-orphan-stress", 0, 83, 0, true},
    {"21-git-clone", 0, 6311, 0, true},         {"22-sparse64g-aged", 0, 415, 0, true},
    {"23-sparse1t", 0, 12266, 0, true},         {"24-two-devices", 0, 706, 0, true},
    {"24-two-devices", 1, 1102, 6, false},      {"25-fast-commit", 0, 1987, 0, true},
    {"26-indirect", 0, 2408, 4, false},         {"27-discard", 0, 1649, 57, false},
    {"28-tiny", 0, 17, 0, true},                {"29-mixed-60s", 0, 1911, 7, false},
    {"31-falloc8k-2p-commits", 0, 18044, 3, false},
};

std::filesystem::path corpus() {
  const char* env = std::getenv("E4_CORPUS");  // NOLINT(concurrency-mt-unsafe)
  return env != nullptr && *env != 0 ? env : "../shared/corpus";
}

class RecordedCompare : public ::testing::TestWithParam<Floor> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(corpus() / "traces")) GTEST_SKIP() << "no corpus at " << corpus() << " (E4_CORPUS)";
  }
  static Result<Comparison> run(trace::Mode mode) {
    CompareOptions o;
    o.from.recording = (corpus() / "traces" / GetParam().recording).string();
    o.mode = mode;
    return compare(o);
  }
};

TEST_P(RecordedCompare, ResyncReachesTheFloor) {
  const Floor& floor = GetParam();
  const auto c = run(trace::Mode::resync);
  ASSERT_TRUE(c) << c.error().message();
  ASSERT_GT(c->filesystems.size(), floor.filesystem);
  const ComparedFilesystem& f = c->filesystems[floor.filesystem];
  EXPECT_EQ(c->lost_events, 0U);
  EXPECT_EQ(f.result.total.decisions, floor.decisions);
  EXPECT_LE(f.result.total.decisions - f.result.total.identical, floor.differing);
  EXPECT_EQ(f.result.refused_same, f.result.refused) << "every refused claim is refused";
  EXPECT_EQ(f.result.refused_by_us, 0U);
  EXPECT_EQ(f.end_different_blocks, std::optional<std::uint64_t>(0)) << "the kernel's choices lead to the kernel's bitmap";
  EXPECT_EQ(f.groups_different.value_or(0), 0U) << f.first_group_difference;
  EXPECT_EQ(f.result.pa_count_differs, 0U);
  EXPECT_EQ(f.result.free_errors + f.result.impose_errors, 0U);
  EXPECT_EQ(f.result.causes[static_cast<std::size_t>(trace::Cause::unexplained)], 0U) << "every difference has a cause";
  if (floor.clean) {
    EXPECT_EQ(f.result.total.all_fields, f.result.total.searched) << "every printed field";
  }
}

TEST_P(RecordedCompare, CleanRecordingsStayCleanInFreeRun) {
  if (!GetParam().clean) return;
  const auto c = run(trace::Mode::free_run);
  ASSERT_TRUE(c) << c.error().message();
  const ComparedFilesystem& f = c->filesystems[GetParam().filesystem];
  EXPECT_EQ(f.result.total.identical, f.result.total.decisions);
  EXPECT_EQ(f.end_different_blocks, std::optional<std::uint64_t>(0));
}

INSTANTIATE_TEST_SUITE_P(Corpus, RecordedCompare, ::testing::ValuesIn(kFloors), [](const auto& param) {
  std::string s = param.param.recording;
  for (char& c : s)
    if (c == '-') c = '_';
  return s + (param.param.filesystem != 0 ? "_second" : "");
});

}  // namespace
}  // namespace e4::replay
