// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "trace/compare.h"

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

/// What the command line asks for; `text` alone when it asked for help or the version.
struct Options {
  std::variant<std::monostate, CompareOptions, InfoOptions, PoliciesOptions, RecordOptions> command;
  std::string text;
};

/// Errors (usage) are one line.
Result<Options> parse_options(const std::vector<std::string>& args);

}  // namespace e4::replay
