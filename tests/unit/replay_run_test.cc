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

Called call(const std::vector<std::string>& args) {
  std::istringstream in;
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

}  // namespace
}  // namespace e4::replay
