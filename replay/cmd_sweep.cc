// SPDX-License-Identifier: GPL-2.0-only
#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "replay/commands.h"
#include "replay/generate.h"
#include "replay/replay.h"
#include "replay/sweep.h"

namespace e4::replay {

Result<int> cmd_sweep(const SweepOptions& o, cli::Io& io) {
  const auto jobs = E4_TRY(read_sweep(o.file));
  const Shard shard = E4_TRY(parse_shard(o.shard));
  const SweepDone done = E4_TRY(run_sweep(jobs, shard, o.output, [&](const SweepJob& job, std::uint64_t at, std::uint64_t total) {
    if (!o.quiet) io.err << fmt::format("{}/{} {}\n", at + 1, total, job.id) << std::flush;
    return !io.stop.stop_requested();
  }));
  io.out << fmt::format("{}: {} of {} jobs of this shard run, {} were there already, {} could not run\n", o.output, done.ran, done.jobs,
                        done.skipped, done.failed);
  return done.failed == 0 ? kSame : kDiffers;
}

Result<int> cmd_merge(const MergeOptions& o, cli::Io& io) {
  const auto jobs = E4_TRY(read_sweep(o.file));
  const auto missing = E4_TRY(merge_sweep(jobs, o.inputs, o.output));
  io.out << fmt::format("{}: {} of {} jobs\n", o.output, jobs.size() - missing.size(), jobs.size());
  for (const auto& id : missing) io.out << "  missing: " << id << "\n";
  return missing.empty() ? kSame : kDiffers;
}

Result<int> cmd_generate(const GenerateOptions& o, cli::Io& io) {
  if (o.workload == "list") {
    for (const auto& w : workloads()) io.out << fmt::format("{:<16}{} ({} by default)\n", w.name, w.what, w.count);
    return kSame;
  }
  const Generated g = E4_TRY(generate(o));
  if (o.json) {
    nlohmann::ordered_json j;
    j["schema"] = "e4replay-generate/1";
    j["recording"] = o.output;
    j["workload"] = o.workload;
    j["seed"] = o.seed;
    j["events"] = g.events;
    j["decisions"] = g.decisions;
    j["free_blocks"] = g.free_blocks;
    j["stopped"] = g.stopped.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(g.stopped);
    io.out << j.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
    return kSame;
  }
  io.out << fmt::format("{}: {}, seed {}: {} events, {} decisions, {} blocks free at the end\n", o.output, o.workload, o.seed, g.events,
                        g.decisions, g.free_blocks);
  if (!g.stopped.empty()) io.out << "  ended early: " << g.stopped << "\n";
  return kSame;
}

}  // namespace e4::replay
