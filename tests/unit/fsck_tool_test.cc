// SPDX-License-Identifier: GPL-2.0-only
// e4fsck as a tool: options, questions, statuses, undo, progress.
#include <gtest/gtest.h>

#include <unistd.h>

#include <fstream>
#include <set>
#include <nlohmann/json.hpp>
#include <sstream>

#include "check/problems.h"
#include "fsck/fsck.h"
#include "support/fsck_run.h"
#include "support/temp_dir.h"

namespace e4 {
namespace {

using namespace testing_support;

class FsckTool : public ::testing::Test {
 protected:
  void crash_image() { unzstd("tests/images/orphan-file-4k.img.zst", image_); }
  TempDir dir_;
  std::string image_ = dir_ / "x.img";
};

TEST_F(FsckTool, WrongOptionsExitSixteen) {
  crash_image();
  for (const std::vector<std::string>& args : std::vector<std::vector<std::string>>{
           {}, {"-p"}, {"-Q", image_}, {"-p", "-E", "no_such_word", image_}, {"-p", "-B", "1000", image_}, {"-p", "-c", image_},
           {"-p", "-D", image_}, {"-p", "-j", "/dev/null", image_}, {"-p", "-E", "unshare_blocks", image_}}) {
    const FsckRun r = e4fsck(args);
    EXPECT_EQ(r.status, 16) << r.err;
    EXPECT_NE(r.err.find("Usage"), std::string::npos) << r.err;
  }
}

TEST_F(FsckTool, TwoModesOrNoTerminalExitEight) {
  crash_image();
  EXPECT_EQ(e4fsck({"-n", "-p", image_}).status, 8);
  EXPECT_EQ(e4fsck({"-py", image_}).status, 8);
  const FsckRun r = e4fsck({image_});
  EXPECT_EQ(r.status, 8);
  EXPECT_NE(r.err.find("terminal"), std::string::npos);
  EXPECT_EQ(e4fsck({"-n", dir_ / "missing"}).status, 8);
  EXPECT_EQ(e4fsck({"-n", dir_.path()}).status, 8);
}

TEST_F(FsckTool, LettersWithoutMeaningHereAreAccepted) {
  crash_image();
  const FsckRun r = e4fsck({"-fntdvkrF", "-E", "journal_only,nodiscard,readahead_kb=512", "-C", "-1", image_});
  EXPECT_EQ(r.status, 0) << r.out << r.err;
}

TEST_F(FsckTool, AsksAtATerminalAndTakesNoForAnAnswer) {
  mke2fs(image_, "32M", {"-b", "4096", "-t", "ext4", "-O", "^metadata_csum,^metadata_csum_seed,orphan_file"});
  debugfs(image_, {"zap_block -f <12> -o 0 -l 3 -p 255 0", "zap_block -f <12> -o 400 -l 1 -p 2 0", "feature orphan_present"});
  const auto before = file_crc32c(image_);
  const std::string no = "n\nn\nn\nn\n";
  const FsckRun declined = e4fsck({image_}, &no);
  EXPECT_EQ(declined.status, 4) << declined.out;
  EXPECT_NE(declined.out.find("Clear?<y> no"), std::string::npos) << declined.out;
  EXPECT_EQ(file_crc32c(image_), before) << declined.out;
  const std::string mixed = "y\nn\n";
  const FsckRun half = e4fsck({image_}, &mixed);
  EXPECT_EQ(half.status, 4) << half.out;
  EXPECT_NE(half.out.find("found 2, fixed 1, left 1"), std::string::npos) << half.out;
  const std::string all = "a\n";
  const FsckRun rest = e4fsck({image_}, &all);
  EXPECT_EQ(rest.status, 1) << rest.out;
  EXPECT_EQ(e2fsck_fn(image_).status, 0);
}

TEST_F(FsckTool, TheUndoFileTakesItBackByteForByte) {
  crash_image();
  const auto before = file_crc32c(image_);
  ASSERT_EQ(e4fsck({"-p", "-z", dir_ / "undo", image_}).status, 0);
  ASSERT_NE(file_crc32c(image_), before);
  ASSERT_EQ(e2fsck_fn(image_).status, 0);
  const ProcessRun undo = run_tool({"e2undo", dir_ / "undo", image_});
  EXPECT_EQ(undo.status, 0) << undo.output;
  EXPECT_EQ(file_crc32c(image_), before) << undo.output;
  EXPECT_EQ(e4fsck({"-p", image_}).status, 0);
}

TEST_F(FsckTool, ProgressLinesGoToTheDescriptor) {
  crash_image();
  int fds[2];
  ASSERT_EQ(::pipe(fds), 0);
  ASSERT_EQ(e4fsck({"-n", "-C", std::to_string(fds[1]), image_}).status, 0);
  ::close(fds[1]);
  std::string text(65536, '\0');
  const ssize_t n = ::read(fds[0], text.data(), text.size());
  ::close(fds[0]);
  ASSERT_GT(n, 0);
  text.resize(static_cast<std::size_t>(n));
  std::istringstream lines(text);
  int last = 0;
  for (std::string line; std::getline(lines, line);) {
    int phase = 0;
    unsigned long long current = 0, max = 0;
    char name[256];
    ASSERT_EQ(std::sscanf(line.c_str(), "%d %llu %llu %255s", &phase, &current, &max, name), 4) << line;
    EXPECT_LE(current, max) << line;
    EXPECT_GE(phase, last) << line;
    EXPECT_EQ(name, image_);
    last = phase;
  }
  EXPECT_GE(last, 6) << text;
}

TEST_F(FsckTool, AnOffsetInsideAFileIsAccepted) {
  crash_image();
  const std::string whole = dir_ / "disk";
  std::ofstream(whole) << std::string(1 << 20, 'x') << std::ifstream(image_).rdbuf();
  const FsckRun r = e4fsck({"-p", whole + "?offset=1048576"});
  EXPECT_EQ(r.status, 0) << r.out << r.err;
  EXPECT_EQ(run_tool({"e2fsck", "-fn", whole + "?offset=1048576"}).status, 0);
}

TEST_F(FsckTool, ABackupSuperblockCanBeNamed) {
  mke2fs(image_, "160M", {"-b", "1024", "-t", "ext4", "-O", "orphan_file,metadata_csum"});
  for (const std::vector<std::string>& args :
       std::vector<std::vector<std::string>>{{"-y", "-b", "8193", image_}, {"-y", "-b", "24577", "-B", "1024", image_}}) {
    const FsckRun r = e4fsck(args);
    EXPECT_EQ(r.status, 1) << r.out << r.err;
    EXPECT_EQ(e2fsck_fn(image_).status, 0);
  }
  const FsckRun wrong = e4fsck({"-y", "-b", "4000", image_});
  EXPECT_EQ(wrong.status, 8) << wrong.out;
  EXPECT_NE(wrong.err.find("4000"), std::string::npos) << wrong.err;
}

TEST_F(FsckTool, TheSameInputGivesTheSameBytes) {
  crash_image();
  const std::string other = dir_ / "y.img";
  copy_file(image_, other);
  ASSERT_EQ(e4fsck({"-p", image_}).status, 0);
  ASSERT_EQ(e4fsck({"-y", other}).status, 0);
  const auto differ = run_tool({"sh", "-c", "cmp -l " + image_ + " " + other + " | wc -l"});
  // Only the times in the log's own commit blocks may differ.
  EXPECT_LT(std::stoi(differ.output), 200) << differ.output;
}

TEST(FsckStatus, IsTheSumOfWhatHappened) {
  check::Outcome o;
  EXPECT_EQ(fsck::exit_status_of(o), 0);
  o.verdict.fixed = 2;
  EXPECT_EQ(fsck::exit_status_of(o), 1);
  o.verdict.left = 1;
  EXPECT_EQ(fsck::exit_status_of(o), 4);
  o.cancelled = true;
  EXPECT_EQ(fsck::exit_status_of(o), 36);
  o = {};
  o.error = make_error(ErrorKind::io, "x");
  EXPECT_EQ(fsck::exit_status_of(o), 8);
  o.verdict.fixed = 1;
  o.verdict.bytes_written = 1;
  EXPECT_EQ(fsck::exit_status_of(o), 9);
  o = {};
  o.refused_feature = true;
  EXPECT_EQ(fsck::exit_status_of(o), 12);
}

TEST(CheckProblems, EveryProblemHasAStableIdAndASentence) {
  std::set<std::string_view> ids;
  for (const check::ProblemInfo& p : check::all_problems()) {
    EXPECT_TRUE(ids.insert(p.id).second) << p.id;
    EXPECT_EQ(p.id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"), std::string_view::npos) << p.id;
    EXPECT_TRUE(p.text.ends_with('.')) << p.text;
    EXPECT_TRUE(p.question.empty() || p.question.ends_with('?')) << p.question;
    // What nobody can answer yes to must not be something preen would repair, and the other way round.
    if (p.question.empty()) EXPECT_TRUE(p.preen == check::Preen::note || p.preen == check::Preen::halt) << p.id;
    else EXPECT_NE(p.preen, check::Preen::note) << p.id;
  }
}

}  // namespace
}  // namespace e4
