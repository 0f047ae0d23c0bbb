// SPDX-License-Identifier: GPL-2.0-only
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "replay/comparison.h"
#include "replay/replay.h"
#include "tests/support/temp_dir.h"
#include "trace/input.h"

namespace e4::replay {
namespace {

namespace fs = std::filesystem;
constexpr const char* kRecordings = "tests/recorded";

struct Ran {
  int status;
  std::string out, err;
};
Ran tool(const std::vector<std::string>& args) {
  std::istringstream in;
  std::ostringstream out, err;
  cli::Io io{in, out, err};
  const int status = run(args, io);
  return {status, out.str(), err.str()};
}

std::vector<std::string> recordings() {
  std::vector<std::string> names;
  std::error_code ec;
  for (const auto& e : fs::directory_iterator(kRecordings, ec))
    if (fs::exists(e.path() / "meta.json")) names.push_back(e.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string decompressed(const std::string& path) {
  auto source = trace::open_bytes(path);
  EXPECT_TRUE(source);
  std::string all, chunk(1 << 16, '\0');
  for (;;) {
    auto n = (*source)->read(chunk.data(), chunk.size());
    EXPECT_TRUE(n);
    if (!n || *n == 0) return all;
    all.append(chunk, 0, *n);
  }
}

TEST(ReplayCompare, OurOwnRecordingsAreIdenticalInBothModes) {
  const auto names = recordings();
  ASSERT_GE(names.size(), 2U) << "run from the top of the tree";
  for (const std::string& name : names)
    for (const trace::Mode mode : {trace::Mode::resync, trace::Mode::free_run}) {
      CompareOptions o;
      o.from.recording = std::string(kRecordings) + "/" + name;
      o.mode = mode;
      const auto c = compare(o);
      ASSERT_TRUE(c) << name << ": " << c.error().message();
      ASSERT_EQ(c->filesystems.size(), 1U);
      const ComparedFilesystem& f = c->filesystems[0];
      EXPECT_GT(f.result.total.decisions, 0U) << name;
      EXPECT_EQ(f.result.total.identical, f.result.total.decisions) << name;
      EXPECT_EQ(f.result.total.all_fields, f.result.total.searched) << name;
      EXPECT_EQ(f.end_different_blocks, std::optional<std::uint64_t>(0)) << name;
      EXPECT_EQ(f.groups_different.value_or(0), 0U) << name << ": " << f.first_group_difference;
      EXPECT_TRUE(c->all_identical()) << name;
    }
}

TEST(ReplayCompare, TheJsonDocumentHasWhatOthersRelyOn) {
  const Ran r = tool({"compare", "--json", std::string(kRecordings) + "/tiny"});
  EXPECT_EQ(r.status, 0) << r.err;
  const auto j = nlohmann::json::parse(r.out);
  EXPECT_EQ(j.at("schema"), "e4replay-compare");
  EXPECT_EQ(j.at("recording"), "tiny");
  EXPECT_GT(j.at("events").get<int>(), 1000);
  EXPECT_EQ(j.at("lost_events"), 0);
  EXPECT_GE(j.at("wall_seconds").get<double>(), 0.0);
  const auto& f = j.at("filesystems").at(0);
  EXPECT_TRUE(f.at("device").is_string());
  EXPECT_EQ(f.at("decisions"), f.at("identical"));
  EXPECT_EQ(f.at("decisions"), f.at("same_group"));
  EXPECT_TRUE(f.at("first_divergence").is_null());
  EXPECT_EQ(f.at("end_bitmap").at("identical"), true);
  EXPECT_EQ(f.at("end_bitmap").at("different_blocks"), 0);
  EXPECT_EQ(f.at("mode"), "resync");
}

TEST(ReplayCompare, ADifferenceIsExitOneAndNamed) {
  // Another tunable than the kernel had: decisions differ, and resync still leads to the recorded end.
  const Ran r = tool({"compare", "--json", "--set", "mb_group_prealloc=64", std::string(kRecordings) + "/tiny"});
  EXPECT_EQ(r.status, 1) << r.err;
  const auto j = nlohmann::json::parse(r.out);
  const auto& f = j.at("filesystems").at(0);
  EXPECT_LT(f.at("identical").get<int>(), f.at("decisions").get<int>());
  const auto& first = f.at("first_divergence");
  for (const char* key : {"event", "inode", "logical", "kernel", "ours", "why"}) EXPECT_TRUE(first.contains(key)) << key;
  EXPECT_TRUE(first.at("kernel").contains("block"));
  EXPECT_TRUE(first.at("ours").contains("len"));
  EXPECT_EQ(f.at("end_bitmap").at("identical"), true);
  const Ran free_run = tool({"compare", "--json", "--free-run", "--set", "mb_group_prealloc=64", std::string(kRecordings) + "/tiny"});
  EXPECT_EQ(free_run.status, 1);
  EXPECT_EQ(nlohmann::json::parse(free_run.out).at("filesystems").at(0).at("mode"), "free-run");
}

TEST(ReplayCompare, PartsByHandGiveTheSameAsTheRecording) {
  const std::string dir = std::string(kRecordings) + "/tiny/";
  const Ran r = tool({"compare", "--json", "--image", dir + "start.qcow2.zst", "--end-image", dir + "end.qcow2.zst", "--set", "cpus=2",
                      "--set", "rotational=1", dir + "trace.dat.zst"});
  EXPECT_EQ(r.status, 0) << r.err;
  const auto j = nlohmann::json::parse(r.out);
  EXPECT_EQ(j.at("filesystems").at(0).at("decisions"), j.at("filesystems").at(0).at("identical"));
}

TEST(ReplayCompare, WhatCannotBeRunIsExitEightAndUsageSixteen) {
  EXPECT_EQ(tool({"compare", "--json", "/nonexistent"}).status, 8);
  EXPECT_EQ(tool({"compare", "--device", "9:9", std::string(kRecordings) + "/tiny"}).status, 8);
  EXPECT_EQ(tool({"compare", "--set", "nonsense=1", std::string(kRecordings) + "/tiny"}).status, 8);
  EXPECT_EQ(tool({"compare"}).status, 16);
  EXPECT_EQ(tool({"frobnicate"}).status, 16);
  EXPECT_EQ(tool({"--version"}).status, 0);
}

class DamagedRecording : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::copy(std::string(kRecordings) + "/tiny", dir_ / "r");
    fs::permissions(dir_ / "r", fs::perms::owner_all);
  }
  void write(const std::string& name, const std::string& content) {
    std::ofstream(dir_ / ("r/" + name), std::ios::binary | std::ios::trunc) << content;
  }
  testing_support::TempDir dir_;
};

TEST_F(DamagedRecording, ACutTraceIsReplayedAsFarAsItGoesOrRefused) {
  const std::string dat = decompressed(dir_ / "r/trace.dat.zst");
  fs::remove(dir_ / "r/trace.dat.zst");
  for (std::size_t n = 0; n < dat.size(); n += dat.size() / 24 + 1) {
    write("trace.dat", dat.substr(0, n));
    const Ran r = tool({"compare", "--json", dir_ / "r"});
    EXPECT_TRUE(r.status == 0 || r.status == 1 || r.status == 8) << n;
    EXPECT_EQ(r.status == 8, !r.err.empty()) << n << r.err;
  }
}

TEST_F(DamagedRecording, FlippedBytesInTheTraceNeverCrash) {
  const std::string dat = decompressed(dir_ / "r/trace.dat.zst");
  fs::remove(dir_ / "r/trace.dat.zst");
  std::uint64_t state = 12345;
  for (int i = 0; i < 60; ++i) {
    std::string bad = dat;
    for (int k = 0; k < 20; ++k) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      // The pages, not the formats: those are libtraceevent's to parse.
      bad[bad.size() / 2 + (state >> 33) % (bad.size() / 2)] ^= static_cast<char>(1U << (state >> 20 & 7));
    }
    write("trace.dat", bad);
    const Ran r = tool({"compare", "--json", i % 2 == 0 ? "--resync" : "--free-run", dir_ / "r"});
    EXPECT_TRUE(r.status == 0 || r.status == 1 || r.status == 8) << i;
  }
}

TEST_F(DamagedRecording, BadMetaIsOneClearLine) {
  for (const char* meta : {"", "[]", "{", "{\"filesystems\": []}", "{\"filesystems\": 5}"}) {
    write("meta.json", meta);
    const Ran r = tool({"compare", dir_ / "r"});
    EXPECT_EQ(r.status, 8) << meta;
    EXPECT_NE(r.err.find("meta.json"), std::string::npos) << meta;
  }
}

TEST(ReplayInfo, DescribesARecording) {
  const Ran text = tool({"info", "--count", std::string(kRecordings) + "/tiny"});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find("ext4_request_blocks"), std::string::npos);
  const Ran json = tool({"info", "--json", std::string(kRecordings) + "/tiny"});
  const auto j = nlohmann::json::parse(json.out);
  EXPECT_EQ(j.at("schema"), "e4replay-info");
  EXPECT_EQ(j.at("filesystems").at(0).at("start").at("block_bytes"), 1024);
}

TEST(ReplayPolicies, ListsEveryPolicyWithItsDefault) {
  const auto j = nlohmann::json::parse(tool({"policies", "--json"}).out);
  EXPECT_GE(j.at("policies").size(), 8U);
  EXPECT_GE(j.at("presets").size(), 1U);
}

}  // namespace
}  // namespace e4::replay
