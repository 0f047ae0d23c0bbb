// SPDX-License-Identifier: GPL-2.0-only
#include "replay/experiment.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

#include "replay/world.h"
#include "trace/reader.h"
#include "trace/script.h"

namespace e4::replay {
namespace {

constexpr std::size_t kCells = 1024;      // of the disk's heat map, at most
constexpr std::size_t kFilesListed = 20;

/// Free runs and how full each part of the disk is, group by group.
struct DiskView {
  std::vector<FreeRunBar> bars;
  std::vector<float> cells;
  std::uint64_t runs = 0;
};

DiskView look_at_disk(const alloc::Geometry& g, alloc::BitmapSource& start, const alloc::Allocator* allocator) {
  DiskView view;
  const std::uint64_t clusters = std::uint64_t{g.groups()} * g.clusters_per_group;
  const std::uint64_t cell_clusters = std::max<std::uint64_t>(1, (clusters + kCells - 1) / kCells);
  std::vector<std::uint64_t> used((clusters + cell_clusters - 1) / cell_clusters), total(used.size());
  std::vector<FreeRunBar> bars(64);
  std::uint64_t run = 0;
  auto end_run = [&] {
    if (run == 0) return;
    FreeRunBar& b = bars[static_cast<std::size_t>(std::bit_width(run)) - 1];
    ++b.runs;
    b.clusters += run;
    ++view.runs;
    run = 0;
  };
  std::vector<std::uint64_t> words(g.bitmap_bits() / 64);
  for (GroupNo group = 0; group < g.groups(); ++group) {
    if (allocator == nullptr || !allocator->copy_bitmap(group, words))
      if (!start.read_bitmap(group, words)) std::fill(words.begin(), words.end(), ~std::uint64_t{0});
    const std::uint32_t n = g.clusters_in(group);
    for (std::uint32_t c = 0; c < n;) {
      // Whole words at a time: most of a disk is one or the other.
      const std::uint64_t w = words[c / 64];
      const std::uint32_t step = c % 64 == 0 && n - c >= 64 && (w == 0 || w == ~std::uint64_t{0}) ? 64 : 1;
      const bool is_used = ((w >> (c % 64)) & 1) != 0;
      const std::uint64_t at = std::uint64_t{group} * g.clusters_per_group + c;
      for (std::uint64_t left = step, p = at; left != 0;) {
        const std::uint64_t cell = p / cell_clusters;
        const std::uint64_t k = std::min(left, (cell + 1) * cell_clusters - p);
        total[cell] += k;
        used[cell] += is_used ? k : 0;
        p += k;
        left -= k;
      }
      if (is_used)
        end_run();
      else
        run += step;
      c += step;
    }
    end_run();  // as the allocator sees it: no run crosses a group
  }
  for (std::size_t i = 0; i < used.size(); ++i)
    if (total[i] != 0) view.cells.push_back(static_cast<float>(static_cast<double>(used[i]) / static_cast<double>(total[i])));
  for (unsigned o = 0; o < bars.size(); ++o) {
    if (bars[o].runs == 0) continue;
    bars[o].order = o;
    view.bars.push_back(bars[o]);
  }
  return view;
}

const char* served_by(std::size_t i) {
  static constexpr const char* kNames[] = {"CR_POWER2_ALIGNED", "CR_GOAL_LEN_FAST", "CR_BEST_AVAIL_LEN", "CR_GOAL_LEN_SLOW",
                                           "CR_ANY_FREE",       "best of all",      "goal",              "preallocation"};
  return kNames[i];
}

std::uint64_t lock_waits(const alloc::Stats& s) {
  std::uint64_t n = s.busy_skips;
  for (const auto* l : {&s.group_locks, &s.order_set_locks, &s.freed_list_lock, &s.locality_locks, &s.inode_locks})
    n += l->contended + l->try_failed;
  return n;
}

void fill_report(Trial& t, const DiskView& before, const DiskView& after, const trace::Script& script) {
  ReportRun& r = t.report;
  const trace::RunResult& x = t.result;
  r.name = t.policy.name;
  r.decisions = x.decisions;
  r.cpu_s = x.cpu_s;
  r.wall_s = x.wall_s;
  r.decisions_per_s = x.wall_s > 0 ? static_cast<double>(x.decisions) / x.wall_s : 0;
  r.lock_waits = lock_waits(x.stats);
  for (const auto n : x.groups_by) r.groups_scanned += n;
  for (const std::size_t i : {std::size_t{7}, std::size_t{6}, std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{3},
                              std::size_t{4}, std::size_t{5}})
    r.criteria.push_back({served_by(i), x.decisions_by[i],
                          i < x.stats.criteria.size() ? std::max(x.stats.criteria[i].considered, x.groups_by[i]) : x.groups_by[i]});
  const double slice_s = static_cast<double>(script.last_ns - script.first_ns) / 1e9 / static_cast<double>(x.timeline.size());
  for (std::size_t i = 0; i < x.timeline.size(); ++i)
    r.timeline.push_back({slice_s * static_cast<double>(i), x.timeline[i].decisions, x.timeline[i].groups_scanned,
                          x.timeline[i].lock_waits});
  for (const double p : {0.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99})
    if (x.latency.samples() != 0) r.latency.push_back({p, x.latency.percentile(p)});
  r.used_before = before.cells;
  r.used_after = after.cells;
  r.free_before = before.bars;
  r.free_after = after.bars;
  t.free_runs_before = before.runs;
  t.free_runs_after = after.runs;
  std::uint64_t extents = 0, near = 0;
  for (const auto& [ino, f] : x.files) {
    extents += f.extents;
    near += f.in_first_group;
    r.files.push_back({ino, f.blocks, f.extents});
  }
  if (!x.files.empty()) r.extents_per_file = static_cast<double>(extents) / static_cast<double>(x.files.size());
  if (extents != 0) r.locality = static_cast<double>(near) / static_cast<double>(extents);
  std::sort(r.files.begin(), r.files.end(), [](const FileRow& a, const FileRow& b) {
    return a.extents != b.extents ? a.extents > b.extents : a.ino < b.ino;
  });
  if (r.files.size() > kFilesListed) r.files.resize(kFilesListed);
}

/// The whole trace as one script for each file system of the recording.
Result<std::vector<trace::Script>> make_scripts(const trace::Recording& recording, Experiment& e, const Tick& tick) {
  trace::ReaderOptions reader_options;
  for (const auto& f : recording.filesystems)
    if (f.device != 0) reader_options.devices.push_back(f.device);
  const auto reader = E4_TRY(trace::open_trace(recording.trace_path, reader_options));
  trace::Lookahead ahead(*reader);
  struct Part {
    World world;
    std::unique_ptr<trace::ScriptWriter> writer;
    std::unique_ptr<trace::Player> player;
  };
  std::vector<Part> parts(recording.filesystems.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i].world = E4_TRY(load_world(recording, recording.filesystems[i], {}));
    parts[i].writer = std::make_unique<trace::ScriptWriter>(parts[i].world.start->geometry());
    parts[i].player =
        std::make_unique<trace::Player>(player_facts(recording, parts[i].world, *reader), ahead, *parts[i].writer);
  }
  trace::Item item;
  std::uint64_t n = 0;
  bool any = false;
  while (E4_TRY(ahead.next(item))) {
    if (++n % (1 << 16) == 0 && tick && !tick(reader->events_read(), recording.events_total))
      return make_error(ErrorKind::cancelled, "interrupted");
    for (Part& p : parts) {
      if (p.world.recorded.device == 0) p.world.recorded.device = item.event.dev;
      any = any || (item.event.dev != 0 && p.world.recorded.device == item.event.dev);
      if (item.event.dev == 0 || p.world.recorded.device == item.event.dev) E4_TRY(feed(*p.player, recording, item));
    }
  }
  E4_TRY(expect_events(recording, *reader, any));
  e.events = reader->events_read();
  e.lost_events = std::max(reader->notes().count(trace::Trouble::lost), recording.lost_events);
  for (const auto& note : reader->notes().list()) e.notes.push_back(reader->notes().text(note));
  std::vector<trace::Script> scripts;
  for (Part& p : parts) scripts.push_back(p.writer->take());
  return scripts;
}

}  // namespace

Result<Experiment> run_experiment(const ExperimentOptions& options, const Tick& tick) {
  const trace::Recording recording = E4_TRY(load_recording(options.from));
  std::vector<alloc::Policy> policies;
  for (const PolicySet& p : options.policies) policies.push_back(E4_TRY(make_policy(p.words)));
  Experiment e;
  e.recording = recording.name;
  e.what = recording.what;
  e.kernel = recording.kernel;
  const auto scripts = E4_TRY(make_scripts(recording, e, tick));
  for (std::size_t f = 0; f < scripts.size(); ++f) {
    const trace::RecordedFilesystem& recorded = recording.filesystems[f];
    for (std::size_t p = 0; p < policies.size(); ++p) {
      std::vector<std::pair<Trial, std::unique_ptr<World>>> tries;
      for (unsigned i = 0; i < std::max(1U, options.repeats); ++i) {
        if (tick && !tick(e.events, e.events)) return make_error(ErrorKind::cancelled, "interrupted");
        auto world = std::make_unique<World>(E4_TRY(load_world(recording, recorded, policies[p])));
        Trial t;
        t.result = E4_TRY(trace::run_script(scripts[f], *world->allocator, options.run));
        tries.emplace_back(std::move(t), std::move(world));
      }
      std::sort(tries.begin(), tries.end(),
                [](const auto& a, const auto& b) { return a.first.result.wall_s < b.first.result.wall_s; });
      auto& [trial, world] = tries[tries.size() / 2];
      trial.device = recorded.device_text;
      trial.policy = options.policies[p];
      trial.recorded_wall_s = static_cast<double>(scripts[f].last_ns - scripts[f].first_ns) / 1e9;
      const alloc::Geometry& g = world->start->geometry();
      const DiskView before = look_at_disk(g, *world->start, nullptr);
      const DiskView after = look_at_disk(g, *world->start, world->allocator.get());
      fill_report(trial, before, after, scripts[f]);
      auto& facts = trial.report.facts;
      facts.emplace_back("device", recorded.device_text);
      facts.emplace_back("kernel of the recording", recording.kernel);
      facts.emplace_back("blocks", fmt::format("{} of {} bytes, {} groups", g.blocks_count, g.block_bytes, g.groups()));
      facts.emplace_back("threads", fmt::format("{}", options.run.threads));
      std::string words;
      for (const auto& info : alloc::policy_list())
        words += fmt::format("{}{}={}", words.empty() ? "" : ", ", info.name, policies[p].get(info.name));
      facts.emplace_back("policies", words);
      e.trials.push_back(std::move(trial));
    }
  }
  return e;
}

}  // namespace e4::replay
