// SPDX-License-Identifier: GPL-2.0-only
#include "replay/report_html.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "replay/svg.h"

namespace e4::replay {
namespace {

using svg::escape;
using svg::short_number;

constexpr char kStyle[] = R"css(
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--dim:#5a6472;--line:#d9dee5;--card:#f6f8fa;--cold:#e8eef5;--hot:#b3372f;
--c0:#1f6fc4;--c1:#c2560c;--c2:#1d8a4e;--c3:#8a3fb0;--c4:#a88600;--c5:#0d8a93}
@media (prefers-color-scheme:dark){:root{--bg:#14171b;--fg:#e6e9ed;--dim:#9aa5b1;--line:#323a44;--card:#1c2127;--cold:#26303b;--hot:#f0776c;
--c0:#6cb2ff;--c1:#ffa05c;--c2:#5fd394;--c3:#d296f5;--c4:#e3c14e;--c5:#4fd3dd}}
*{box-sizing:border-box}body{margin:0 auto;padding:1.5rem;max-width:76rem;background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.6rem;margin:0}h2{font-size:1.2rem;margin:2rem 0 .5rem;border-bottom:1px solid var(--line);padding-bottom:.2rem}
h3{font-size:1rem;margin:.2rem 0 .4rem}p.sub{color:var(--dim);margin:.2rem 0 1rem}p.verdict{background:var(--card);border-left:4px solid var(--c0);padding:.7rem 1rem}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.7rem;margin:1rem 0}.tile{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:.6rem .8rem}
.tile b{display:block;font-size:1.35rem;font-variant-numeric:tabular-nums}.tile span{color:var(--dim);font-size:.85rem}
.grid2{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(30rem,100%),1fr));gap:1rem}
figure{margin:0;max-width:46rem;background:var(--card);border:1px solid var(--line);border-radius:6px;padding:.7rem;break-inside:avoid}svg{width:100%;height:auto;display:block}
.grid{stroke:var(--line);stroke-width:1}.tick{fill:var(--dim);font-size:11px}.axis{fill:var(--fg);font-size:12px}.line{fill:none;stroke-width:2}
.s0{stroke:var(--c0)}.s1{stroke:var(--c1)}.s2{stroke:var(--c2)}.s3{stroke:var(--c3)}.s4{stroke:var(--c4)}.s5{stroke:var(--c5)}
.bar{stroke:none}.bar.s0{fill:var(--c0)}.bar.s1{fill:var(--c1)}.bar.s2{fill:var(--c2)}.bar.s3{fill:var(--c3)}.bar.s4{fill:var(--c4)}.bar.s5{fill:var(--c5)}
.line.s1{stroke-dasharray:6 3}.line.s2{stroke-dasharray:2 3}.line.s3{stroke-dasharray:8 3 2 3}
.heat{fill:color-mix(in srgb,var(--hot) var(--v),var(--cold))}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1rem;margin:.4rem 0 0;padding:0;font-size:.85rem}.key{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.4em}
.k0{background:var(--c0)}.k1{background:var(--c1)}.k2{background:var(--c2)}.k3{background:var(--c3)}.k4{background:var(--c4)}.k5{background:var(--c5)}
details{margin-top:.5rem;font-size:.9rem}summary{cursor:pointer;color:var(--dim)}summary:focus-visible,a:focus-visible,.scroll:focus-visible{outline:2px solid var(--c0);outline-offset:2px}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:.9rem}th,td{padding:.25rem .6rem;text-align:right;border-bottom:1px solid var(--line)}th:first-child,td:first-child{text-align:left}
.scroll{overflow-x:auto;max-height:24rem}dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;margin:.5rem 0;font-size:.9rem}dt{color:var(--dim)}dd{margin:0;overflow-wrap:anywhere}.none{color:var(--dim)}
nav ul{display:flex;flex-wrap:wrap;gap:1rem;list-style:none;padding:0;margin:.5rem 0}a{color:var(--c0)}
@media print{body{max-width:none;padding:0;font-size:11px}nav,details:not([open]){display:none}figure,.tile{background:none}.scroll{max-height:none}.heat,.bar,.key{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
)css";

using Row = std::vector<std::string>;

std::string table(const Row& head, const std::vector<Row>& rows) {
  std::string s = "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>";
  for (const auto& h : head) s += "<th scope=\"col\">" + escape(h) + "</th>";
  s += "</tr></thead><tbody>";
  for (const auto& r : rows) {
    s += "<tr>";
    for (const auto& cell : r) s += "<td>" + escape(cell) + "</td>";
    s += "</tr>";
  }
  return s + "</tbody></table></div>";
}

std::string figure(const std::string& title, const std::string& drawing, const Row& head, const std::vector<Row>& rows) {
  std::string s = "<figure><h3>" + escape(title) + "</h3>" + drawing;
  if (!rows.empty()) s += "<details><summary>Numbers</summary>" + table(head, rows) + "</details>";
  return s + "</figure>";
}

std::string number(double v) { return short_number(v); }
std::string count(std::uint64_t v) { return fmt::format("{}", v); }

Row names_after(std::string first, const ReportModel& m) {
  Row r{std::move(first)};
  for (const auto& run : m.runs) r.push_back(run.name);
  return r;
}

std::string tiles(const ReportRun& r) {
  auto tile = [](const std::string& value, const char* label) {
    return "<div class=\"tile\"><b>" + escape(value) + "</b><span>" + label + "</span></div>";
  };
  return "<div class=\"tiles\">" + tile(number(static_cast<double>(r.decisions)), "decisions") +
         tile(number(r.decisions_per_s), "decisions a second") + tile(fmt::format("{:.3g} s", r.cpu_s), "CPU") +
         tile(number(static_cast<double>(r.groups_scanned)), "groups scanned") +
         tile(number(static_cast<double>(r.lock_waits)), "lock waits and skips") +
         tile(fmt::format("{:.3g}", r.extents_per_file), "extents a file") + "</div>";
}

std::string facts(const ReportRun& r) {
  if (r.facts.empty()) return "";
  std::string s = "<dl>";
  for (const auto& [k, v] : r.facts) s += "<dt>" + escape(k) + "</dt><dd>" + escape(v) + "</dd>";
  return s + "</dl>";
}

std::string side_by_side(const ReportModel& m) {
  std::vector<Row> rows;
  auto add = [&](const char* label, auto value) {
    Row r{label};
    for (const auto& run : m.runs) r.push_back(value(run));
    rows.push_back(r);
  };
  add("decisions", [](const ReportRun& r) { return count(r.decisions); });
  add("decisions a second", [](const ReportRun& r) { return number(r.decisions_per_s); });
  add("CPU seconds", [](const ReportRun& r) { return fmt::format("{:.3f}", r.cpu_s); });
  add("wall seconds", [](const ReportRun& r) { return fmt::format("{:.3f}", r.wall_s); });
  add("groups scanned", [](const ReportRun& r) { return count(r.groups_scanned); });
  add("lock waits and skips", [](const ReportRun& r) { return count(r.lock_waits); });
  add("extents a file", [](const ReportRun& r) { return fmt::format("{:.3f}", r.extents_per_file); });
  add("locality", [](const ReportRun& r) { return fmt::format("{:.1f} %", r.locality * 100); });
  return table(names_after("", m), rows);
}

/// One line for each run; the numbers of all runs in one table, joined on x.
template <class Points>
std::string lines(const ReportModel& m, svg::LineChart chart, const char* x_name, const char* x_format, Points points) {
  std::map<double, Row> rows;
  for (std::size_t i = 0; i < m.runs.size(); ++i) {
    svg::Line line{m.runs[i].name, points(m.runs[i])};
    for (const auto& [x, y] : line.points) {
      Row& row = rows[x];
      row.resize(m.runs.size() + 1);
      row[0] = fmt::format(fmt::runtime(x_format), x);
      row[i + 1] = number(y);
    }
    chart.lines.push_back(std::move(line));
  }
  std::vector<Row> listed;
  for (auto& [x, row] : rows) listed.push_back(row);
  return figure(chart.title, svg::line_chart(chart), names_after(x_name, m), listed);
}

template <class Value>
std::string timeline(const ReportModel& m, const char* title, const char* y_label, Value value) {
  return lines(m, {title, "seconds of the trace", y_label, {}, false}, "second", "{:.3f}", [&](const ReportRun& r) {
    std::vector<std::pair<double, double>> p;
    for (const auto& slice : r.timeline) p.emplace_back(slice.at_s, value(slice));
    return p;
  });
}

std::string latency(const ReportModel& m) {
  return lines(m, {"Time of one decision", "percentile", "nanoseconds", {}, true}, "percentile", "{:.6g} %",
               [](const ReportRun& r) {
                 std::vector<std::pair<double, double>> p;
                 for (const auto& point : r.latency) p.emplace_back(point.percentile, point.nanoseconds);
                 return p;
               });
}

template <class Value>
std::string criteria(const ReportModel& m, const char* title, Value value) {
  std::vector<std::string> order;
  for (const auto& run : m.runs)
    for (const auto& c : run.criteria)
      if (std::find(order.begin(), order.end(), c.name) == order.end()) order.push_back(c.name);
  svg::BarChart chart{title, title, {}, {}};
  for (const auto& run : m.runs) chart.series.push_back(run.name);
  std::vector<Row> rows;
  for (const auto& name : order) {
    svg::BarGroup g{name.rfind("CR_", 0) == 0 ? name.substr(3) : name, {}};
    Row row{name};
    for (const auto& run : m.runs) {
      const auto it = std::find_if(run.criteria.begin(), run.criteria.end(), [&](const auto& c) { return c.name == name; });
      const std::uint64_t v = it == run.criteria.end() ? 0 : value(*it);
      g.values.push_back(static_cast<double>(v));
      row.push_back(count(v));
    }
    chart.groups.push_back(std::move(g));
    rows.push_back(std::move(row));
  }
  return figure(title, svg::bar_chart(chart), names_after("criterion", m), rows);
}

std::string free_runs(const ReportModel& m) {
  // Before is the same for every run: drawn once, then each run's after.
  std::vector<std::pair<std::string, const std::vector<FreeRunBar>*>> series;
  if (!m.runs.empty()) series.emplace_back("before", &m.runs[0].free_before);
  for (const auto& run : m.runs) series.emplace_back(m.runs.size() > 1 ? "after, " + run.name : "after", &run.free_after);
  std::set<unsigned> orders;
  for (const auto& [name, bars] : series)
    for (const auto& b : *bars) orders.insert(b.order);
  svg::BarChart chart{"Free clusters by length of their run", "free clusters", {}, {}};
  Row head{"run of"};
  for (const auto& [name, bars] : series) {
    chart.series.push_back(name);
    head.push_back(name + ": runs");
    head.push_back("clusters");
  }
  std::vector<Row> rows;
  for (const unsigned o : orders) {
    svg::BarGroup g{short_number(static_cast<double>(std::uint64_t{1} << std::min(o, 62U))), {}};
    Row row{g.label + " and more"};
    for (const auto& [name, bars] : series) {
      const auto it = std::find_if(bars->begin(), bars->end(), [o](const auto& b) { return b.order == o; });
      g.values.push_back(it == bars->end() ? 0 : static_cast<double>(it->clusters));
      row.push_back(count(it == bars->end() ? 0 : it->runs));
      row.push_back(count(it == bars->end() ? 0 : it->clusters));
    }
    chart.groups.push_back(std::move(g));
    rows.push_back(std::move(row));
  }
  return figure(chart.title, svg::bar_chart(chart), head, rows);
}

std::string disks(const ReportModel& m) {
  std::string s = "<div class=\"grid2\">";
  auto add = [&](const std::string& title, const std::vector<float>& cells) {
    s += "<figure><h3>" + escape(title) + "</h3>" + svg::heat_map(title, cells) + "</figure>";
  };
  if (!m.runs.empty()) add("Disk before", m.runs[0].used_before);
  for (const auto& run : m.runs) add(m.runs.size() > 1 ? "Disk after, " + run.name : "Disk after", run.used_after);
  return s + "</div><p class=\"sub\">One cell is an equal share of the disk, from block 0 at the top left; redder is fuller.</p>";
}

std::string files(const ReportRun& r) {
  std::vector<Row> rows;
  for (const auto& f : r.files) rows.push_back({count(f.ino), count(f.blocks), count(f.extents)});
  return rows.empty() ? "<p class=\"none\">no files</p>" : table({"inode", "blocks", "extents"}, rows);
}

}  // namespace

std::string report_html(const ReportModel& m) {
  std::string s = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
                  "content=\"width=device-width,initial-scale=1\"><title>" +
                  escape(m.title) + "</title><style>" + kStyle + "</style></head><body><header><h1>" + escape(m.title) +
                  "</h1><p class=\"sub\">" + escape(m.subtitle) + "</p>";
  s += "<nav aria-label=\"Sections\"><ul><li><a href=\"#summary\">Summary</a></li><li><a href=\"#time\">Over time</a></li>"
       "<li><a href=\"#search\">Search</a></li><li><a href=\"#disk\">Disk</a></li><li><a href=\"#files\">Files</a></li></ul></nav>"
       "</header><main>";
  if (!m.verdict.empty()) s += "<p class=\"verdict\">" + escape(m.verdict) + "</p>";
  s += "<h2 id=\"summary\">Summary</h2>";
  if (m.runs.size() == 1) s += tiles(m.runs[0]) + facts(m.runs[0]);
  if (m.runs.size() > 1) {
    s += side_by_side(m);
    for (const auto& run : m.runs)
      if (!run.facts.empty()) s += "<details><summary>" + escape(run.name) + "</summary>" + facts(run) + "</details>";
  }
  s += "<h2 id=\"time\">Over time</h2><div class=\"grid2\">" +
       timeline(m, "Decisions", "decisions", [](const TimelineSlice& t) { return static_cast<double>(t.decisions); }) +
       timeline(m, "Groups scanned for one decision", "groups",
                [](const TimelineSlice& t) {
                  return t.decisions == 0 ? 0 : static_cast<double>(t.groups_scanned) / static_cast<double>(t.decisions);
                }) +
       timeline(m, "Lock waits and skips", "waits", [](const TimelineSlice& t) { return static_cast<double>(t.lock_waits); }) +
       latency(m) + "</div>";
  s += "<h2 id=\"search\">How blocks were found</h2><div class=\"grid2\">" +
       criteria(m, "Decisions by criterion", [](const CriterionRow& c) { return c.decisions; }) +
       criteria(m, "Groups considered by criterion", [](const CriterionRow& c) { return c.groups; }) + "</div>";
  s += "<h2 id=\"disk\">Disk</h2>" + disks(m) + "<div class=\"grid2\">" + free_runs(m) + "</div>";
  s += "<h2 id=\"files\">Most fragmented files</h2>";
  for (const auto& run : m.runs) {
    if (m.runs.size() > 1) s += "<h3>" + escape(run.name) + "</h3>";
    s += files(run);
  }
  return s + "</main></body></html>\n";
}

}  // namespace e4::replay
