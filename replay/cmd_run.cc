// SPDX-License-Identifier: GPL-2.0-only
// run, what-if and report: one experiment, three ways to show it.
#include <fmt/core.h>

#include <fstream>
#include <ostream>

#include "replay/commands.h"
#include "replay/experiment.h"
#include "replay/options_run.h"
#include "replay/replay.h"
#include "replay/report_html.h"
#include "replay/ticker.h"

namespace e4::replay {
namespace {

Result<Experiment> experiment(const char* name, const ExperimentOptions& options, cli::Io& io) {
  Ticker ticker(io, name);
  Experiment e = E4_TRY(run_experiment(options, [&](std::uint64_t done, std::optional<std::uint64_t> total) {
    return ticker.tick(done, total);
  }));
  ticker.done();
  return e;
}

/// The base set first, then the others in the order given.
std::vector<PolicySet> sets(const std::string& base, const std::vector<std::string>& with) {
  std::vector<PolicySet> all{parse_policy_set(base.empty() ? "linux-6.18:preset=linux-6.18" : base)};
  for (const auto& w : with) all.push_back(parse_policy_set(w));
  return all;
}

}  // namespace

Result<int> cmd_run(const RunOptions& o, cli::Io& io) {
  PolicySet set;
  if (!o.preset.empty()) set.words.push_back("preset=" + o.preset);
  set.words.insert(set.words.end(), o.policy.begin(), o.policy.end());
  for (const auto& w : set.words) set.name += (set.name.empty() ? "" : ",") + w;
  if (set.name.empty()) set.name = "linux-6.18";
  const Experiment e = E4_TRY(experiment("run", {o.from, {set}, o.run, o.repeats}, io));
  io.out << (o.json ? experiment_json(e) : experiment_text(e, false));
  return kSame;
}

Result<int> cmd_what_if(const WhatIfOptions& o, cli::Io& io) {
  const Experiment e = E4_TRY(experiment("what-if", {o.from, sets(o.base, o.with), o.run, o.repeats}, io));
  io.out << (o.json ? experiment_json(e) : experiment_text(e, true));
  return kSame;
}

Result<int> cmd_report(const ReportOptions& o, cli::Io& io) {
  const Experiment e = E4_TRY(experiment("report", {o.from, sets(o.base, o.with), o.run, o.repeats}, io));
  if (e.trials.empty()) return make_error(ErrorKind::usage, "the recording holds no file system");
  const std::string device = e.trials.front().device;
  for (const Trial& t : e.trials)
    if (t.device != device)
      return make_error(ErrorKind::usage, "the recording holds several file systems; choose one with --device");
  std::ofstream page(o.output, std::ios::binary | std::ios::trunc);
  page << report_html(report_model(e, device));
  page.close();
  if (!page) return make_error(ErrorKind::io, "cannot write " + o.output);
  io.out << fmt::format("{}: {} runs of {}\n", o.output, e.trials.size(), e.recording);
  return kSame;
}

}  // namespace e4::replay
