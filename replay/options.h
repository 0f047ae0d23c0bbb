// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "replay/generate.h"
#include "trace/compare.h"
#include "trace/runner.h"

namespace e4::replay {

/// Where a command's recording comes from: a directory, or parts by hand.
struct RecordingOptions {
  std::string recording;            // directory; with --image: the trace
  std::string image;                // start image
  std::string trace;                // instead of the recording's own
  std::string end_image;
  std::string mb_groups;
  std::vector<std::string> set;     // name=value
  std::vector<std::string> devices; // only these file systems of the recording
};

struct CompareOptions {
  RecordingOptions from;
  trace::Mode mode = trace::Mode::resync;
  bool json = false;
  bool verbose = false;             // list every difference
  std::vector<std::string> policy;  // name=value
};

struct InfoOptions {
  RecordingOptions from;
  bool json = false;
  bool count = false;               // read the trace and count its events
};

struct PoliciesOptions {
  bool json = false;
};

struct RecordOptions {
  std::string target;               // mount point or device
  std::string output;               // directory to make
  std::uint32_t buffer_kib = 65536; // ring buffer a CPU
  double seconds = 0;               // without a command: stop after; 0: until interrupted
  bool no_end = false;              // do not save the end state
  bool keep_mounted = false;        // record a mounted file system as it is (start state by freezing)
  std::string name;
  std::vector<std::string> command;
};

/// One way to run a trace: a name and the policy words behind it.
struct PolicySet {
  std::string name;
  std::vector<std::string> words;   // "busy-groups=wait", "preset=linux-6.15"
};

struct RunOptions {
  RecordingOptions from;
  trace::RunOptions run;
  unsigned repeats = 1;
  bool by_cpu = false;
  std::vector<std::string> policy;  // name=value
  std::string preset;
  bool json = false;
};

struct WhatIfOptions {
  RecordingOptions from;
  trace::RunOptions run;
  unsigned repeats = 5;
  bool by_cpu = false;
  std::string base;                 // a policy set
  std::vector<std::string> with;    // more of them
  bool json = false;
};

struct ReportOptions {
  RecordingOptions from;
  trace::RunOptions run;
  unsigned repeats = 1;
  bool by_cpu = false;
  std::string base;
  std::vector<std::string> with;
  std::string output;
};

struct MaterializeOptionsLine {
  RecordingOptions from;
  std::string output;
  std::string stop_at;              // event number, or seconds with "s"
  bool crash = false;
  bool json = false;
};

struct StepOptions {
  RecordingOptions from;
  std::vector<std::string> policy;  // name=value
};

struct SweepOptions {
  std::string file, output, shard;
  bool quiet = false;
};

struct MergeOptions {
  std::string file, output;
  std::vector<std::string> inputs;
};

/// What the command line asks for; `text` alone when it asked for help or the version.
struct Options {
  std::variant<std::monostate, CompareOptions, InfoOptions, PoliciesOptions, RecordOptions, RunOptions, WhatIfOptions,
               ReportOptions, MaterializeOptionsLine, GenerateOptions, SweepOptions, MergeOptions,
               StepOptions>
      command;
  std::string text;
};

/// Errors (usage) are one line.
Result<Options> parse_options(const std::vector<std::string>& args);

}  // namespace e4::replay
