// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "replay/experiment.h"

namespace e4::replay {

/// One run of a sweep: a recording under a policy set with so many threads.
struct SweepJob {
  std::string id;          // the same job has the same id on every machine
  std::string recording;
  PolicySet policy;
  std::uint32_t threads = 1;
  std::uint32_t repeats = 1;
};

/// Reads a sweep file: {"recordings": [DIR, ...], "policies": ["NAME:WORDS" or "WORDS", ...], "threads": [1, 2],
/// "repeats": 3}. Relative recordings are taken from the file's own folder. Jobs come in a fixed order.
Result<std::vector<SweepJob>> read_sweep(const std::string& path);

struct Shard {
  std::uint32_t index = 0, count = 1;  // this one of so many
};
/// "2/8": the second of eight, counted from 1.
Result<Shard> parse_shard(const std::string& text);

struct SweepDone {
  std::uint64_t jobs = 0, skipped = 0, ran = 0, failed = 0;
};
/// Runs the shard's jobs that `output` does not hold yet, appending one JSON line each (a last line cut by a crash is
/// dropped first). A job that could not run becomes a line with "error", and is tried again by the next call.
Result<SweepDone> run_sweep(const std::vector<SweepJob>& jobs, Shard shard, const std::string& output,
                            const std::function<bool(const SweepJob&, std::uint64_t done, std::uint64_t total)>& tick = {});

/// Joins the outputs of shards into one: each job once, in the order of the sweep file, finished lines before errors.
/// Returns the jobs that are still missing.
Result<std::vector<std::string>> merge_sweep(const std::vector<SweepJob>& jobs, const std::vector<std::string>& inputs,
                                             const std::string& output);

}  // namespace e4::replay
