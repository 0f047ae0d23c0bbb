// SPDX-License-Identifier: GPL-2.0-only
// What went wrong for people with other checkers, case by case. Each image is
// made with mke2fs and damaged with debugfs; each repair is judged by a second
// forced read-only check, ours and e2fsck's.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "support/fsck_run.h"
#include "support/temp_dir.h"

namespace e4 {
namespace {

using namespace testing_support;
using nlohmann::json;

class CheckReports : public ::testing::Test {
 protected:
  /// No checksums, so that debugfs alone can craft it. The orphan file is
  /// inode 12, the first user inode 13.
  void base(const std::vector<std::string>& more = {}) {
    std::vector<std::string> options = {"-b", "4096", "-t", "ext4", "-O", "^metadata_csum,^metadata_csum_seed,orphan_file"};
    options.insert(options.end(), more.begin(), more.end());
    mke2fs(image_, "32M", options);
  }
  /// Inode `n` (below 256) into slot 0.
  void entry(int n) {
    debugfs(image_, {"zap_block -f <12> -o 0 -l 1 -p " + std::to_string(n) + " 0", "feature orphan_present"});
  }
  /// An unlinked inode 13 that still owns blocks.
  void unlinked_file() { debugfs(image_, {"write /usr/share/common-licenses/GPL-2 f", "sif <13> links_count 0", "unlink f"}); }

  [[nodiscard]] std::string stat_of(const std::string& inode) {
    return run_tool({"debugfs", "-R", "stat " + inode, image_}).output;
  }
  [[nodiscard]] std::string super() { return run_tool({"dumpe2fs", "-h", image_}).output; }
  static bool has(const json& j, const std::string& id) {
    for (const json& f : j["findings"])
      if (f["id"] == id) return true;
    return false;
  }
  /// Nobody finds anything any more, and looking changes nothing.
  void expect_settled() {
    const auto before = file_crc32c(image_);
    const json j = e4fsck_json({"-n", "-f", image_});
    EXPECT_EQ(j["exit_status"], 0) << j.dump(1);
    EXPECT_EQ(j["verdict"]["found"], 0) << j["findings"].dump(1);
    EXPECT_EQ(j["verdict"]["bytes_would_write"], 0) << j.dump(1);
    const json p = e4fsck_json({"-p", image_});
    EXPECT_EQ(p["exit_status"], 0) << p.dump(1);
    EXPECT_EQ(p["verdict"]["bytes_written"], 0) << p.dump(1);
    const ProcessRun second = e2fsck_fn(image_);
    EXPECT_EQ(second.status, 0) << second.output;
    EXPECT_EQ(file_crc32c(image_), before);
  }
  /// -n rehearses without writing, then `mode` repairs with that exit status.
  json repair(const std::string& mode, int status) {
    const auto before = file_crc32c(image_);
    const json dry = e4fsck_json({"-n", image_});
    EXPECT_EQ(file_crc32c(image_), before) << "-n wrote";
    EXPECT_EQ(dry["verdict"]["bytes_written"], 0);
    json j = e4fsck_json({mode, image_});
    EXPECT_EQ(j["exit_status"], status) << j.dump(1);
    EXPECT_EQ(j["verdict"]["orphans"], dry["verdict"]["orphans"]);
    return j;
  }

  TempDir dir_;
  std::string image_ = dir_ / "x.img";
};

TEST_F(CheckReports, Case01AnUnknownFeatureIsNamedAndKeepsUsFromWritingOnly) {
  base();
  debugfs(image_, {"feature FEATURE_C20"});
  const auto before = file_crc32c(image_);
  for (const char* mode : {"-n", "-p", "-y"}) {
    const FsckRun r = e4fsck({mode, image_});
    EXPECT_EQ(r.status, 0) << r.out << r.err;
    EXPECT_NE(r.out.find("FEATURE_C20"), std::string::npos) << r.out;
    EXPECT_NE(r.out.find("files"), std::string::npos) << r.out;
  }
  EXPECT_EQ(file_crc32c(image_), before);

  unlinked_file();
  entry(13);
  const auto waiting = file_crc32c(image_);
  const FsckRun r = e4fsck({"-y", image_});
  EXPECT_EQ(r.status, 12) << r.out << r.err;
  EXPECT_NE(r.err.find("nothing was written"), std::string::npos) << r.err;
  EXPECT_EQ(file_crc32c(image_), waiting);
}

TEST_F(CheckReports, Case01AnUnknownIncompatibleFeatureStopsWithTwelve) {
  base();
  debugfs(image_, {"feature FEATURE_I30"});
  const auto before = file_crc32c(image_);
  const FsckRun r = e4fsck({"-y", image_});
  EXPECT_EQ(r.status, 12) << r.out << r.err;
  EXPECT_NE(r.out.find("FEATURE_I30"), std::string::npos) << r.out;
  EXPECT_EQ(file_crc32c(image_), before);
}

TEST_F(CheckReports, Case06WaitingOrphansAreNeverClean) {
  base();
  unlinked_file();
  entry(13);
  const FsckRun n = e4fsck({"-n", image_});
  EXPECT_EQ(n.status, 4) << n.out;
  EXPECT_EQ(n.out.find("clean"), std::string::npos) << n.out;
  EXPECT_NE(n.out.find("inode 13"), std::string::npos) << n.out;
  const json j = repair("-p", 0);
  EXPECT_EQ(j["verdict"]["orphans"]["deleted"], 1);
  EXPECT_GT(j["verdict"]["orphans"]["freed_blocks"], 0);
  expect_settled();
}

TEST_F(CheckReports, Case07JournalOnlyReleasesSlotAndInodeTogether) {
  base();
  unlinked_file();
  entry(13);
  const FsckRun r = e4fsck({"-E", "journal_only", "-y", image_});
  EXPECT_EQ(r.status, 0) << r.out << r.err;
  expect_settled();
}

TEST_F(CheckReports, Case08AnEmptyOrphanFileWithTheFlagIsClearedInSilence) {
  base();
  debugfs(image_, {"feature orphan_present"});
  const FsckRun r = e4fsck({"-p", image_});
  EXPECT_LE(r.status, 1) << r.out;
  EXPECT_EQ(r.out.find("orphan_present"), std::string::npos) << r.out;
  EXPECT_EQ(super().find("orphan_present"), std::string::npos);
  expect_settled();
}

TEST_F(CheckReports, Case11AnOrphanFileAboveTheKernelsLimitIsShrunk) {
  mke2fs(image_, "32M", {"-b", "1024", "-t", "ext4", "-O", "orphan_file,metadata_csum", "-E", "orphan_file_size=600"});
  const json j = repair("-p", 1);
  EXPECT_TRUE(has(j, "orphan-too-big")) << j.dump(1);
  EXPECT_NE(super().find("orphan_file"), std::string::npos);
  expect_settled();
}

TEST_F(CheckReports, Case12AnEntryPastTheLastInodeIsClearedAndTheOthersGoOn) {
  base();
  unlinked_file();
  debugfs(image_, {"zap_block -f <12> -o 0 -l 3 -p 255 0", "zap_block -f <12> -o 8 -l 1 -p 13 0", "feature orphan_present"});
  const json j = repair("-p", 1);
  EXPECT_TRUE(has(j, "orphan-range")) << j.dump(1);
  EXPECT_EQ(j["findings"][0]["slot"], 0);
  EXPECT_EQ(j["findings"][0]["args"]["ino"], 16777215);
  EXPECT_EQ(j["verdict"]["orphans"]["deleted"], 1);
  EXPECT_EQ(j["verdict"]["orphans"]["dropped"], 1);
  expect_settled();
}

TEST_F(CheckReports, Case13ALostOrphanFileIsFoundAgain) {
  for (const char* value : {"0", "999999", "8", "2"}) {
    base();
    unlinked_file();
    entry(13);
    debugfs(image_, {std::string("ssv orphan_file_inum ") + value});
    const std::string journal = stat_of("<8>"), root = stat_of("<2>");
    const json j = repair("-y", 1);
    EXPECT_TRUE(has(j, "orphan-file-found")) << value << j.dump(1);
    EXPECT_EQ(j["verdict"]["orphans"]["deleted"], 1) << value;
    EXPECT_EQ(stat_of("<8>"), journal);
    EXPECT_EQ(stat_of("<2>"), root);
    EXPECT_NE(super().find("Orphan file inode:        12"), std::string::npos) << super();
    expect_settled();
  }
}

TEST_F(CheckReports, Case13WithoutAnOrphanFileTheFeatureIsDropped) {
  mke2fs(image_, "32M", {"-b", "4096", "-t", "ext4", "-O", "^orphan_file"});
  debugfs(image_, {"feature orphan_file"});
  const json j = repair("-y", 1);
  EXPECT_TRUE(has(j, "orphan-file-lost")) << j.dump(1);
  EXPECT_EQ(super().find("orphan_file"), std::string::npos);
  expect_settled();
}

TEST_F(CheckReports, Case13AUserFileOrDirectoryIsNeverTakenForTheOrphanFile) {
  for (const bool directory : {false, true}) {
    base();
    debugfs(image_, {directory ? "mkdir d" : "write /usr/share/common-licenses/GPL-2 f", "ssv orphan_file_inum 13", "feature orphan_present"});
    const std::string before = stat_of("<13>");
    const json j = repair("-y", 1);
    EXPECT_TRUE(has(j, "orphan-file-found")) << j.dump(1);
    EXPECT_EQ(stat_of("<13>"), before);
    expect_settled();
  }
}

TEST_F(CheckReports, Case14ReservedInodesAreNoOrphans) {
  for (const int ino : {2, 8, 12, 1, 7}) {
    base();
    const std::string name = "<" + std::to_string(ino) + ">";
    const std::string before = stat_of(name);
    entry(ino);
    const std::string same = stat_of(name);
    const json j = repair("-p", 1);
    EXPECT_TRUE(has(j, "orphan-reserved") || has(j, "orphan-special")) << ino << j.dump(1);
    EXPECT_EQ(j["verdict"]["orphans"]["dropped"], 1) << ino;
    EXPECT_EQ(j["verdict"]["orphans"]["released"], 0) << ino;
    if (ino != 12) {
      EXPECT_EQ(stat_of(name), same);
      EXPECT_EQ(before, same);
    }
    expect_settled();
  }
}

TEST_F(CheckReports, Case14LostAndFoundIsNotTouched) {
  base();
  entry(11);
  const std::string same = stat_of("<11>");
  const json j = e4fsck_json({"-p", image_});
  EXPECT_LE(j["exit_status"], 1);
  EXPECT_EQ(j["verdict"]["orphans"]["dropped"], 1);
  EXPECT_EQ(stat_of("<11>"), same);
  expect_settled();
}

TEST_F(CheckReports, Case15ABrokenBlockIsFoundThoughTheFlagIsClear) {
  base();
  debugfs(image_, {"zap_block -f <12> -o 4088 -l 4 -p 0 3"});
  const json n = e4fsck_json({"-n", image_});
  EXPECT_EQ(n["exit_status"], 4);
  const json j = repair("-p", 1);
  EXPECT_TRUE(has(j, "orphan-magic")) << j.dump(1);
  expect_settled();
}

TEST_F(CheckReports, Case16SwitchingChecksumsLeavesBadOnesAndTheyAreCalledThat) {
  base();
  ASSERT_EQ(run_tool({"tune2fs", "-O", "metadata_csum", image_}).status, 0);
  const json j = repair("-p", 1);
  EXPECT_TRUE(has(j, "orphan-checksum")) << j.dump(1);
  expect_settled();
}

TEST_F(CheckReports, Case16ChecksumsLeftBehindAreCalledBadAndBecomeZero) {
  mke2fs(image_, "32M", {"-b", "4096", "-t", "ext4", "-O", "metadata_csum,orphan_file"});
  ASSERT_EQ(run_tool({"tune2fs", "-O", "^metadata_csum", image_}).status, 0);
  const json j = repair("-p", 1);
  EXPECT_TRUE(has(j, "orphan-checksum")) << j.dump(1);
  expect_settled();
}

TEST_F(CheckReports, Case17AnOrphanFileWithoutAJournalIsRemoved) {
  mke2fs(image_, "32M", {"-b", "4096", "-t", "ext4", "-O", "orphan_file"});
  ASSERT_EQ(run_tool({"tune2fs", "-O", "^has_journal", image_}).status, 0);
  const json j = repair("-p", 1);
  EXPECT_TRUE(has(j, "orphan-no-journal")) << j.dump(1);
  EXPECT_EQ(super().find("orphan_file"), std::string::npos);
  expect_settled();
}

TEST_F(CheckReports, Case17AnOrphanFileWhoseFeatureBitWasLostGetsItBack) {
  base();
  debugfs(image_, {"feature orphan_present", "feature ^orphan_file"});
  const json j = repair("-p", 1);
  EXPECT_TRUE(has(j, "orphan-leftover")) << j.dump(1);
  EXPECT_EQ(super().find("orphan_present"), std::string::npos);
  expect_settled();
}

TEST_F(CheckReports, Case18ASmallDeletionTimeIsNoOrphan) {
  base();
  debugfs(image_, {"write /usr/share/common-licenses/GPL-2 f", "rm f", "sif <13> dtime @1", "ssv wtime @0", "ssv mtime @0"});
  const json j = e4fsck_json({"-n", "-f", image_});
  EXPECT_EQ(j["exit_status"], 0) << j.dump(1);
  EXPECT_EQ(j["verdict"]["found"], 0) << j.dump(1);
}

TEST_F(CheckReports, Case19ALoopOfTheListIsCalledALoop) {
  mke2fs(image_, "32M", {"-b", "4096", "-t", "ext4", "-O", "^metadata_csum,^metadata_csum_seed,^orphan_file"});
  debugfs(image_, {"write /usr/share/common-licenses/GPL-2 a", "write /usr/share/common-licenses/GPL-2 b", "sif <12> links_count 0", "sif <13> links_count 0", "unlink a",
                   "unlink b", "sif <12> dtime @13", "sif <13> dtime @12", "ssv last_orphan 12"});
  const json j = repair("-p", 1);
  EXPECT_TRUE(has(j, "orphan-list-loop")) << j.dump(1);
  EXPECT_EQ(j["verdict"]["orphans"]["deleted"], 2) << j.dump(1);
  expect_settled();
}

TEST_F(CheckReports, Case19AListHeadThatNamesAFreeInodeIsDropped) {
  mke2fs(image_, "32M", {"-b", "4096", "-t", "ext4", "-O", "^metadata_csum,^metadata_csum_seed,^orphan_file"});
  debugfs(image_, {"ssv last_orphan 100"});
  const json j = repair("-p", 1);
  EXPECT_TRUE(has(j, "orphan-list-broken")) << j.dump(1);
  EXPECT_EQ(j["verdict"]["orphans"]["released"], 0);
  expect_settled();
}

TEST_F(CheckReports, Case19AnInodeOnListAndFileIsReleasedOnce) {
  base();
  unlinked_file();
  entry(13);
  debugfs(image_, {"ssv last_orphan 13"});
  const json j = repair("-p", 1);
  EXPECT_TRUE(has(j, "orphan-duplicate")) << j.dump(1);
  EXPECT_EQ(j["verdict"]["orphans"]["deleted"], 1);
  expect_settled();
}

TEST_F(CheckReports, Case23TheVerdictSaysWhatTheExitStatusCannot) {
  base();
  unlinked_file();
  entry(13);
  const json j = e4fsck_json({"-p", image_});
  EXPECT_LE(j["exit_status"], 1);
  const json& v = j["verdict"];
  EXPECT_EQ(v["orphans_released"], 1);
  EXPECT_EQ(v["journal_replayed"], false);
  EXPECT_GT(v["bytes_written"], 0);
  EXPECT_EQ(v["changed"], true);
  for (const char* key : {"found", "fixed", "left"}) EXPECT_TRUE(v[key].is_number_unsigned()) << key;
  EXPECT_FALSE(v["not_checked"].empty());
}

TEST_F(CheckReports, Case24ADirtyImageIsJudgedAsItWillBeAfterRecovery) {
  unzstd("tests/images/orphan-file-4k.img.zst", image_);
  const auto before = file_crc32c(image_);
  const FsckRun n = e4fsck({"-n", image_});
  EXPECT_EQ(n.status, 0) << n.out;
  EXPECT_NE(n.out.find("replayed in memory"), std::string::npos) << n.out;
  EXPECT_NE(n.out.find("Clearing orphaned inode"), std::string::npos) << n.out;
  EXPECT_NE(n.out.find("a repair would write"), std::string::npos) << n.out;
  EXPECT_EQ(n.out.find("clean"), std::string::npos) << n.out;
  EXPECT_EQ(file_crc32c(image_), before);
  const json j = repair("-p", 0);
  EXPECT_GE(j["verdict"]["orphans"]["deleted"], 50);
  expect_settled();
}

// The rules of the format's own table, beyond the reports.
TEST_F(CheckReports, AFreeInodeInASlotIsDroppedAndTheCountsStay) {
  base();
  entry(200);
  const json j = repair("-p", 1);
  EXPECT_TRUE(has(j, "orphan-free")) << j.dump(1);
  expect_settled();
}

TEST_F(CheckReports, TheSameInodeTwiceIsReleasedOnce) {
  base();
  unlinked_file();
  debugfs(image_, {"zap_block -f <12> -o 0 -l 1 -p 13 0", "zap_block -f <12> -o 400 -l 1 -p 13 0", "feature orphan_present"});
  const json j = repair("-p", 1);
  EXPECT_TRUE(has(j, "orphan-duplicate")) << j.dump(1);
  EXPECT_EQ(j["verdict"]["orphans"]["deleted"], 1);
  expect_settled();
}

TEST_F(CheckReports, AHealthyFileInASlotKeepsEverything) {
  base();
  debugfs(image_, {"write /usr/share/common-licenses/GPL-2 f"});
  const std::string before = stat_of("<13>");
  entry(13);
  const json j = repair("-p", 0);
  EXPECT_EQ(j["verdict"]["orphans"]["deleted"], 0);
  EXPECT_EQ(stat_of("<13>"), before);
  expect_settled();
}

TEST_F(CheckReports, ALinkCountOfZeroWithANameIsMendedAndTheFileKept) {
  base();
  debugfs(image_, {"write /usr/share/common-licenses/GPL-2 f", "sif <13> links_count 0"});
  entry(13);
  const json j = repair("-p", 1);
  EXPECT_TRUE(has(j, "orphan-named")) << j.dump(1);
  expect_settled();
  EXPECT_NE(stat_of("f").find("Links: 1"), std::string::npos) << stat_of("f");
}

TEST_F(CheckReports, AnErrorFlagStaysAndOrphansAreReleasedAllTheSame) {
  base();
  unlinked_file();
  entry(13);
  debugfs(image_, {"ssv state 3"});
  const json j = repair("-p", 4);
  EXPECT_TRUE(has(j, "super-state-error")) << j.dump(1);
  EXPECT_EQ(j["verdict"]["orphans"]["deleted"], 1);
  EXPECT_NE(super().find("with errors"), std::string::npos) << super();
}

TEST_F(CheckReports, APendingTruncateIsFinishedInSpiteOfTheErrorFlag) {
  base();
  const std::string data = dir_ / "data";
  ASSERT_EQ(run_tool({"sh", "-c", "head -c 40960 /dev/zero | tr '\\0' x > " + data}).status, 0);
  debugfs(image_, {"write " + data + " f", "sif <13> size 5000"});
  entry(13);
  debugfs(image_, {"ssv state 3"});
  const json j = repair("-y", 4);  // the error flag itself stays
  EXPECT_EQ(j["verdict"]["orphans"]["truncated"], 1) << j.dump(1);
  EXPECT_NE(stat_of("<13>").find("Size: 5000"), std::string::npos) << stat_of("<13>");
  EXPECT_NE(stat_of("<13>").find("Blockcount: 16"), std::string::npos) << stat_of("<13>");
  const ProcessRun second = e2fsck_fn(image_);
  EXPECT_EQ(second.status, 0) << second.output;
}

TEST_F(CheckReports, ASizeThatIsNoMultipleOfABlockIsSet) {
  base();
  debugfs(image_, {"sif <12> size 131073"});
  const json j = repair("-p", 1);
  EXPECT_TRUE(has(j, "orphan-size")) << j.dump(1);
  expect_settled();
}

TEST_F(CheckReports, ADamagedSuperblockComesBackFromItsBackup) {
  mke2fs(image_, "160M", {"-b", "1024", "-t", "ext4", "-O", "orphan_file,metadata_csum"});
  debugfs(image_, {"write /usr/share/common-licenses/GPL-2 f"});
  const int fd = ::open(image_.c_str(), O_WRONLY);
  ASSERT_GE(fd, 0);
  const std::vector<char> zeros(512, 0);
  ASSERT_EQ(::pwrite(fd, zeros.data(), zeros.size(), 1024), 512);
  ::close(fd);
  const auto before = file_crc32c(image_);
  EXPECT_EQ(e4fsck_json({"-p", image_})["exit_status"], 4) << "-p must not decide this";
  EXPECT_EQ(file_crc32c(image_), before);
  const json j = repair("-y", 1);
  EXPECT_TRUE(has(j, "super-damaged")) << j.dump(1);
  expect_settled();
}

TEST_F(CheckReports, ASuperblockThatIsNothingExitsEight) {
  ASSERT_EQ(run_tool({"truncate", "-s", "4M", image_}).status, 0);
  const FsckRun r = e4fsck({"-y", image_});
  EXPECT_EQ(r.status & 8, 8) << r.out << r.err;
  EXPECT_NE(r.err.find("magic"), std::string::npos) << r.err;
}

struct Damage {
  std::string name;
  std::vector<std::string> commands;  // on top of one deleted inode (13) in the file
  std::string id;                     // of the finding; empty: none
};
std::ostream& operator<<(std::ostream& out, const Damage& d) { return out << d.name; }

class CheckOrphanFile : public CheckReports, public ::testing::WithParamInterface<std::tuple<Damage, bool>> {};

TEST_P(CheckOrphanFile, IsRepairedInOneRunAndItsOrphansAreReleased) {
  const auto& [damage, checksums] = GetParam();
  if (checksums) mke2fs(image_, "32M", {"-b", "4096", "-t", "ext4", "-O", "metadata_csum,orphan_file"});
  else base();
  unlinked_file();
  entry(13);
  // With checksums the block of the entry has a wrong one now: zap_block knows none.
  debugfs(image_, damage.commands);
  const json j = repair("-p", damage.id.empty() && !checksums ? 0 : 1);
  EXPECT_TRUE(damage.id.empty() || has(j, damage.id)) << j.dump(1);
  EXPECT_EQ(j["verdict"]["orphans"]["deleted"].get<int>() >= 1, true) << j.dump(1);
  EXPECT_NE(super().find("orphan_file"), std::string::npos) << "the feature was lost";
  expect_settled();
}

INSTANTIATE_TEST_SUITE_P(
    Rules, CheckOrphanFile,
    ::testing::Combine(
        ::testing::Values(Damage{"size_zero", {"sif <12> size 0"}, "orphan-size"}, Damage{"size_odd", {"sif <12> size 131073"}, "orphan-size"},
                          Damage{"size_beyond", {"sif <12> size 262144"}, "orphan-size"}, Damage{"hole", {"punch <12> 3 4"}, "orphan-hole"},
                          Damage{"directory", {"sif <12> mode 040755"}, "orphan-inode"}, Damage{"no_mode", {"sif <12> mode 0"}, "orphan-inode"},
                          Damage{"fifo", {"sif <12> mode 010644"}, "orphan-inode"}, Damage{"links", {"sif <12> links_count 0"}, "orphan-inode"},
                          Damage{"casefold", {"sif <12> flags 0x40080000"}, "orphan-inode"},
                          Damage{"inline", {"sif <12> flags 0x10000000"}, "orphan-inode"},
                          Damage{"no_extents_flag", {"sif <12> flags 0"}, "orphan-inode"},
                          Damage{"inline_extents", {"sif <12> flags 0x10080000"}, "orphan-inode"},
                          Damage{"feature_lost", {"feature ^orphan_file"}, "orphan-leftover"},
                          Damage{"flag_clear", {"feature ^orphan_present"}, ""}, Damage{"list_reserved", {"ssv last_orphan 5"}, "orphan-list-broken"},
                          Damage{"list_range", {"ssv last_orphan 999999"}, "orphan-list-broken"},
                          Damage{"block_zeroed", {"zap_block -f <12> -p 0 0"}, "orphan-magic"}),
        ::testing::Bool()),
    [](const auto& param) { return std::get<0>(param.param).name + (std::get<1>(param.param) ? "_csum" : ""); });

TEST_F(CheckReports, AnOrphanFileOfZerosIsMadeAnew) {
  base();
  unlinked_file();
  entry(13);
  std::vector<std::string> commands;
  for (int i = 0; i < 32; ++i) commands.push_back("zap_block -f <12> -p 0 " + std::to_string(i));
  debugfs(image_, commands);
  const json j = repair("-p", 1);
  EXPECT_TRUE(has(j, "orphan-hole")) << j.dump(1);
  EXPECT_EQ(j["verdict"]["orphans"]["deleted"], 2) << "the old file and the orphan in it";
  expect_settled();
}

TEST_F(CheckReports, AUserFileOfZerosIsNotTakenForALostOrphanFile) {
  mke2fs(image_, "32M", {"-b", "4096", "-t", "ext4", "-O", "^metadata_csum,^metadata_csum_seed,^orphan_file"});
  const std::string zeros = dir_ / "zeros";
  ASSERT_EQ(run_tool({"sh", "-c", "head -c 40960 /dev/zero >" + zeros}).status, 0);
  debugfs(image_, {"write " + zeros + " f", "feature orphan_file", "ssv orphan_file_inum 12"});
  const std::string before = stat_of("<12>");
  const json j = repair("-y", 1);
  EXPECT_TRUE(has(j, "orphan-file-lost")) << j.dump(1);
  EXPECT_EQ(stat_of("<12>"), before);
  expect_settled();
}

}  // namespace
}  // namespace e4
