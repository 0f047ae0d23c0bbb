// SPDX-License-Identifier: GPL-2.0-only
// e4debug as its users call it, in this process.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/run.h"
#include "debug/debug.h"
#include "tests/support/fsck_run.h"
#include "tests/support/orphan_lab.h"
#include "tests/support/temp_dir.h"

namespace e4 {
namespace {

using nlohmann::json;
using namespace testing_support;

struct ToolResult {
  int status = -1;
  std::string out, err;
};

ToolResult e4debug(const std::vector<std::string>& args, const std::string& input = "") {
  std::istringstream in(input);
  std::ostringstream out, err;
  cli::Io io{.in = in, .out = out, .err = err, .environment = [](const char* name) {
    return std::string(name) == "E2FSCK_TIME" ? "1800000000" : "";
  }};
  ToolResult r;
  r.status = cli::guarded("e4debug", args, io, debug::run);
  r.out = out.str();
  r.err = err.str();
  return r;
}

ToolResult edit(const std::string& image, const std::string& command) { return e4debug({"-w", "-R", command, image}); }

json orphans(const std::string& image, bool journal = false) {
  const ToolResult r = e4debug({"-R", journal ? "orphans --json --journal" : "orphans --json", image});
  EXPECT_EQ(r.status, 0) << r.err;
  return json::parse(r.out);
}

void expect_clean(const std::string& image) {
  const ProcessRun r = e2fsck_fn(image);
  EXPECT_EQ(r.status, 0) << r.output;
}

TEST(DebugOrphans, OneDocumentSaysWhatRecoveryWillDo) {
  OrphanLab lab;
  const Ino gone = lab.unnamed_file(20000), kept = lab.file("kept", 30000);
  lab.edit_inode(kept, [](auto raw) { store<le32>(raw.data(), 4, 100U); });
  lab.put_slots(0, {gone, kept, 2});
  const auto before = file_crc32c(lab.image());
  const json d = orphans(lab.image(), true);
  EXPECT_EQ(file_crc32c(lab.image()), before) << "looking wrote to the image";
  EXPECT_EQ(d["schema"], "e4progs-orphans");
  EXPECT_EQ(d["schema_version"], 1);
  ASSERT_EQ(d["orphans"].size(), 3U);
  const json& first = d["orphans"][0];
  EXPECT_EQ(first["inode"], gone);
  EXPECT_EQ(first["block"], 0);
  EXPECT_EQ(first["slot"], 0);
  EXPECT_EQ(first["state"], "delete");
  EXPECT_EQ(first["size"], 20000);
  EXPECT_EQ(first["bytes_back"], 20480);
  EXPECT_EQ(first["mode"], "0100644");
  EXPECT_EQ(d["orphans"][1]["action"], "truncate");
  EXPECT_EQ(d["orphans"][1]["paths"], json({"/kept"}));
  EXPECT_EQ(d["orphans"][2]["reasons"], json({"reserved"}));
  EXPECT_EQ(d["totals"]["delete"], 1);
  EXPECT_EQ(d["after_recovery"]["orphans_left"], 0);
  EXPECT_EQ(d["after_recovery"]["bytes_freed"], d["totals"]["bytes_back"]);
  EXPECT_EQ(d["orphan_file"]["block_verdicts"].size(), 32U);
}

TEST(DebugOrphans, OptionsMayStandOnEitherSide) {
  OrphanLab lab;
  const ToolResult inside = e4debug({"-R", "orphans --json --journal", lab.image()});
  const ToolResult outside = e4debug({"--json", "--journal", "-R", "orphans", lab.image()});
  EXPECT_EQ(inside.out, outside.out);
  EXPECT_EQ(inside.status + outside.status, 0);
  EXPECT_NE(e4debug({"-R", "orphans", lab.image()}).out.find("Total: 0 orphans"), std::string::npos);
}

TEST(DebugOrphans, VerdictNamesTheBrokenBlock) {
  OrphanLab lab;
  lab.damage_block(3, 4092, 1);
  lab.damage_block(4, 4088, 1);
  const json d = orphans(lab.image());
  EXPECT_FALSE(d["orphan_file"]["block_verdicts"][3]["checksum_ok"]);
  EXPECT_TRUE(d["orphan_file"]["block_verdicts"][3]["magic_ok"]);
  EXPECT_FALSE(d["orphan_file"]["block_verdicts"][4]["magic_ok"]);
  const ToolResult r = e4debug({"-R", "orphan verify", lab.image()});
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(r.err.find("orphan verify: orphan file: magic,block-checksum"), std::string::npos) << r.err;
  EXPECT_EQ(edit(lab.image(), "orphan rewrite").status, 0);
  EXPECT_EQ(e4debug({"-R", "orphan verify", lab.image()}).status, 0);
  expect_clean(lab.image());
}

TEST(DebugEdit, OrphanFileIsTurnedOffInOneStep) {
  OrphanLab lab;
  lab.put_slots(0, {lab.unnamed_file(20000)});
  EXPECT_EQ(e4debug({"-R", "orphan drop", lab.image()}).status, 1) << "not without -w";
  const ToolResult r = edit(lab.image(), "orphan drop");
  EXPECT_EQ(r.status, 0) << r.err;
  expect_clean(lab.image());
  EXPECT_FALSE(orphans(lab.image())["orphan_file"]["feature"]);
  EXPECT_EQ(run_tool({"tune2fs", "-O", "^has_journal", lab.image()}).status, 0);
  expect_clean(lab.image());
}

TEST(DebugEdit, DroppedWhileSomethingCannotBeReleasedNothingIsWritten) {
  OrphanLab lab;
  lab.debugfs({"mkdir d"});
  const Ino dir = lab.file("d/inside", 100) - 1;
  lab.debugfs({"sif d links_count 0", "unlink d"});
  lab.put_slots(0, {dir});
  const auto before = file_crc32c(lab.image());
  const ToolResult r = edit(lab.image(), "orphan drop");
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(r.err.find("not-empty"), std::string::npos) << r.err;
  EXPECT_EQ(file_crc32c(lab.image()), before);
}

TEST(DebugEdit, CreateResizeAddRemoveEachLeaveACleanImage) {
  OrphanLab lab("-b 1024 -t ext4 -O ^orphan_file,metadata_csum");
  EXPECT_EQ(edit(lab.image(), "orphan create").status, 0);
  EXPECT_EQ(orphans(lab.image())["orphan_file"]["blocks"], 32);
  expect_clean(lab.image());
  EXPECT_EQ(edit(lab.image(), "orphan create").status, 1) << "there is one";
  const Ino kept = lab.file("kept", 5000);
  EXPECT_EQ(edit(lab.image(), "orphan add " + std::to_string(kept)).status, 0);
  EXPECT_EQ(edit(lab.image(), "orphan add " + std::to_string(kept)).status, 1) << "tracked already";
  EXPECT_EQ(edit(lab.image(), "orphan resize 100").status, 0);
  EXPECT_EQ(orphans(lab.image())["totals"]["in_file"], 1);
  EXPECT_EQ(edit(lab.image(), "orphan remove " + std::to_string(kept)).status, 0);
  EXPECT_EQ(orphans(lab.image())["totals"]["orphans"], 0);
  expect_clean(lab.image());
  for (const char* bad : {"orphan add 2", "orphan add 8", "orphan add 300", "orphan add 99999999", "orphan add x",
                          "orphan resize 513", "orphan resize 0", "orphan remove 13", "orphan", "orphan fly"})
    EXPECT_EQ(edit(lab.image(), bad).status, 1) << bad;
  expect_clean(lab.image());
}

TEST(DebugEdit, FullFileSendsTheNextOrphanToTheList) {
  OrphanLab lab("-b 1024 -t ext4 -O orphan_file -E orphan_file_size=1");
  const Ino kept = lab.file("kept", 100);
  lab.put_slots(0, std::vector<Ino>(254, 200));
  EXPECT_EQ(edit(lab.image(), "orphan add " + std::to_string(kept)).status, 0);
  const json d = orphans(lab.image());
  EXPECT_EQ(d["orphan_list"]["head"], kept);
  EXPECT_EQ(d["totals"]["on_list"], 1);
  EXPECT_EQ(edit(lab.image(), "orphan release").status, 0);
  expect_clean(lab.image());
}

TEST(DebugEdit, LostNumberOfTheOrphanFileIsFoundAgain) {
  OrphanLab lab;
  lab.debugfs({"ssv orphan_file_inum 0"});
  const ToolResult r = edit(lab.image(), "orphan create");
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.out.find("inode 12"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("found again"), std::string::npos) << r.out;
  expect_clean(lab.image());
}

TEST(DebugEdit, UndoBringsTheOldImageBack) {
  OrphanLab lab;
  lab.put_slots(0, {lab.unnamed_file(20000)});
  const auto before = file_crc32c(lab.image());
  const TempDir dir;
  const ToolResult r = e4debug({"-w", "-z", dir / "undo", "-R", "orphan drop", lab.image()});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_NE(file_crc32c(lab.image()), before);
  const ProcessRun undo = run_tool({"e2undo", dir / "undo", lab.image()});
  EXPECT_EQ(undo.status, 0) << undo.output;
  EXPECT_EQ(file_crc32c(lab.image()), before);
}

TEST(DebugTool, EveryFailureShowsInTheStatusAndIsNamed) {
  OrphanLab lab;
  EXPECT_EQ(e4debug({"-R", "orphans", "/nonexistent"}).status, 8);
  EXPECT_EQ(e4debug({lab.image()}).status, 16) << "no command";
  EXPECT_EQ(e4debug({"-X", lab.image()}).status, 16);
  EXPECT_EQ(e4debug({"-s", "8193", "-R", "show", lab.image()}).status, 16) << "-s without -b";
  const ToolResult r = e4debug({"-R", "stat nope", "-R", "show", lab.image()});
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(r.err.find("e4debug: stat nope: "), std::string::npos) << r.err;
  EXPECT_NE(r.out.find("orphan file inode"), std::string::npos) << "the next command ran";
  EXPECT_EQ(e4debug({"--stop", "-R", "stat nope", "-R", "show", lab.image()}).out, "");
  EXPECT_EQ(e4debug({"-R", "orphans --frob", lab.image()}).status, 1);
  EXPECT_EQ(e4debug({"-R", "orphans 'open", lab.image()}).status, 1);
  EXPECT_EQ(e4debug({"-f", "/nonexistent", lab.image()}).status, 8);
}

TEST(DebugTool, CommandsComeFromAFileToo) {
  OrphanLab lab;
  const ToolResult r = e4debug({"-f", "-", lab.image()}, "# a remark\n\n  orphans\nsupported_features\n");
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.out.find("Total: 0 orphans"), std::string::npos);
  EXPECT_NE(r.out.find("orphan_present"), std::string::npos);
}

TEST(DebugTool, UnknownFeatureIsNamedAndOnlyLookedAt) {
  OrphanLab lab;
  lab.debugfs({"feature FEATURE_C20"});
  const ToolResult look = e4debug({"-R", "orphans", lab.image()});
  EXPECT_EQ(look.status, 0);
  EXPECT_NE(look.err.find("FEATURE_C20"), std::string::npos) << look.err;
  const auto before = file_crc32c(lab.image());
  const ToolResult write = edit(lab.image(), "orphan drop");
  EXPECT_EQ(write.status, 1);
  EXPECT_NE(write.err.find("FEATURE_C20"), std::string::npos) << write.err;
  EXPECT_EQ(file_crc32c(lab.image()), before);
}

TEST(DebugTool, SuperblockCopyIsReadWhenThePrimaryIsGone) {
  OrphanLab lab("-b 1024 -t ext4 -O orphan_file,metadata_csum", "32M");
  std::fstream(lab.image(), std::ios::in | std::ios::out | std::ios::binary).seekp(1024).write(std::string(1024, '\0').data(), 1024);
  EXPECT_EQ(e4debug({"-R", "show", lab.image()}).status, 8);
  const ToolResult r = e4debug({"-b", "1024", "-s", "8193", "--json", "-R", "show", lab.image()});
  ASSERT_EQ(r.status, 0) << r.err;
  const json d = json::parse(r.out);
  EXPECT_EQ(d["orphan_file_inode"], 12);
  EXPECT_EQ(d["block_count"], 32768);
  EXPECT_EQ(std::count(d["features"].begin(), d["features"].end(), "orphan_file"), 1);
}

}  // namespace
}  // namespace e4
