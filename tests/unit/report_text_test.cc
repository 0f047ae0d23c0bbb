// SPDX-License-Identifier: GPL-2.0-only
#include "report/text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "report/json.h"
#include "report/progress.h"

namespace e4::report {
namespace {

Finding finding(Fate fate) {
  return {.id = "x-y", .severity = Severity::error, .fate = fate, .place = {.ino = 12, .slot = 3}, .text = "Slot 3 is bad.",
          .question = "Clear?", .args = {arg("value", 255)}};
}

TEST(ReportText, AFindingReadsAsInE2fsck) {
  std::ostringstream out;
  TextSink sink(out, {.device = "x.img"});
  sink.add(finding(Fate::fixed));
  sink.add(finding(Fate::left));
  sink.say("recovering journal");
  EXPECT_EQ(out.str(), "Slot 3 is bad.  Clear? yes\nSlot 3 is bad.  Clear? no\nx.img: recovering journal\n");
}

TEST(ReportText, PreenPrefixesEveryLineAndIsQuietWhereAsked) {
  std::ostringstream out;
  TextSink sink(out, {.device = "x.img", .prefix_all = true});
  sink.add(finding(Fate::fixed));
  Finding quiet = finding(Fate::fixed);
  quiet.quiet = true;
  sink.add(quiet);
  EXPECT_EQ(out.str(), "x.img: Slot 3 is bad.  (fixed)\n");
}

TEST(ReportText, QuestionsTakeYesNoAllEnterAndTheEndOfInputIsNo) {
  std::istringstream in("\nn\nwhat\na\n");
  std::ostringstream out;
  TextSink sink(out, {.device = "x.img"}, &in);
  EXPECT_EQ(sink.ask(finding(Fate::left)), Answer::yes);
  sink.add(finding(Fate::fixed));
  EXPECT_EQ(sink.ask(finding(Fate::left)), Answer::no);
  EXPECT_EQ(sink.ask(finding(Fate::left)), Answer::all);
  EXPECT_EQ(sink.ask(finding(Fate::left)), Answer::no);
  EXPECT_NE(out.str().find("Please answer y"), std::string::npos);
}

TEST(ReportText, ControlBytesOfAnImageNeverReachTheTerminal) {
  EXPECT_EQ(printable("a\x1b[2Jb\n"), "a\\x1b[2Jb\\x0a");
}

TEST(ReportText, TheSummaryAlwaysSaysWhatWasNotChecked) {
  Verdict v;
  v.not_checked = {"directories"};
  v.counts = {.inodes = 10, .free_inodes = 4, .blocks = 100, .free_blocks = 60};
  std::ostringstream out;
  write_summary(out, "x.img", v, false);
  EXPECT_NE(out.str().find("6/10 files, 40/100 blocks; not checked: directories"), std::string::npos) << out.str();
}

TEST(ReportJson, TheDocumentIsVersionedAndSurvivesBytesThatAreNotUtf8) {
  Collector findings(nullptr, 1);
  Finding f = finding(Fate::fixed);
  f.text = "name \xff\xfe";
  findings.add(f);
  findings.add(f);
  Verdict v;
  v.orphans.deleted = 3;
  v.orphans.truncated = 2;
  v.exit_status = 1;
  std::ostringstream out;
  write_json(out, {.tool = "e4fsck", .version = "1", .image = "x", .mode = "yes", .error = ""}, v, findings);
  const auto j = nlohmann::json::parse(out.str());
  EXPECT_EQ(j["schema_version"], kJsonVersion);
  EXPECT_EQ(j["exit_status"], 1);
  EXPECT_TRUE(j["error"].is_null());
  EXPECT_EQ(j["verdict"]["orphans_released"], 5);
  EXPECT_EQ(j["findings"][0]["args"]["value"], 255);
  EXPECT_EQ(j["findings"][0]["slot"], 3);
  EXPECT_EQ(j["findings_not_listed"], 1);
}

TEST(ReportProgress, TheBarStaysWithinItsWidth) {
  std::ostringstream out;
  auto p = bar_progress(out, "x.img", 60);
  p->phase(1, "journal");
  p->step(5, 10);
  p->step(10, 10);
  p->done();
  std::istringstream parts(out.str());
  for (std::string line; std::getline(parts, line, '\r');) EXPECT_LT(line.size(), 60u) << line;
}

}  // namespace
}  // namespace e4::report
