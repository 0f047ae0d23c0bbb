// SPDX-License-Identifier: GPL-2.0-only
// e4mkfs as a whole, in-process, judged by e2fsprogs where it is installed.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/random.h"
#include "tests/support/child.h"
#include "tests/support/run_mkfs.h"
#include "tests/support/temp_dir.h"

namespace e4::testing_support {
namespace {

using Args = std::vector<std::string>;

std::string slurp(const std::string& path) {
  std::ifstream f(path, std::ios::binary);
  std::ostringstream s;
  s << f.rdbuf();
  return s.str();
}

/// Every byte of it noise from a fixed seed: an old disk.
void fill_with_garbage(const std::string& path, std::size_t bytes) {
  Random random(7);
  std::string s(bytes, 0);
  for (char& c : s) c = static_cast<char>(random.next());
  std::ofstream(path, std::ios::binary) << s;
}

bool installed(const std::string& tool) { return run_child({tool, "-V"}).status != 127; }

/// e2fsck's verdict on a forced read-only check; its words when it is not content.
std::string complaint(const TempDir& dir, const std::string& image) {
  if (run_child({"e2fsck", "-fn", image}, dir / "e2fsck.out").status == 0) return "";
  return slurp(dir / "e2fsck.out");
}

TEST(MkfsTool, SaysWhatItMadeAndNamesTheOrphanFile) {
  const TempDir dir;
  const ToolRun r = run_mkfs({dir / "x", "64M"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.out.find("Creating filesystem with 65536 1k blocks and 16384 inodes"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("Creating journal (4096 blocks): done"), std::string::npos);
  EXPECT_NE(r.out.find("Creating orphan file (32 blocks): done"), std::string::npos);
  EXPECT_EQ(r.err, "");
  EXPECT_EQ(run_mkfs({"-q", dir / "y", "64M"}).out, "");
}

TEST(MkfsTool, JsonNamesOrphanInodeAndBlocks) {
  const TempDir dir;
  const ToolRun r = run_mkfs({"--json", dir / "x", "64M", "-E", "orphan_file_size=5"});
  ASSERT_EQ(r.status, 0) << r.err;
  const auto j = nlohmann::json::parse(r.out);
  EXPECT_EQ(j["schema"], "e4progs-mkfs");
  EXPECT_EQ(j["orphan_file"]["inode"], 12);
  EXPECT_EQ(j["orphan_file"]["blocks"], 5);
  EXPECT_EQ(j["journal"]["blocks"], 4096);
  EXPECT_EQ(j["blocks"], 65536);
  EXPECT_GT(j["bytes_written"], 0);
  const auto without = nlohmann::json::parse(run_mkfs({"--json", dir / "x", "-O", "-orphan_file"}).out);
  EXPECT_TRUE(without["orphan_file"].is_null());
}

TEST(MkfsTool, JsonSaysWhyNothingWasMade) {
  const TempDir dir;
  const ToolRun r = run_mkfs({"--json", dir / "x"});
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(nlohmann::json::parse(r.out)["error"].get<std::string>().find("no size was specified"), std::string::npos);
}

TEST(MkfsTool, ADryRunTouchesNothing) {
  const TempDir dir;
  EXPECT_EQ(run_mkfs({"-n", dir / "none", "64M"}).status, 0);
  EXPECT_NE(::access((dir / "none").c_str(), F_OK), 0);
  fill_with_garbage(dir / "x", 4 << 20);
  const auto before = file_crc32c(dir / "x");
  const ToolRun r = run_mkfs({"-n", dir / "x"});
  EXPECT_EQ(r.status, 0);
  EXPECT_NE(r.out.find("4096 1k blocks"), std::string::npos) << r.out;
  EXPECT_EQ(file_crc32c(dir / "x"), before);
}

TEST(MkfsTool, EveryRefusalComesBeforeTheFirstWrite) {
  const TempDir dir;
  fill_with_garbage(dir / "x", 4 << 20);
  const auto before = file_crc32c(dir / "x");
  for (const Args& bad : std::vector<Args>{{"-O", "orphan_file,^has_journal"}, {"-O", "orphan_present"}, {"-O", "no-such"},
                                           {"-E", "orphan_file_size=0"}, {"-E", "bogus"}, {"-b", "1000"}, {"-J", "size=3"},
                                           {"-N", "100000"}, {"-Q"}, {"-U", "x"}, {"-O", "meta_bg,resize_inode"}}) {
    Args args = bad;
    args.push_back(dir / "x");
    const ToolRun r = run_mkfs(args);
    EXPECT_EQ(r.status, 1) << bad.back();
    EXPECT_TRUE(r.err.starts_with("e4mkfs: ")) << r.err;
    EXPECT_EQ(file_crc32c(dir / "x"), before) << bad.back();
    args.back() = dir / "new";
    args.push_back("4M");
    EXPECT_EQ(run_mkfs(args).status, 1);
    EXPECT_NE(::access((dir / "new").c_str(), F_OK), 0) << "left a file behind for " << bad.back();
  }
}

TEST(MkfsTool, AShortFileGrowsAndALongOneKeepsItsSize) {
  const TempDir dir;
  struct stat st {};
  fill_with_garbage(dir / "x", 1 << 20);
  ASSERT_EQ(run_mkfs({"-q", dir / "x", "8M"}).status, 0);
  ASSERT_EQ(::stat((dir / "x").c_str(), &st), 0);
  EXPECT_EQ(st.st_size, 8 << 20);
  ASSERT_EQ(run_mkfs({"-q", dir / "x", "4M"}).status, 0);
  ASSERT_EQ(::stat((dir / "x").c_str(), &st), 0);
  EXPECT_EQ(st.st_size, 8 << 20);
}

TEST(MkfsTool, AnOffsetLeavesWhatLiesBefore) {
  const TempDir dir;
  fill_with_garbage(dir / "x", 6 << 20);
  const std::string before = slurp(dir / "x").substr(0, 1 << 20);
  ASSERT_EQ(run_mkfs({"-q", "-E", "offset=1048576", dir / "x", "4M"}).status, 0);
  const std::string after = slurp(dir / "x");
  EXPECT_EQ(after.substr(0, 1 << 20), before);
  EXPECT_EQ(static_cast<unsigned char>(after[(1 << 20) + 1080]), 0x53);
  ASSERT_EQ(run_mkfs({"-q", (dir / "x") + "?offset=2097152", "4M"}).status, 0);
  EXPECT_EQ(static_cast<unsigned char>(slurp(dir / "x")[(2 << 20) + 1080]), 0x53);
}

TEST(MkfsTool, TheSameCommandAtTheSameEpochGivesTheSameBytes) {
  const TempDir dir;
  const char* uuid = "12345678-9abc-def0-1234-56789abcdef0";
  std::string first;
  int n = 0;
  for (const char* clock : {"SOURCE_DATE_EPOCH", "E2FSPROGS_FAKE_TIME"})
    for (const bool garbage : {false, true}) {
      const std::string image = dir / ("x" + std::to_string(n++));
      if (garbage) fill_with_garbage(image, 8 << 20);
      const ToolRun r = run_mkfs({"-q", "-U", uuid, "-O", "mmp,fast_commit", image, "8M"}, {{clock, "1600000000"}});
      ASSERT_EQ(r.status, 0) << r.err;
      const std::string bytes = slurp(image);
      if (first.empty()) first = bytes;
      EXPECT_TRUE(bytes == first) << clock << (garbage ? " over garbage" : "");
    }
  EXPECT_EQ(run_mkfs({dir / "z", "8M"}, {{"SOURCE_DATE_EPOCH", "yesterday"}}).status, 1);
}

TEST(MkfsTool, APersonIsAskedBeforeAFileSystemIsOverwritten) {
  const TempDir dir;
  ASSERT_EQ(run_mkfs({"-q", dir / "x", "8M", "-L", "precious"}).status, 0);
  const auto before = file_crc32c(dir / "x");
  for (const char* no : {"n\n", "\n", ""}) {
    const ToolRun r = run_mkfs_at_terminal({dir / "x"}, no);
    EXPECT_EQ(r.status, 1);
    EXPECT_NE(r.out.find("ext4 file system labelled 'precious'"), std::string::npos) << r.out;
    EXPECT_EQ(file_crc32c(dir / "x"), before);
  }
  EXPECT_EQ(run_mkfs_at_terminal({dir / "x"}, "y\n").status, 0);
  EXPECT_EQ(run_mkfs_at_terminal({"-F", dir / "x"}, "").status, 0);
}

TEST(MkfsTool, AnUndoFileBringsTheOldBytesBack) {
  if (!installed("e2undo")) GTEST_SKIP() << "e2undo is not installed";
  const TempDir dir;
  fill_with_garbage(dir / "x", 8 << 20);
  ASSERT_EQ(run_mkfs({"-q", "-F", dir / "x", "-L", "old"}).status, 0);
  const std::string before = slurp(dir / "x");
  ASSERT_EQ(run_mkfs({"-q", "-z", dir / "undo", "-L", "new", dir / "x"}).status, 0);
  ASSERT_NE(slurp(dir / "x"), before);
  ASSERT_EQ(run_child({"e2undo", dir / "undo", dir / "x"}, dir / "out").status, 0) << slurp(dir / "out");
  EXPECT_TRUE(slurp(dir / "x") == before);
}

/// The numbers both tools must agree on, from dumpe2fs -h.
std::map<std::string, std::string> headline(const TempDir& dir, const std::string& image) {
  run_child({"dumpe2fs", "-h", image}, dir / "dump.out");
  std::map<std::string, std::string> m;
  std::istringstream lines(slurp(dir / "dump.out"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string key = line.substr(0, colon);
    for (const char* wanted : {"Block count", "Inode count", "Reserved block count", "Overhead clusters", "Free blocks",
                               "Free inodes", "First block", "Block size", "Cluster size", "Reserved GDT blocks",
                               "Blocks per group", "Clusters per group", "Inodes per group", "Flex block group size",
                               "Total journal blocks", "Fast commit length", "Orphan file inode", "Inode size",
                               "Filesystem features", "Journal inode", "First inode", "Group descriptor size"})
      if (key == wanted) m[key] = line.substr(line.find_first_not_of(' ', colon + 1));
  }
  return m;
}

struct Combination {
  Args args;
  std::string size;
  [[nodiscard]] std::string text() const {
    std::string s;
    for (const std::string& a : args) s += a + " ";
    return s + size;
  }
};

Combination draw(Random& random) {
  const auto pick = [&](std::initializer_list<const char*> from) { return std::string(from.begin()[random.below(from.size())]); };
  Combination c;
  const std::string block = pick({"", "1024", "2048", "4096", "4096", "65536"});
  if (!block.empty()) c.args = {"-b", block};
  std::string features = "orphan_file";
  for (const char* word : {"^flex_bg", "^resize_inode", "inline_data", "sparse_super2", "metadata_csum_seed", "fast_commit",
                           "^metadata_csum", "ea_inode", "^huge_file", "^dir_index"})
    if (random.one_in(5) && !(std::string(word) == "metadata_csum_seed" && features.find("^metadata_csum") != std::string::npos))
      features += std::string(",") + word;
  if (features.find("metadata_csum_seed") != std::string::npos && features.find("^metadata_csum") != std::string::npos)
    features = "orphan_file";
  if (random.one_in(4)) {
    features += ",bigalloc";
    if (!block.empty()) c.args.insert(c.args.end(), {"-C", std::to_string(std::stoul(block) << random.between(1, 6))});
  } else if (random.one_in(6) && features.find("resize_inode") == std::string::npos) {
    features += ",meta_bg,^resize_inode";
  }
  c.args.insert(c.args.end(), {"-O", features});
  if (random.one_in(4)) c.args.insert(c.args.end(), {"-I", pick({"256", "512", "1024"})});
  if (random.one_in(4)) c.args.insert(c.args.end(), {"-m", pick({"0", "1.5", "10", "50"})});
  if (random.one_in(4)) c.args.insert(c.args.end(), {"-i", pick({"4096", "65536", "1000000"})});
  if (random.one_in(4)) c.args.insert(c.args.end(), {"-E", pick({"stride=8", "lazy_itable_init=0", "orphan_file_size=9", "root_owner=5:6"})});
  if (block == "65536") c.size = pick({"256M", "600M", "2000M"});
  else c.size = pick({"16M", "40M", "100M", "133M", "600M", "2000M", "8193M"});
  return c;
}

// Known and wanted differences are kept out of the draw: orphan files are cut
// to 8 MiB, default features are dropped where mke2fs refuses, -I 128 goes
// without extra_isize.
TEST(MkfsProperty, E2fsckIsContentAndMke2fsAgreesOnEveryCount) {
  if (!installed("e2fsck") || !installed("mke2fs")) GTEST_SKIP() << "e2fsprogs is not installed";
  const char* knob = std::getenv("E4_MKFS_COMBINATIONS");
  const int rounds = knob != nullptr ? std::atoi(knob) : 40;
  const char* given = std::getenv("E4_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20241;
  Random random(seed);
  const TempDir dir;
  int made = 0, compared = 0;
  for (int i = 0; i < rounds; ++i) {
    const Combination c = draw(random);
    const std::string ours = dir / "ours", theirs = dir / "theirs";
    ::unlink(ours.c_str());
    ::unlink(theirs.c_str());
    Args args = c.args;
    args.insert(args.end(), {"-q", ours, c.size});
    const ToolRun r = run_mkfs(args);
    Args other = {"mke2fs", "-q", "-F", "-t", "ext4", "-E", "nodiscard"};
    other.insert(other.end(), c.args.begin(), c.args.end());
    other.insert(other.end(), {theirs, c.size});
    const int their_status = run_child(other, dir / "mke2fs.out").status;
    if (r.status != 0) {
      EXPECT_NE(their_status, 0) << "seed " << seed << ": only e4mkfs refuses " << c.text() << "\n" << r.err;
      EXPECT_NE(::access(ours.c_str(), F_OK), 0) << "a refusal left a file: " << c.text();
      continue;
    }
    ++made;
    EXPECT_EQ(complaint(dir, ours), "") << "seed " << seed << ": " << c.text();
    if (their_status != 0) continue;
    ++compared;
    EXPECT_EQ(headline(dir, ours), headline(dir, theirs)) << "seed " << seed << ": " << c.text();
  }
  EXPECT_GT(made, rounds / 2);
  EXPECT_GT(compared, rounds / 2);
}

TEST(MkfsProperty, EveryBlockSizeWithTheOrphanFileIsClean) {
  if (!installed("e2fsck")) GTEST_SKIP() << "e2fsprogs is not installed";
  const TempDir dir;
  for (const char* block : {"1024", "2048", "4096", "8192", "16384", "32768", "65536"})
    for (const char* size : {"300M", "40G"}) {
      const ToolRun r = run_mkfs({"--json", "-b", block, dir / "x", size});
      ASSERT_EQ(r.status, 0) << r.err;
      const auto j = nlohmann::json::parse(r.out);
      EXPECT_LE(j["orphan_file"]["blocks"].get<unsigned>(), 512U);
      EXPECT_LE(j["orphan_file"]["bytes"].get<unsigned>(), 8U << 20);
      EXPECT_EQ(complaint(dir, dir / "x"), "") << block << " " << size;
      ::unlink((dir / "x").c_str());
    }
}

TEST(MkfsProperty, QuotaFilesCountWhatTheRootDirectoryAndLostFoundUse) {
  if (!installed("e2fsck")) GTEST_SKIP() << "e2fsprogs is not installed";
  const TempDir dir;
  for (const Args& extra : std::vector<Args>{{"-O", "quota"}, {"-O", "quota,project"}, {"-O", "quota,project,^extent"},
                                             {"-O", "quota,bigalloc"}, {"-O", "quota,inline_data"}, {"-O", "project"},
                                             {"-O", "quota", "-E", "root_owner=1000:70000"}, {"-O", "quota", "-b", "4096"}}) {
    ::unlink((dir / "x").c_str());
    Args args = extra;
    args.insert(args.end(), {"-q", dir / "x", "40M"});
    const ToolRun r = run_mkfs(args);
    ASSERT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(complaint(dir, dir / "x"), "") << extra[1];
    if (extra[1] == "project") continue;
    run_child({"debugfs", "-R", "list_quota user", dir / "x"}, dir / "quota");
    EXPECT_NE(slurp(dir / "quota").find("\n         0 "), std::string::npos) << slurp(dir / "quota");
  }
}

TEST(MkfsProperty, OverGarbageWithLazyTablesTheResultIsClean) {
  if (!installed("e2fsck")) GTEST_SKIP() << "e2fsprogs is not installed";
  const TempDir dir;
  for (const Args& extra : std::vector<Args>{{"-E", "nodiscard,lazy_itable_init=1"}, {"-E", "nodiscard,lazy_itable_init=0"},
                                             {"-E", "lazy_journal_init=1"}, {"-t", "ext3"}, {"-t", "ext2"}, {"-b", "4096"}}) {
    fill_with_garbage(dir / "x", 24 << 20);
    Args args = extra;
    args.insert(args.end(), {"-q", dir / "x"});
    ASSERT_EQ(run_mkfs(args).status, 0) << extra.back();
    EXPECT_EQ(complaint(dir, dir / "x"), "") << extra.back();
  }
}

}  // namespace
}  // namespace e4::testing_support
