// SPDX-License-Identifier: GPL-2.0-only
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "replay/report_html.h"
#include "replay/svg.h"

namespace e4::replay {
namespace {

ReportRun sample(const std::string& name, double scale) {
  ReportRun r;
  r.name = name;
  r.facts = {{"device", "7:43"}, {"mount options", "rw,relatime"}, {"kernel", "6.18.44"}};
  r.decisions = static_cast<std::uint64_t>(16006 * scale);
  r.decisions_per_s = 5.2e6 * scale;
  r.cpu_s = 0.0031 / scale;
  r.wall_s = 0.0033 / scale;
  r.groups_scanned = 48211;
  r.lock_waits = 812;
  r.extents_per_file = 1.7 / scale;
  r.locality = 0.93;
  for (int i = 0; i < 60; ++i)
    r.timeline.push_back({i * 0.01, static_cast<std::uint64_t>(200 + 80 * std::sin(i / 5.0) * scale),
                          static_cast<std::uint64_t>(500 + 5 * i), static_cast<std::uint64_t>(i % 7)});
  r.criteria = {{"goal", 4000, 4000}, {"CR_POWER2_ALIGNED", 9000, 12000}, {"CR_GOAL_LEN_FAST", 2500, 9000},
                {"CR_BEST_AVAIL_LEN", 300, 5000}, {"CR_GOAL_LEN_SLOW", 200, 9000}, {"CR_ANY_FREE", 6, 900}};
  for (const double p : {0.0, 50.0, 90.0, 99.0, 99.9, 99.99}) r.latency.push_back({p, 90 + std::exp(p / 14) * scale});
  for (int i = 0; i < 512; ++i) {
    r.used_before.push_back(static_cast<float>(i % 40) / 80.0F);
    r.used_after.push_back(static_cast<float>(i % 40) / 60.0F + (i < 90 ? 0.3F : 0.0F));
  }
  for (unsigned o = 0; o < 14; ++o) {
    r.free_before.push_back({o, 40U - 2 * o, (40U - 2 * o) << o});
    r.free_after.push_back({o, 60U - 3 * o, (60U - 3 * o) << o});
  }
  for (std::uint32_t i = 0; i < 12; ++i) r.files.push_back({12 + i, 4096U - 64 * i, 40 - i});
  return r;
}

TEST(ReportHtml, IsOneSelfContainedPageWithoutNetworkOrScript) {
  const std::string page = report_html({"Replay of 04-falloc8k-2p", "2 GiB, 16 groups", "The same.", {sample("linux-6.18", 1)}});
  for (const char* word : {"http://", "https://", "<script", "src=", "@import", "url("})
    EXPECT_EQ(page.find(word), std::string::npos) << word;
  for (const char* word : {"<!DOCTYPE html>", "prefers-color-scheme:dark", "@media print", "<details>", "aria-label", "</html>"})
    EXPECT_NE(page.find(word), std::string::npos) << word;
}

TEST(ReportHtml, NamesFromATraceCannotInjectMarkup) {
  ReportRun r = sample("<img src=x onerror=alert(1)>", 1);
  r.facts.emplace_back("command", "</dl><b>\"'&");
  const std::string page = report_html({"<title>", "a&b", "", {r, sample("b", 2)}});
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_EQ(page.find("</dl><b>"), std::string::npos);
  EXPECT_NE(page.find("&lt;img"), std::string::npos);
}

TEST(ReportHtml, EmptyRunsAreShownAsEmptyAndNotAsNonsense) {
  ReportRun r;
  r.name = "empty";
  const std::string page = report_html({"t", "s", "", {r}});
  EXPECT_EQ(page.find("nan"), std::string::npos);
  EXPECT_EQ(page.find("inf"), std::string::npos);
  EXPECT_NE(page.find("no data"), std::string::npos);
  EXPECT_NE(report_html({"t", "s", "", {}}).find("</html>"), std::string::npos);
}

TEST(ReportHtml, EveryRunStandsInTheSideBySideTable) {
  const std::string page = report_html({"What if", "", "b is faster.", {sample("linux-6.18", 1), sample("busy-groups=wait", 0.6)}});
  EXPECT_NE(page.find("<th scope=\"col\">linux-6.18</th><th scope=\"col\">busy-groups=wait</th>"), std::string::npos);
  if (const char* out = std::getenv("E4_REPORT_SAMPLE")) std::ofstream(out) << page;
}

TEST(Svg, ShortNumbersKeepTheirMeaning) {
  EXPECT_EQ(svg::short_number(0), "0");
  EXPECT_EQ(svg::short_number(9999), "9999");
  EXPECT_EQ(svg::short_number(12345), "12.3 k");
  EXPECT_EQ(svg::short_number(5.2e6), "5.2 M");
  EXPECT_EQ(svg::short_number(0.125), "0.125");
}

}  // namespace
}  // namespace e4::replay
