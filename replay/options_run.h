// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <string>
#include <vector>

#include "replay/options.h"
#include "trace/runner.h"

namespace CLI {
class App;
}

namespace e4::replay {

/// The commands that run a trace on the allocator, as they stand on the command line.
struct RunCommandLine {
  RunOptions run;
  WhatIfOptions what_if;
  ReportOptions report;
  MaterializeOptionsLine materialize;
  GenerateOptions generate;
  StepOptions step;
  SweepOptions sweep;
  MergeOptions merge;
};

void add_recording(CLI::App& app, RecordingOptions& r);
Result<void> check_recording(const RecordingOptions& r, const char* command);

/// Adds run, what-if, report, materialize, generate, step, sweep and merge.
void add_run_commands(CLI::App& app, RunCommandLine& line);
/// Puts the one that was given into `out`; false if none of them was.
Result<bool> take_run_command(CLI::App& app, RunCommandLine& line, Options& out);

/// "NAME:word,word" or "word,word" to a policy set; the name defaults to the words.
PolicySet parse_policy_set(const std::string& text);

}  // namespace e4::replay
