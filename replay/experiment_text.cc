// SPDX-License-Identifier: GPL-2.0-only
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "replay/experiment.h"

namespace e4::replay {
namespace {

using nlohmann::ordered_json;

/// "groups scanned 0.93 times (157 for 169)"
std::string change(const char* what, double from, double to) {
  if (from == to || (from > 0 && std::fabs(to / from - 1) < 0.02)) return fmt::format("{} unchanged", what);
  if (from <= 0) return fmt::format("{} {:.4g}, none before", what, to);
  return fmt::format("{} {:.2f} times ({:.4g} for {:.4g})", what, to / from, to, from);
}

std::string lock_line(const char* name, const alloc::LockCounts& l) {
  return fmt::format("  {:<24}{:>12} taken {:>10} waited for {:>10} found held\n", name, l.acquired, l.contended, l.try_failed);
}

ordered_json lock_json(const alloc::LockCounts& l) {
  return {{"acquired", l.acquired}, {"contended", l.contended}, {"try_failed", l.try_failed}};
}

std::string one(const Trial& t) {
  const trace::RunResult& x = t.result;
  const ReportRun& r = t.report;
  std::string s = fmt::format("{}, {}\n", t.device.empty() ? "file system" : t.device, t.policy.name);
  s += fmt::format("  {} decisions, {} frees in {:.4f} s ({:.4f} s CPU): {:.0f} decisions a second\n", x.decisions, x.frees,
                   x.wall_s, x.cpu_s, r.decisions_per_s);
  if (t.recorded_wall_s > 0 && x.wall_s > 0)
    s += fmt::format("  the recording took {:.3f} s: {:.1f} times as long\n", t.recorded_wall_s, t.recorded_wall_s / x.wall_s);
  if (x.latency.samples() != 0)
    s += fmt::format("  one decision: 50 % below {:.0f} ns, 90 % {:.0f}, 99 % {:.0f}, 99.9 % {:.0f}\n", x.latency.percentile(50),
                     x.latency.percentile(90), x.latency.percentile(99), x.latency.percentile(99.9));
  for (const auto& c : r.criteria)
    if (c.decisions != 0 || c.groups != 0)
      s += fmt::format("  {:<24}{:>12} decisions {:>12} groups considered\n", c.name, c.decisions, c.groups);
  s += lock_line("group locks", x.stats.group_locks) + lock_line("order set locks", x.stats.order_set_locks) +
       lock_line("freed list lock", x.stats.freed_list_lock) + lock_line("locality group locks", x.stats.locality_locks) +
       lock_line("inode locks", x.stats.inode_locks);
  s += fmt::format("  busy groups passed over {}, best chunk lost {}\n", x.stats.busy_skips, x.stats.lost_chunks);
  s += fmt::format("  free runs {} before, {} after; {:.3f} extents a file, {:.1f} % of them in the file's first group\n",
                   t.free_runs_before, t.free_runs_after, r.extents_per_file, r.locality * 100);
  if (x.no_space + x.refused != 0)
    s += fmt::format("  without space: {} claims refused, {} searches failed\n", x.refused, x.no_space);
  return s;
}

}  // namespace

std::string verdict(const Experiment& e) {
  std::string s;
  for (std::size_t i = 0; i < e.trials.size(); ++i) {
    const Trial& base = e.trials[i];
    for (std::size_t k = i + 1; k < e.trials.size() && e.trials[k].device == base.device; ++k) {
      const Trial& t = e.trials[k];
      s += fmt::format(
          "{}{} against {}{}: {}, {}, {}, {}, {}.", s.empty() ? "" : " ", t.policy.name, base.policy.name,
          base.device.empty() ? "" : " on " + base.device,
          change("decisions a second", base.report.decisions_per_s, t.report.decisions_per_s),
          change("groups scanned", static_cast<double>(base.report.groups_scanned), static_cast<double>(t.report.groups_scanned)),
          change("lock waits and skips", static_cast<double>(base.report.lock_waits), static_cast<double>(t.report.lock_waits)),
          change("extents a file", base.report.extents_per_file, t.report.extents_per_file),
          change("free runs", static_cast<double>(base.free_runs_after), static_cast<double>(t.free_runs_after)));
    }
    while (i + 1 < e.trials.size() && e.trials[i + 1].device == base.device) ++i;
  }
  return s;
}

ReportModel report_model(const Experiment& e, const std::string& device) {
  ReportModel m;
  m.title = "Replay of " + e.recording;
  m.subtitle = e.what;
  for (const Trial& t : e.trials)
    if (t.device == device) m.runs.push_back(t.report);
  Experiment mine = e;
  std::erase_if(mine.trials, [&](const Trial& t) { return t.device != device; });
  m.verdict = verdict(mine);
  return m;
}

std::string experiment_text(const Experiment& e, bool side_by_side) {
  std::string s = fmt::format("{}: {} events\n", e.recording, e.events);
  for (const auto& n : e.notes) s += "  note: " + n + "\n";
  if (!side_by_side) {
    for (const Trial& t : e.trials) s += one(t);
    return s;
  }
  std::size_t begin = 0;
  while (begin < e.trials.size()) {
    std::size_t end = begin;
    while (end < e.trials.size() && e.trials[end].device == e.trials[begin].device) ++end;
    s += fmt::format("{:<26}", e.trials[begin].device);
    for (std::size_t i = begin; i < end; ++i) s += fmt::format("{:>22}", e.trials[i].policy.name.substr(0, 21));
    s += "\n";
    auto row = [&](const char* name, auto value) {
      s += fmt::format("{:<26}", name);
      for (std::size_t i = begin; i < end; ++i) s += fmt::format("{:>22}", value(e.trials[i]));
      s += "\n";
    };
    row("decisions", [](const Trial& t) { return fmt::format("{}", t.result.decisions); });
    row("decisions a second", [](const Trial& t) { return fmt::format("{:.0f}", t.report.decisions_per_s); });
    row("CPU seconds", [](const Trial& t) { return fmt::format("{:.4f}", t.result.cpu_s); });
    row("median, ns", [](const Trial& t) { return fmt::format("{:.0f}", t.result.latency.percentile(50)); });
    row("99 %, ns", [](const Trial& t) { return fmt::format("{:.0f}", t.result.latency.percentile(99)); });
    row("groups scanned", [](const Trial& t) { return fmt::format("{}", t.report.groups_scanned); });
    row("lock waits and skips", [](const Trial& t) { return fmt::format("{}", t.report.lock_waits); });
    row("extents a file", [](const Trial& t) { return fmt::format("{:.3f}", t.report.extents_per_file); });
    row("in the first group, %", [](const Trial& t) { return fmt::format("{:.1f}", t.report.locality * 100); });
    row("free runs after", [](const Trial& t) { return fmt::format("{}", t.free_runs_after); });
    begin = end;
  }
  return s + verdict(e) + "\n";
}

std::string experiment_json(const Experiment& e) {
  ordered_json j;
  j["schema"] = "e4replay-run/1";
  j["recording"] = e.recording;
  j["events"] = e.events;
  j["lost_events"] = e.lost_events;
  j["notes"] = e.notes;
  j["verdict"] = verdict(e);
  j["trials"] = ordered_json::array();
  for (const Trial& t : e.trials) {
    const trace::RunResult& x = t.result;
    ordered_json o;
    o["device"] = t.device;
    o["policy"] = {{"name", t.policy.name}, {"words", t.policy.words}};
    o["wall_seconds"] = x.wall_s;
    o["cpu_seconds"] = x.cpu_s;
    o["recorded_wall_seconds"] = t.recorded_wall_s;
    o["operations"] = x.operations;
    o["decisions"] = x.decisions;
    o["decisions_per_second"] = t.report.decisions_per_s;
    o["frees"] = x.frees;
    o["claims_refused"] = x.refused;
    o["no_space"] = x.no_space;
    o["groups_scanned"] = t.report.groups_scanned;
    o["lock_waits"] = t.report.lock_waits;
    o["locks"] = {{"group", lock_json(x.stats.group_locks)},
                  {"order_set", lock_json(x.stats.order_set_locks)},
                  {"freed_list", lock_json(x.stats.freed_list_lock)},
                  {"locality_group", lock_json(x.stats.locality_locks)},
                  {"inode", lock_json(x.stats.inode_locks)}};
    o["busy_skips"] = x.stats.busy_skips;
    o["lost_chunks"] = x.stats.lost_chunks;
    o["criteria"] = ordered_json::array();
    for (const auto& c : t.report.criteria)
      o["criteria"].push_back({{"name", c.name}, {"decisions", c.decisions}, {"groups_considered", c.groups}});
    o["latency_ns"] = ordered_json::array();
    for (const auto& p : t.report.latency) o["latency_ns"].push_back({{"percentile", p.percentile}, {"ns", p.nanoseconds}});
    o["extents_per_file"] = t.report.extents_per_file;
    o["locality"] = t.report.locality;
    o["files"] = x.files.size();
    o["free_runs_before"] = t.free_runs_before;
    o["free_runs_after"] = t.free_runs_after;
    o["free_run_histogram"] = ordered_json::array();
    for (const auto& b : t.report.free_after)
      o["free_run_histogram"].push_back({{"order", b.order}, {"runs", b.runs}, {"clusters", b.clusters}});
    j["trials"].push_back(std::move(o));
  }
  return j.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace e4::replay
