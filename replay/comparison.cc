// SPDX-License-Identifier: GPL-2.0-only
#include "replay/comparison.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "replay/world.h"
#include "trace/reader.h"

namespace e4::replay {
namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

/// A file system in the middle of its comparison.
struct Run {
  World world;
  std::unique_ptr<trace::Comparer> comparer;
  std::unique_ptr<trace::Player> player;
};

/// The kinds of events without which a replay cannot know something, and what that is.
void note_missing(trace::Notes& notes, const trace::Recording& r) {
  if (r.events_enabled.empty()) return;
  const auto on = [&](const char* name) {
    return std::find(r.events_enabled.begin(), r.events_enabled.end(), name) != r.events_enabled.end();
  };
  static constexpr struct {
    const char* event;
    const char* lost;
  } kNeeded[] = {{"ext4_request_blocks", "no request can be replayed"},
                 {"ext4_allocate_blocks", "no decision can be compared"},
                 {"ext4_mballoc_alloc", "only blocks and lengths can be compared"},
                 {"ext4_mballoc_free", "freed space is not known"},
                 {"ext4_discard_preallocations", "preallocations stay when files are closed"},
                 {"ext4_da_update_reserve_space", "open files cannot be told from closed ones"},
                 {"jbd2_end_commit", "freed space does not come back"},
                 {"jbd2_commit_flushing", "the transaction of a free is not known"},
                 {"ext4_mb_buddy_bitmap_load", "which groups are loaded is only predicted"},
                 {"ext4_allocate_inode", "sizes of new files and uninitialised groups are not known"}};
  for (const auto& n : kNeeded)
    if (!on(n.event)) notes.add(trace::Trouble::missing_kind, fmt::format("no {} events were recorded: {}", n.event, n.lost), 0);
}

Result<ComparedFilesystem> close_books(Run& run) {
  ComparedFilesystem out;
  out.device = run.world.recorded.device_text;
  out.result = std::move(run.comparer->finish());
  out.counts = run.player->counts();
  const trace::RecordedFilesystem& f = run.world.recorded;
  if (!f.end_path.empty()) {
    const auto end = E4_TRY(ImageState::open(f.end_path));
    if (end->geometry().groups() != run.world.start->geometry().groups() ||
        end->geometry().block_bytes != run.world.start->geometry().block_bytes)
      return make_error(ErrorKind::incompatible, f.end_path + ": not the same file system as the start state");
    out.end_different_blocks = E4_TRY(trace::different_blocks(*run.world.allocator, *run.world.start, *end));
  }
  if (!f.mb_groups_path.empty() && out.result.groups_taken) {
    const unsigned orders = run.world.start->geometry().orders();
    const auto recorded = E4_TRY(trace::read_mb_groups(f.mb_groups_path, orders));
    std::uint64_t n = 0;
    for (std::size_t g = 0; g < std::max(recorded.size(), out.result.groups.size()); ++g) {
      if (g < recorded.size() && g < out.result.groups.size() && recorded[g] == out.result.groups[g]) continue;
      if (n++ == 0 && g < recorded.size() && g < out.result.groups.size())
        out.first_group_difference =
            fmt::format("group {}: kernel free {} fragments {} first {}, ours free {} fragments {} first {}", g,
                        recorded[g].free, recorded[g].frags, recorded[g].first, out.result.groups[g].free,
                        out.result.groups[g].frags, out.result.groups[g].first);
    }
    out.groups_different = n;
  }
  return out;
}

}  // namespace

bool Comparison::all_identical() const {
  return std::all_of(filesystems.begin(), filesystems.end(), [](const ComparedFilesystem& f) {
    return f.result.total.identical == f.result.total.decisions && f.result.refused == f.result.refused_same &&
           f.end_different_blocks.value_or(0) == 0;
  });
}

Result<Comparison> compare(const CompareOptions& options, const Tick& tick) {
  const auto started = Clock::now();
  const trace::Recording recording = E4_TRY(load_recording(options.from));
  const alloc::Policy policy = E4_TRY(make_policy(options.policy));
  Comparison out;
  out.recording = recording.name;
  out.mode = options.mode;

  trace::ReaderOptions reader_options;
  for (const trace::RecordedFilesystem& f : recording.filesystems)
    if (f.device != 0) reader_options.devices.push_back(f.device);
  const auto reader = E4_TRY(trace::open_trace(recording.trace_path, reader_options));
  trace::Lookahead ahead(*reader);

  std::vector<Run> runs(recording.filesystems.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Run& run = runs[i];
    run.world = E4_TRY(load_world(recording, recording.filesystems[i], policy));
    run.comparer = std::make_unique<trace::Comparer>(*run.world.allocator, options.mode,
                                                     !run.world.recorded.mb_groups_path.empty());
    run.player = std::make_unique<trace::Player>(player_facts(recording, run.world, *reader), ahead, *run.comparer);
    run.comparer->attach(*run.player, ahead);
  }

  const auto replaying = Clock::now();
  constexpr std::uint64_t kTickEvents = 1 << 16;
  std::uint64_t n = 0;
  trace::Item item;
  trace::Notes left_out;
  bool any = false;
  while (E4_TRY(ahead.next(item))) {
    if (++n % kTickEvents == 0 && tick && !tick(reader->events_read(), recording.events_total))
      return make_error(ErrorKind::cancelled, "interrupted");
    for (Run& run : runs) {
      if (item.event.dev == 0 || run.world.recorded.device == item.event.dev) {
        if (item.event.dev != 0) any = true;
        E4_TRY(feed(*run.player, recording, item));
      } else if (run.world.recorded.device == 0) {
        // By hand without --device: the first device of the trace is the one.
        run.world.recorded.device = item.event.dev;
        run.world.recorded.device_text = device_name(item.event.dev);
        any = true;
        E4_TRY(feed(*run.player, recording, item));
      } else if (runs.size() == 1) {
        left_out.add(trace::Trouble::other_device, device_name(item.event.dev), item.event.number);
      }
    }
  }
  out.replay_seconds = since(replaying);
  E4_TRY(expect_events(recording, *reader, any));
  trace::Notes notes = reader->notes();
  for (const trace::Note& note : left_out.list()) notes.add(note.trouble, note.what, note.first, note.count);
  note_missing(notes, recording);
  out.events = reader->events_read();
  out.lost_events = std::max(notes.count(trace::Trouble::lost), recording.lost_events);
  for (const trace::Note& note : notes.list()) out.notes.push_back(notes.text(note));
  if (ahead.abandoned() != 0)
    out.notes.push_back(fmt::format("{} requests have no end in the trace and were left out", ahead.abandoned()));
  for (Run& run : runs) out.filesystems.push_back(E4_TRY(close_books(run)));
  out.wall_seconds = since(started);
  return out;
}

}  // namespace e4::replay
