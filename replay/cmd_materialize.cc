// SPDX-License-Identifier: GPL-2.0-only
#include <fmt/core.h>

#include <charconv>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <ostream>

#include "image/container.h"
#include "image/overlay.h"
#include "replay/commands.h"
#include "replay/materialize.h"
#include "replay/replay.h"
#include "replay/ticker.h"
#include "replay/world.h"
#include "trace/reader.h"

namespace e4::replay {
namespace {

/// "1234" is an event number, "12.5s" seconds from the first event.
struct StopAt {
  std::uint64_t event = UINT64_MAX;
  double seconds = -1;
};

Result<StopAt> parse_stop(const std::string& text) {
  StopAt s;
  if (text.empty()) return s;
  const bool time = text.back() == 's';
  const char* end = text.data() + text.size() - (time ? 1 : 0);
  const char* reached = nullptr;
  std::errc code{};
  if (time) {
    const auto r = std::from_chars(text.data(), end, s.seconds);
    reached = r.ptr;
    code = r.ec;
  } else {
    const auto r = std::from_chars(text.data(), end, s.event);
    reached = r.ptr;
    code = r.ec;
  }
  if (code != std::errc{} || reached != end || (time && s.seconds < 0))
    return make_error(ErrorKind::usage, "--stop-at " + text + ": neither an event number nor seconds (12.5s)");
  return s;
}

std::uint32_t now(const cli::Io& io) {
  for (const char* name : {"SOURCE_DATE_EPOCH", "E2FSPROGS_FAKE_TIME"}) {
    const std::string text = io.environment(name);
    std::uint32_t t = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), t).ec == std::errc{} && !text.empty()) return t;
  }
  return static_cast<std::uint32_t>(std::time(nullptr));
}

}  // namespace

Result<int> cmd_materialize(const MaterializeOptionsLine& o, cli::Io& io) {
  const StopAt stop = E4_TRY(parse_stop(o.stop_at));
  const trace::Recording recording = E4_TRY(load_recording(o.from));
  if (recording.filesystems.size() != 1)
    return make_error(ErrorKind::usage, "the recording holds several file systems; choose one with --device");
  const trace::RecordedFilesystem& f = recording.filesystems.front();
  const auto start = E4_TRY(image::open_container(f.start_path));
  std::vector<std::byte> super(2048);
  E4_TRY(start->read(0, super));
  image::Overlay work(*start, 4096);
  const auto m = E4_TRY(Materializer::open(work));

  trace::ReaderOptions reader_options;
  if (f.device != 0) reader_options.devices = {f.device};
  const auto reader = E4_TRY(trace::open_trace(recording.trace_path, reader_options));
  Ticker ticker(io, "materialize");
  trace::Event e{};
  std::uint64_t first_ns = 0, applied = 0;
  std::uint32_t device = f.device;
  bool any = false;
  while (E4_TRY(reader->next(e))) {
    if (first_ns == 0) first_ns = e.time_ns;
    if (e.number > stop.event) break;
    if (stop.seconds >= 0 && static_cast<double>(e.time_ns - first_ns) / 1e9 > stop.seconds) break;
    if (device == 0) device = e.dev;
    any = any || (e.dev != 0 && e.dev == device);
    if (e.dev != 0 && e.dev != device) continue;
    auto r = m->apply(e);
    if (!r) return Error(std::move(r).error()).context(fmt::format("event {}", e.number));
    if (++applied % (1 << 16) == 0 && !ticker.tick(reader->events_read(), recording.events_total))
      return make_error(ErrorKind::cancelled, "interrupted");
  }
  if (o.stop_at.empty()) E4_TRY(expect_events(recording, *reader, any));
  const Materialized done = E4_TRY(m->finish({.crash = o.crash, .now = now(io)}));
  ticker.done();
  E4_TRY(image::export_image(work, o.output));
  if (o.json) {
    nlohmann::ordered_json j;
    j["schema"] = "e4replay-materialize/1";
    j["recording"] = recording.name;
    j["image"] = o.output;
    j["events"] = applied;
    j["inodes_written"] = done.inodes_written;
    j["inodes_removed"] = done.inodes_removed;
    j["orphans"] = done.orphans;
    j["orphans_on_list"] = done.orphans_on_list;
    j["extra_blocks"] = done.extra_blocks;
    j["names_moved"] = done.names_moved;
    io.out << j.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
    return kSame;
  }
  io.out << fmt::format("{}: {} events; {} inodes written, {} removed\n", o.output, applied, done.inodes_written,
                        done.inodes_removed);
  if (o.crash)
    io.out << fmt::format("  {} orphans, {} of them on the list\n", done.orphans, done.orphans_on_list);
  if (done.extra_blocks != 0)
    io.out << fmt::format("  {} blocks beyond the trace's own were needed for maps or names\n", done.extra_blocks);
  if (done.names_moved != 0)
    io.out << fmt::format("  {} names did not fit the directory they were made in and stand elsewhere\n", done.names_moved);
  return kSame;
}

}  // namespace e4::replay
