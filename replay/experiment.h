// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "replay/comparison.h"
#include "replay/options.h"
#include "replay/report_model.h"
#include "trace/runner.h"

namespace e4::replay {

struct ExperimentOptions {
  RecordingOptions from;
  std::vector<PolicySet> policies;  // at least one
  trace::RunOptions run;
  unsigned repeats = 1;             // of each; the one with the median wall time counts
};

/// What one policy set made of one file system.
struct Trial {
  std::string device;
  PolicySet policy;
  trace::RunResult result;
  ReportRun report;                 // the same, ready to be shown
  std::uint64_t free_runs_before = 0, free_runs_after = 0;
  double recorded_wall_s = 0;       // of the trace itself
};

struct Experiment {
  std::string recording, what, kernel;
  std::uint64_t events = 0, lost_events = 0;
  std::vector<std::string> notes;
  std::vector<Trial> trials;        // by file system, then policy
};

/// Plays the trace once into a script for each file system, then runs it under every policy set.
Result<Experiment> run_experiment(const ExperimentOptions& options, const Tick& tick = {});

/// A sentence or two on what the policies change, from the first to the others. Empty for one policy.
std::string verdict(const Experiment& e);

/// The report page's model: one file system, all policy sets.
ReportModel report_model(const Experiment& e, const std::string& device);

std::string experiment_text(const Experiment& e, bool side_by_side);
/// One JSON document and a newline (schema e4replay-run, man/e4replay-run.schema.json).
std::string experiment_json(const Experiment& e);

}  // namespace e4::replay
