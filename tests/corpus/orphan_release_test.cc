// SPDX-License-Identifier: GPL-2.0-only
// Every recorded crash image, recovered in memory: as many orphans deleted and
// truncated as the kernel counted, as much free as the kernel left, in one
// batch and in small ones, and not a byte of the image written.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/endian.h"
#include "image/container.h"
#include "journal/fast_commit.h"
#include "journal/recovery.h"
#include "orphan/release.h"
#include "tests/support/fsck_run.h"
#include "tests/support/temp_dir.h"

namespace e4::orphan {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string corpus() {
  const char* env = std::getenv("E4_CORPUS");
  return env != nullptr ? env : "../shared/corpus";
}

std::vector<std::string> crash_images() {
  std::vector<std::string> names;
  if (fs::is_directory(corpus() + "/crash"))
    for (const auto& e : fs::directory_iterator(corpus() + "/crash")) names.push_back(e.path().filename());
  std::sort(names.begin(), names.end());
  if (names.empty()) names.emplace_back("none");
  return names;
}

struct After {
  Totals planned;
  ReleaseTotals done;
  std::uint64_t free_blocks = 0, free_inodes = 0;
  unsigned batches = 0;
};

/// Recovers in memory. With a capacity, each batch goes down into a second overlay, as a commit would. At the end
/// everything is written to `target`, if there is one.
Result<After> recover(image::Device& device, std::uint32_t block_bytes, std::size_t capacity, image::Device* target = nullptr) {
  After after;
  image::Overlay disk(device, block_bytes);
  ClassifyOptions how;
  {
    auto filsys = E4_TRY(image::Filsys::open(device, {.ignore_checksums = true}));
    const auto plan = E4_TRY(journal::plan_recovery(device, filsys));
    E4_TRY(journal::apply(plan, disk));
    how.find_unlisted = !E4_TRY(journal::replay_fast_commits(plan, disk)).orphans.empty();
  }
  image::Overlay overlay(disk, block_bytes);
  auto volume = E4_TRY(Volume::load(overlay));
  Plan plan = E4_TRY(classify(volume, how));
  after.planned = plan.totals();
  Releaser releaser(volume, plan, {.now = 1'900'000'000, .capacity_blocks = capacity, .done = {}});
  while (E4_TRY(releaser.batch())) {
    ++after.batches;
    EXPECT_LE(overlay.dirty_count(), capacity);
    for (const Blk b : overlay.dirty_blocks()) {
      const auto data = E4_TRY(overlay.view(b));
      E4_TRY(disk.write(b * block_bytes, data));
      overlay.settled(b);
    }
  }
  after.done = releaser.totals();
  const Volume end = E4_TRY(Volume::load(disk));
  for (GroupNo g = 0; g < end.geo().groups_count; ++g) {
    after.free_blocks += std::uint64_t{end.group(g).free_blocks} * end.geo().cluster_blocks;
    after.free_inodes += end.group(g).free_inodes;
  }
  for (Blk b = 0; target != nullptr && b < disk.blocks_count(); ++b) {
    const auto data = E4_TRY(disk.view(b));
    E4_TRY(target->write(b * block_bytes, data));
  }
  EXPECT_FALSE(end.orphan_present());
  EXPECT_EQ(end.last_orphan(), 0U);
  return after;
}

/// `list_quota`'s lines, blanks made one, sorted: the order is that of the file.
std::vector<std::string> quota_lines(const std::string& image, const std::string& kind) {
  std::istringstream in(testing_support::run_tool({"debugfs", "-R", "list_quota " + kind, image}).output);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    std::istringstream split(line);
    std::string joined;
    for (std::string w; split >> w;) joined += (joined.empty() ? "" : " ") + w;
    if (!joined.empty() && joined.find("debugfs") == std::string::npos) lines.push_back(joined);
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

class CorpusOrphans : public ::testing::TestWithParam<std::string> {};

TEST_P(CorpusOrphans, ReleasedAsTheKernelReleasesThem) {
  if (GetParam() == "none") GTEST_SKIP() << "no corpus at " << corpus();
  const std::string folder = corpus() + "/crash/" + GetParam();
  const json oracle = json::parse(std::ifstream(folder + "/oracle.json"));
  const json& kernel = oracle["kernel_recovery"];
  const bool refused = !kernel["mount_error"].is_null();
  const json& expected = refused ? oracle["e2fsck_fy"]["after"] : kernel["after_umount"];
  auto image = image::open_container(folder + "/image.zst");
  ASSERT_TRUE(image) << image.error().message();
  const auto after = recover(**image, expected["block_size"], static_cast<std::size_t>(-1));
  ASSERT_TRUE(after) << after.error().message();
  const auto parts = recover(**image, expected["block_size"], 40);
  ASSERT_TRUE(parts) << parts.error().message();
  EXPECT_EQ(after->batches, 1U);
  EXPECT_EQ(parts->done.erased, after->done.erased);
  EXPECT_EQ(parts->done.freed_bytes, after->done.freed_bytes);
  EXPECT_EQ(parts->free_blocks, after->free_blocks);
  EXPECT_EQ(parts->free_inodes, after->free_inodes);
  EXPECT_EQ(after->planned.leave, 0U);
  EXPECT_EQ(after->done.left, 0U);
  if (!refused) {
    EXPECT_EQ(after->done.erased, kernel["orphans_deleted"]);
    EXPECT_EQ(after->done.truncated + after->done.dropped, kernel["truncates_cleaned_up"]);
  }
  EXPECT_EQ(after->done.freed_bytes, after->planned.back_bytes);
  EXPECT_EQ(after->free_blocks, expected["free_blocks"]);
  EXPECT_EQ(after->free_inodes, expected["free_inodes"]);

  if (!kernel.contains("quota")) return;
  const testing_support::TempDir dir("/dev/shm");
  testing_support::unzstd(folder + "/image.zst", dir / "image");
  {
    auto target = image::open_file(dir / "image", {.writable = true});
    ASSERT_TRUE(target);
    ASSERT_TRUE(recover(**image, expected["block_size"], static_cast<std::size_t>(-1), target->get()));
  }
  for (const auto& [kind, lines] : kernel["quota"].items()) {
    if (lines.size() < 2 || lines[1].get<std::string>().find("list_quota") != std::string::npos) continue;
    auto sorted = lines.get<std::vector<std::string>>();
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(quota_lines(dir / "image", kind), sorted) << kind;
  }
  EXPECT_EQ(testing_support::e2fsck_fn(dir / "image").status, 0);
}

std::string image_name(const ::testing::TestParamInfo<std::string>& i) {
  std::string name = i.param;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
}
INSTANTIATE_TEST_SUITE_P(Crash, CorpusOrphans, ::testing::ValuesIn(crash_images()), image_name);

}  // namespace
}  // namespace e4::orphan
