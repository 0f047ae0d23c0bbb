// SPDX-License-Identifier: GPL-2.0-only
// run, what-if, report and materialize as a user calls them, on the small
// recordings that come with the sources.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/io.h"
#include "replay/options_run.h"
#include "replay/replay.h"
#include "support/temp_dir.h"

namespace e4::replay {
namespace {

struct Called {
  int status = 0;
  std::string out, err;
};

Called call(const std::vector<std::string>& args, const std::string& typed = "") {
  std::istringstream in(typed);
  std::ostringstream out, err;
  cli::Io io{in, out, err};
  io.environment = [](const char* name) { return std::string(std::string(name) == "SOURCE_DATE_EPOCH" ? "1700000000" : ""); };
  Called c;
  c.status = run(args, io);
  c.out = out.str();
  c.err = err.str();
  return c;
}

std::vector<std::string> recordings() {
  std::vector<std::string> names;
  for (const auto& e : std::filesystem::directory_iterator("tests/recordings"))
    if (e.is_directory()) names.push_back(e.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(ReplayRun, EveryRecordingRunsUnderEveryPreset) {
  for (const auto& name : recordings())
    for (const char* preset : {"linux-6.18", "linux-6.15"})
      for (const char* threads : {"1", "4"}) {
        const auto c = call({"run", "tests/recordings/" + name, "--preset", preset, "--threads", threads, "--json"});
        ASSERT_EQ(c.status, 0) << name << ": " << c.err;
        const auto j = nlohmann::json::parse(c.out);
        EXPECT_EQ(j.at("schema"), "e4replay-run/1");
        const auto& t = j.at("trials").at(0);
        EXPECT_GT(t.at("decisions").get<std::uint64_t>(), 0U) << name;
        std::uint64_t by = 0;
        for (const auto& k : t.at("criteria")) by += k.at("decisions").get<std::uint64_t>();
        EXPECT_EQ(by, t.at("decisions").get<std::uint64_t>()) << name;
      }
}

TEST(ReplayRun, WhatIfPutsTheSetsSideBySideWithAVerdict) {
  const auto c = call({"what-if", "tests/recordings/linear", "--with", "old:preset=linux-6.15", "--with", "scan=linear,busy-groups=wait",
                       "--repeat", "1"});
  ASSERT_EQ(c.status, 0) << c.err;
  for (const char* word : {"linux-6.18", "old", "scan=linear,busy-grou", "old against linux-6.18", "groups scanned"})
    EXPECT_NE(c.out.find(word), std::string::npos) << word << " in\n" << c.out;
}

TEST(ReplayRun, UnknownPoliciesAndMissingSetsAreUsageErrorsThatNameTheChoices) {
  const auto unknown = call({"run", "tests/recordings/linear", "--policy", "busy-groups=never"});
  EXPECT_NE(unknown.status, 0);
  EXPECT_NE(unknown.err.find("wait"), std::string::npos) << unknown.err;
  EXPECT_NE(call({"what-if", "tests/recordings/linear"}).status, 0);
  EXPECT_NE(call({"run", "tests/recordings/linear", "--threads", "0"}).status, 0);
  EXPECT_NE(call({"materialize", "tests/recordings/linear", "-o", "/dev/null", "--stop-at", "soon"}).status, 0);
}

TEST(ReplayRun, ReportIsOnePageWithTheRunsInIt) {
  testing_support::TempDir dir;
  const auto c = call({"report", "tests/recordings/optimised", "--with", "preset=linux-6.15", "-o", dir / "r.html"});
  ASSERT_EQ(c.status, 0) << c.err;
  std::ostringstream page;
  page << std::ifstream(dir / "r.html").rdbuf();
  EXPECT_NE(page.str().find("preset=linux-6.15"), std::string::npos);
  EXPECT_NE(page.str().find("</html>"), std::string::npos);
  EXPECT_NE(call({"report", "tests/recordings/optimised", "-o", dir / "no/such/dir/r.html"}).status, 0);
}

TEST(ReplayMaterialize, WholeAndCutShortRecordingsGiveCleanImages) {
  for (const auto& name : recordings()) {
    testing_support::TempDir dir;
    const auto whole = call({"materialize", "tests/recordings/" + name, "-o", dir / "img", "--json"});
    ASSERT_EQ(whole.status, 0) << name << ": " << whole.err;
    const auto events = nlohmann::json::parse(whole.out).at("events").get<std::uint64_t>();
    EXPECT_EQ(0, std::system(("e2fsck -fn " + (dir / "img") + " >" + (dir / "log") + " 2>&1").c_str()))
        << name << "\n" << std::ifstream(dir / "log").rdbuf();
    for (const std::uint64_t part : {1U, 3U, 7U}) {
      const auto cut = call({"materialize", "tests/recordings/" + name, "-o", dir / "cut", "--stop-at", std::to_string(events * part / 8), "--crash"});
      ASSERT_EQ(cut.status, 0) << name << ": " << cut.err;
      // e2fsck 1.47 looks at pending orphans first and calls what is left clean.
      const int rc = std::system(("e2fsck -fy " + (dir / "cut") + " >" + (dir / "log") + " 2>&1").c_str());
      EXPECT_TRUE(rc == 0 || rc == 256) << name << " at " << part << "/8";
      EXPECT_EQ(0, std::system(("e2fsck -fn " + (dir / "cut") + " >" + (dir / "log") + " 2>&1").c_str())) << name;
    }
  }
}

TEST(ReplayRun, PolicySetsAreANameAndWords) {
  const PolicySet plain = parse_policy_set("busy-groups=wait,scan=linear");
  EXPECT_EQ(plain.name, "busy-groups=wait,scan=linear");
  EXPECT_EQ(plain.words, (std::vector<std::string>{"busy-groups=wait", "scan=linear"}));
  const PolicySet named = parse_policy_set("old:preset=linux-6.15");
  EXPECT_EQ(named.name, "old");
  EXPECT_EQ(named.words, std::vector<std::string>{"preset=linux-6.15"});
}

TEST(ReplayGenerate, EveryWorkloadReplaysToItsOwnDecisionsAndEndState) {
  testing_support::TempDir dir;
  ASSERT_EQ(0, std::system(("mke2fs -Fq -t ext4 -b 4096 " + (dir / "img") + " 96M >/dev/null 2>&1").c_str()));
  for (const char* workload : {"fallocate2", "stress-orphan", "create-unlink", "untar", "append-logs", "ageing"}) {
    const std::string out = dir / workload;
    const auto g = call({"generate", workload, "-o", out, "--image", dir / "img", "--count", "600", "--seed", "7", "--json"});
    ASSERT_EQ(g.status, 0) << workload << ": " << g.err;
    EXPECT_GT(nlohmann::json::parse(g.out).at("decisions").get<int>(), 50) << workload;
    const auto c = call({"compare", out, "--json"});
    EXPECT_EQ(c.status, 0) << workload << ": " << c.out << c.err;
    EXPECT_EQ(0, std::system(("e2fsck -fn " + out + "/end.img >/dev/null 2>&1").c_str())) << workload;
  }
}

TEST(ReplayGenerate, SameSeedSameBytes) {
  testing_support::TempDir dir;
  ASSERT_EQ(0, std::system(("mke2fs -Fq -t ext4 -b 4096 " + (dir / "img") + " 64M >/dev/null 2>&1").c_str()));
  for (const char* name : {"a", "b", "c"})
    ASSERT_EQ(0, call({"generate", "untar", "-o", dir / name, "--image", dir / "img", "--count", "300", "--seed", name[0] == 'c' ? "2" : "1"}).status);
  for (const char* file : {"trace.txt", "end.img"}) {
    EXPECT_EQ(testing_support::file_crc32c(dir / "a/" + file), testing_support::file_crc32c(dir / "b/" + file)) << file;
    EXPECT_NE(testing_support::file_crc32c(dir / "a/" + file), testing_support::file_crc32c(dir / "c/" + file)) << file;
  }
  EXPECT_NE(call({"generate", "no-such", "-o", dir / "d"}).status, 0);
  EXPECT_NE(call({"generate", "untar", "-o", dir / "a", "--image", dir / "img"}).status, 0) << "never into a directory with something in it";
}

TEST(ReplayStep, GoingBackAndForthComesToTheSameState) {
  const auto c = call({"step", "tests/recordings/linear"}, "d\nstate\nd\nd\nb 2\nb 1\nn\nn\nn\nstate\ngroup 1\nq\n");
  ASSERT_EQ(c.status, 0) << c.err;
  const auto straight = call({"step", "tests/recordings/linear"}, "d\nd\nd\nstate\ngroup 1\n");
  ASSERT_EQ(straight.status, 0);
  const auto tail = [](const std::string& s) { return s.substr(s.rfind(" clusters free, ")); };
  EXPECT_EQ(tail(c.out), tail(straight.out));
  EXPECT_NE(c.out.find("ours: the same"), std::string::npos);
}

TEST(ReplayStep, ExplainTellsWhatEachCriterionTriedAndLeavesTheStateAlone) {
  const auto c = call({"step", "tests/recordings/linear"}, "d\nstate\nexplain\nstate\n");
  ASSERT_EQ(c.status, 0) << c.err;
  EXPECT_NE(c.out.find("CR_POWER2_ALIGNED"), std::string::npos) << c.out;
  const std::size_t first = c.out.find(" clusters free, "), second = c.out.rfind(" clusters free, ");
  ASSERT_NE(first, second);
  EXPECT_EQ(c.out.substr(first, 120), c.out.substr(second, 120));
}

TEST(ReplayStep, ABadCommandInAScriptIsNoticed) {
  const auto c = call({"step", "tests/recordings/linear"}, "fly\ngroup x\nexplain\nstate\n");
  EXPECT_EQ(c.status, 8);
  EXPECT_NE(c.err.find("unknown command 'fly'"), std::string::npos);
  EXPECT_NE(c.err.find("'x' is not a number"), std::string::npos);
}

TEST(ReplaySweep, ShardsTogetherAreTheWholeAndACutLineIsRunAgain) {
  testing_support::TempDir dir;
  const std::string here = std::filesystem::current_path().string();
  std::ofstream(dir / "sweep.json") << R"({"recordings": [")" << here << R"(/tests/recordings/linear", ")" << here
                                    << R"(/tests/recordings/stripe"], "policies": ["base:preset=linux-6.18", "preset=linux-6.15"], "threads": [1, 2]})";
  const std::string sweep = dir / "sweep.json";
  ASSERT_EQ(call({"sweep", sweep, "-o", dir / "all.jsonl", "-q"}).status, 0);
  ASSERT_EQ(call({"sweep", sweep, "-o", dir / "1.jsonl", "--shard", "1/3", "-q"}).status, 0);
  ASSERT_EQ(call({"sweep", sweep, "-o", dir / "2.jsonl", "--shard", "2/3", "-q"}).status, 0);
  const auto part = call({"merge", sweep, dir / "1.jsonl", dir / "2.jsonl", "-o", dir / "part.jsonl"});
  EXPECT_NE(part.status, 0) << "a shard is missing";
  EXPECT_NE(part.out.find("missing"), std::string::npos);
  ASSERT_EQ(call({"sweep", sweep, "-o", dir / "3.jsonl", "--shard", "3/3", "-q"}).status, 0);
  // The last line of a shard is cut, as by a crash: the next call runs that job again and nothing else.
  std::filesystem::resize_file(dir / "3.jsonl", std::filesystem::file_size(dir / "3.jsonl") - 10);
  const auto again = call({"sweep", sweep, "-o", dir / "3.jsonl", "--shard", "3/3", "-q"});
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_NE(again.out.find("1 of 2 jobs of this shard run, 1 were there already"), std::string::npos) << again.out;
  ASSERT_EQ(call({"merge", sweep, dir / "3.jsonl", dir / "1.jsonl", dir / "2.jsonl", "-o", dir / "whole.jsonl"}).status, 0);
  auto jobs = [](const std::string& path) {
    std::vector<std::string> ids;
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) ids.push_back(nlohmann::json::parse(line).at("job"));
    return ids;
  };
  EXPECT_EQ(jobs(dir / "whole.jsonl"), jobs(dir / "all.jsonl"));
  EXPECT_EQ(jobs(dir / "whole.jsonl").size(), 8U);
  EXPECT_NE(call({"sweep", sweep, "-o", dir / "x.jsonl", "--shard", "4/3"}).status, 0);
}

}  // namespace
}  // namespace e4::replay
