// SPDX-License-Identifier: GPL-2.0-only
// Every recorded crash image, those in tests/crash and those of the corpus:
// what `e4fsck -p` leaves must be what the kernel's own recovery left (e2fsck's where the kernel refuses the
// image), to the last free block, file byte and attribute.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/fsck_run.h"
#include "support/oracle.h"
#include "support/temp_dir.h"

namespace e4 {
namespace {

using namespace testing_support;
using nlohmann::json;

std::vector<std::string> crash_images() {
  std::vector<std::string> names;
  const std::string corpus = corpus_folder();
  for (const std::string& folder : {std::string("tests"), corpus.empty() ? "nowhere" : corpus})
    if (std::filesystem::is_directory(folder + "/crash"))
      for (const auto& e : std::filesystem::directory_iterator(folder + "/crash"))
        if (e.is_directory()) names.push_back(folder + "/crash/" + e.path().filename().string());
  std::sort(names.begin(), names.end());
  if (corpus.empty()) names.emplace_back("no-corpus");
  return names;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string s;
  for (const std::string& l : lines) s += l + "\n";
  return s;
}

class CorpusCrash : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "no-corpus") GTEST_SKIP() << "no corpus folder (E4_CORPUS)";
    const std::string& folder = GetParam();
    oracle_ = json::parse(std::ifstream(folder + "/oracle.json"));
    image_ = dir_ / "image";
    unzstd(folder + "/image.zst", image_);
    kernel_refuses_ = !oracle_["kernel_recovery"]["mount_error"].is_null();
  }
  /// The recovery ours is measured by.
  [[nodiscard]] const json& expected_after() const {
    return kernel_refuses_ ? oracle_["e2fsck_fy"]["after"] : oracle_["kernel_recovery"]["after_umount"];
  }
  /// Surviving files: the kernel's list, or e2fsck's where the kernel refused.
  [[nodiscard]] json expected_files() const {
    if (!kernel_refuses_) return oracle_["kernel_recovery"]["files"];
    json files = json::array();
    for (const json& d : oracle_["e2fsck_fy"]["files_diff"])
      if (d["e2fsck"].is_object()) files.push_back(d["e2fsck"]);
    return files;
  }

  TempDir dir_;
  std::string image_;
  json oracle_;
  bool kernel_refuses_ = false;
};

TEST_P(CorpusCrash, RecoversToTheKernelsResult) {
  const auto before = file_crc32c(image_);

  // -n first: the same story, and not a byte written.
  const json dry = e4fsck_json({"-n", image_});
  EXPECT_EQ(file_crc32c(image_), before) << "-n wrote to the image";
  const json wet = e4fsck_json({"-p", image_});
  const json &dv = dry["verdict"], &v = wet["verdict"];
  EXPECT_EQ(wet["exit_status"], 0) << wet.dump(1);
  EXPECT_EQ(v["left"], 0) << wet["findings"].dump(1);
  EXPECT_TRUE(dry["exit_status"] == 0 || (dry["exit_status"] == 4 && oracle_["crash_image"]["features"].dump().find("needs_recovery") == std::string::npos))
      << dry.dump(1);
  EXPECT_EQ(dv["orphans"], v["orphans"]);
  EXPECT_EQ(dv["journal"], v["journal"]);
  EXPECT_EQ(dv["counts"], v["counts"]);
  EXPECT_EQ(dv["bytes_written"], 0);
  EXPECT_GT(dv["bytes_would_write"], 0);
  EXPECT_GT(v["bytes_written"], 0);

  // The kernel's numbers.
  const json& after = expected_after();
  EXPECT_EQ(v["counts"]["free_blocks"], after["free_blocks"]);
  EXPECT_EQ(v["counts"]["free_inodes"], after["free_inodes"]);
  const FreeSpace space = free_space(image_);
  EXPECT_EQ(space.free_blocks, after["free_blocks"]);
  EXPECT_EQ(space.free_inodes, after["free_inodes"]);
  const json& lists = kernel_refuses_ ? oracle_["e2fsck_fy"] : oracle_["kernel_recovery"];
  EXPECT_EQ(sha256_of_lists(space.lists), lists["free_lists_sha256"]) << joined(space.lists).substr(0, 2000);
  if (!kernel_refuses_) {
    EXPECT_EQ(v["orphans"]["deleted"], oracle_["kernel_recovery"]["orphans_deleted"]);
    EXPECT_EQ(v["orphans"]["truncated"].get<int>() + v["orphans"]["dropped"].get<int>(),
              oracle_["kernel_recovery"]["truncates_cleaned_up"].get<int>());
  }

  // Everybody's second opinion, and every file.
  const ProcessRun second = e2fsck_fn(image_);
  EXPECT_EQ(second.status, 0) << second.output;
  const json files = expected_files();
  ASSERT_FALSE(files.empty());
  EXPECT_EQ(joined(compare_files(image_, files)), "");
  std::vector<std::string> want = {"/lost+found"};
  for (const json& f : files) want.push_back(f["path"]);
  std::sort(want.begin(), want.end());
  want.erase(std::unique(want.begin(), want.end()), want.end());
  const std::vector<std::string> paths = all_paths(image_);
  // Where only e2fsck is the measure, its recorded list of paths is cut short.
  if (kernel_refuses_) EXPECT_TRUE(std::includes(paths.begin(), paths.end(), want.begin(), want.end())) << joined(paths);
  else EXPECT_EQ(joined(paths), joined(want));

  // And nothing is left to do.
  const auto recovered = file_crc32c(image_);
  const json again = e4fsck_json({"-p", "-f", image_});
  EXPECT_EQ(again["exit_status"], 0);
  EXPECT_EQ(again["verdict"]["found"], 0) << again["findings"].dump(1);
  EXPECT_EQ(again["verdict"]["bytes_written"], 0);
  EXPECT_EQ(file_crc32c(image_), recovered);
}

INSTANTIATE_TEST_SUITE_P(All, CorpusCrash, ::testing::ValuesIn(crash_images()), [](const auto& param) {
  const std::string& path = param.param;
  std::string s = (path.rfind("tests/", 0) == 0 ? "small_" : "") + path.substr(path.rfind('/') + 1);
  std::replace(s.begin(), s.end(), '-', '_');
  return s;
});

}  // namespace
}  // namespace e4
