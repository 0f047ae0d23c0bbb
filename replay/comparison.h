// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "replay/options.h"
#include "trace/compare.h"
#include "trace/notes.h"
#include "trace/recording.h"

namespace e4::replay {

struct ComparedFilesystem {
  std::string device;
  trace::CompareResult result;
  trace::Player::Counts counts;
  std::optional<std::uint64_t> end_different_blocks;  // nothing without an end image
  std::optional<std::uint64_t> groups_different;      // mb_groups lines that differ; nothing without the file
  std::string first_group_difference;
};

struct Comparison {
  std::string recording;
  trace::Mode mode = trace::Mode::resync;
  std::uint64_t events = 0, lost_events = 0;
  double wall_seconds = 0;    // all of it
  double replay_seconds = 0;  // reading and replaying the trace, without images
  std::vector<std::string> notes;
  std::vector<ComparedFilesystem> filesystems;
  [[nodiscard]] bool all_identical() const;
};

/// Called now and then with the events done and, when known, their total. False: stop (the run ends as cancelled).
using Tick = std::function<bool(std::uint64_t, std::optional<std::uint64_t>)>;

/// Replays a recording serially and compares every decision.
Result<Comparison> compare(const CompareOptions& options, const Tick& tick = {});

/// One JSON document and a newline (schema e4replay-compare, man/e4replay-compare.schema.json).
std::string comparison_json(const Comparison& c);
std::string comparison_text(const Comparison& c, bool verbose);

}  // namespace e4::replay
