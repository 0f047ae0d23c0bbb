// SPDX-License-Identifier: GPL-2.0-only
// The recordings under tests/recordings that list examples: every decision, in both modes, and the worked examples listed beside them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "replay/comparison.h"
#include "trace/input.h"

namespace e4::test {
namespace {

namespace fs = std::filesystem;
const std::string kRecordings = "tests/recordings";

std::vector<std::string> names() {
  std::vector<std::string> all;
  if (fs::is_directory(kRecordings))
    for (const auto& e : fs::directory_iterator(kRecordings))
      if (fs::exists(e.path() / "examples.txt")) all.push_back(e.path().filename());
  std::sort(all.begin(), all.end());
  if (all.empty()) all.emplace_back("none");
  return all;
}

replay::Comparison replayed(const std::string& name, trace::Mode mode) {
  replay::CompareOptions options;
  options.from.recording = kRecordings + "/" + name;
  options.mode = mode;
  auto c = replay::compare(options);
  EXPECT_TRUE(c) << c.error().message();
  return c ? std::move(*c) : replay::Comparison{};
}

std::string trimmed(std::string s) {
  while (!s.empty() && s.back() == ' ') s.pop_back();
  return s;
}

/// Lines of examples.txt that begin with "= ", or lines of a trace in the same form, by section.
using Sections = std::map<std::string, std::vector<std::string>>;

Sections listed(const std::string& path) {
  Sections sections;
  std::ifstream in(path);
  std::string section;
  for (std::string l; std::getline(in, l);) {
    if (l.starts_with("[")) sections[section = l.substr(1, l.size() - 2)];
    else if (l.starts_with("=  ")) sections[section].push_back(trimmed(l.substr(3)));
  }
  return sections;
}

/// "ext4_NAME: dev M,N TEXT" of every trace line as "NAME: TEXT".
Sections printed(const std::string& path) {
  Sections sections;
  auto source = trace::open_bytes(path);
  if (!source) return sections;
  std::string text;
  std::vector<char> piece(1 << 16);
  for (;;) {
    const auto got = (*source)->read(piece.data(), piece.size());
    if (!got || *got == 0) break;
    text.append(piece.data(), *got);
  }
  std::string section;
  for (std::size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string l = text.substr(at, end - at);
    if (const auto p = l.find(" phase: "); p != std::string::npos) {
      section = l.substr(p + 8);
      continue;
    }
    const auto dev = l.find(" dev ");
    const auto name = dev == std::string::npos ? dev : l.find("ext4_");
    if (name == std::string::npos || name > dev) continue;
    const auto text_at = l.find(' ', dev + 5);
    if (text_at == std::string::npos) continue;
    sections[section].push_back(l.substr(name + 5, l.find(':', name) - name - 5) + ": " + trimmed(l.substr(text_at + 1)));
  }
  return sections;
}

class ReplayRecordings : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "none") GTEST_SKIP() << "no recordings at " << kRecordings << " (run from the top of the tree)";
  }
};

void expect_all_identical(const replay::Comparison& c) {
  ASSERT_EQ(c.filesystems.size(), 1U);
  const auto& f = c.filesystems[0];
  EXPECT_GT(f.result.total.decisions, 0U);
  EXPECT_EQ(f.result.total.identical, f.result.total.decisions);
  EXPECT_EQ(f.result.total.all_fields, f.result.total.searched);
  EXPECT_EQ(f.result.refused_by_us, 0U);
  EXPECT_EQ(f.result.free_errors, 0U);
  EXPECT_EQ(f.result.pa_count_differs, 0U);
  ASSERT_TRUE(f.end_different_blocks);
  EXPECT_EQ(*f.end_different_blocks, 0U);
  ASSERT_TRUE(f.groups_different);
  EXPECT_EQ(*f.groups_different, 0U) << f.first_group_difference;
}

TEST_P(ReplayRecordings, EveryDecisionIsTheKernelsWithResync) {
  expect_all_identical(replayed(GetParam(), trace::Mode::resync));
}

TEST_P(ReplayRecordings, EveryDecisionIsTheKernelsInAFreeRun) {
  expect_all_identical(replayed(GetParam(), trace::Mode::free_run));
}

// The lines of the examples are the kernel's own, and each decision in their phase was made again with every field.
TEST_P(ReplayRecordings, WorkedExamplesHold) {
  const auto examples = listed(kRecordings + "/" + GetParam() + "/examples.txt");
  ASSERT_FALSE(examples.empty());
  auto trace = printed(kRecordings + "/" + GetParam() + "/trace.txt.zst");
  const auto compared = replayed(GetParam(), trace::Mode::resync);
  ASSERT_EQ(compared.filesystems.size(), 1U);
  for (const auto& [section, lines] : examples) {
    SCOPED_TRACE(section);
    auto at = trace[section].begin();
    std::uint64_t allocated = 0, searched = 0;
    for (const auto& l : lines) {
      if (l.starts_with("jbd2_")) continue;
      at = std::find(at, trace[section].end(), l);
      ASSERT_NE(at, trace[section].end()) << "not printed, or not in this order: " << l;
      ++at;
      allocated += l.starts_with("allocate_blocks:");
      searched += l.starts_with("mballoc_alloc:");
    }
    trace::Tally tally;
    for (const auto& [phase, kinds] : compared.filesystems[0].result.phases)
      if (phase == section.substr(0, 80))
        for (const auto& k : kinds) tally.add(k);
    EXPECT_EQ(tally.decisions, allocated);
    EXPECT_EQ(tally.identical, allocated);
    EXPECT_EQ(tally.searched, searched);
    EXPECT_EQ(tally.all_fields, searched);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ReplayRecordings, testing::ValuesIn(names()), [](const auto& p) {
  std::string name = p.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace e4::test
