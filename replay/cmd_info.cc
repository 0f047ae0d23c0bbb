// SPDX-License-Identifier: GPL-2.0-only
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>

#include "replay/commands.h"
#include "replay/replay.h"
#include "replay/ticker.h"
#include "replay/world.h"

namespace e4::replay {
namespace {

struct Counted {
  std::uint64_t events = 0, lost = 0;
  std::uint64_t first_ns = 0, last_ns = 0;
  std::string form;
  std::map<std::string, std::uint64_t> kinds;
  std::map<std::string, std::uint64_t> devices;
  std::vector<std::string> notes;
};

Result<Counted> count_events(const trace::Recording& r, Ticker& ticker) {
  const auto reader = E4_TRY(trace::open_trace(r.trace_path));
  Counted c;
  c.form = reader->form();
  std::array<std::uint64_t, static_cast<std::size_t>(trace::Kind::count_)> kinds{};
  std::map<std::uint32_t, std::uint64_t> devices;
  trace::Event e{};
  while (E4_TRY(reader->next(e))) {
    ++kinds[static_cast<std::size_t>(e.kind)];
    if (e.dev != 0) ++devices[e.dev];
    if (c.first_ns == 0) c.first_ns = e.time_ns;
    c.last_ns = std::max(c.last_ns, e.time_ns);
    if ((reader->events_read() & 0xFFFF) == 0 && !ticker.tick(reader->events_read(), r.events_total))
      return make_error(ErrorKind::cancelled, "interrupted");
  }
  ticker.done();
  c.events = reader->events_read();
  c.lost = reader->notes().count(trace::Trouble::lost);
  for (std::size_t i = 0; i < kinds.size(); ++i)
    if (kinds[i] != 0) c.kinds[trace::kind_name(static_cast<trace::Kind>(i))] = kinds[i];
  for (const auto& [dev, n] : devices) c.devices[fmt::format("{}:{}", trace::dev_major(dev), trace::dev_minor(dev))] = n;
  for (const trace::Note& n : reader->notes().list()) c.notes.push_back(reader->notes().text(n));
  return c;
}

struct StateFacts {
  alloc::Geometry geometry;
  bool journal = false;
  std::uint64_t free_clusters = 0;
};

Result<StateFacts> look(const std::string& path) {
  const auto s = E4_TRY(ImageState::open(path));
  StateFacts f{s->geometry(), s->has_journal(), 0};
  for (GroupNo g = 0; g < f.geometry.groups(); ++g) f.free_clusters += s->descriptor(g).free_clusters;
  return f;
}

using nlohmann::ordered_json;

ordered_json state_json(const StateFacts& s) {
  const alloc::Geometry& g = s.geometry;
  return {{"blocks", g.blocks_count}, {"block_bytes", g.block_bytes},     {"cluster_blocks", g.cluster_blocks()},
          {"groups", g.groups()},     {"free_clusters", s.free_clusters}, {"journal", s.journal}, {"extents", g.extents}};
}

}  // namespace

Result<int> cmd_info(const InfoOptions& options, cli::Io& io) {
  const trace::Recording r = E4_TRY(load_recording(options.from));
  Ticker ticker(io, "info");
  std::optional<Counted> counted;
  if (options.count || r.directory.empty()) counted = E4_TRY(count_events(r, ticker));

  ordered_json j;
  j["schema"] = "e4replay-info";
  j["schema_version"] = 1;
  j["recording"] = r.name;
  j["what"] = r.what;
  j["kernel"] = r.kernel;
  j["page_bytes"] = r.page_bytes;
  j["possible_cpus"] = r.possible_cpus;
  j["run_as_uid"] = r.uid ? ordered_json(*r.uid) : ordered_json(nullptr);
  j["trace"] = r.trace_path;
  j["events"] = counted ? ordered_json(counted->events) : r.events_total ? ordered_json(*r.events_total) : ordered_json(nullptr);
  j["lost_events"] = counted ? std::max(counted->lost, r.lost_events) : r.lost_events;
  std::string text = fmt::format("{}: {}\n  kernel {}, {} possible CPUs, pages of {} bytes\n  trace {}: ", r.name,
                                 r.what.empty() ? "no description" : r.what, r.kernel.empty() ? "not said" : r.kernel,
                                 r.possible_cpus, r.page_bytes, r.trace_path);
  text += r.events_total || counted ? fmt::format("{} events, ", counted ? counted->events : *r.events_total) : std::string();
  text += fmt::format("{} lost\n", j["lost_events"].get<std::uint64_t>());
  if (counted) {
    j["counted"] = {{"form", counted->form},
                    {"seconds", static_cast<double>(counted->last_ns - counted->first_ns) / 1e9},
                    {"kinds", counted->kinds},
                    {"devices", counted->devices},
                    {"notes", counted->notes}};
    text += fmt::format("  {} of {:.3f} s\n", counted->form, static_cast<double>(counted->last_ns - counted->first_ns) / 1e9);
    for (const auto& [kind, n] : counted->kinds) text += fmt::format("    {:<40} {:>10}\n", kind, n);
    for (const std::string& n : counted->notes) text += "  note: " + n + "\n";
  }
  j["filesystems"] = ordered_json::array();
  for (const trace::RecordedFilesystem& f : r.filesystems) {
    const StateFacts start = E4_TRY(look(f.start_path));
    const alloc::MountOptions mount = trace::mount_options(r, f, start.journal, 0);
    const alloc::Tunables t = trace::tunables(f, start.geometry, mount);
    ordered_json e{{"device", f.device_text}, {"mount_point", f.mount_point}, {"options", f.options}};
    e["tunables"] = {{"mb_max_to_scan", t.mb_max_to_scan},       {"mb_min_to_scan", t.mb_min_to_scan},
                     {"mb_order2_req", t.mb_order2_req},         {"mb_stream_req", t.mb_stream_req},
                     {"mb_group_prealloc", t.mb_group_prealloc}, {"mb_max_linear_groups", t.mb_max_linear_groups},
                     {"mb_best_avail_max_trim_order", t.mb_best_avail_max_trim_order},
                     {"mb_prefetch", t.mb_prefetch},             {"mb_prefetch_limit", t.mb_prefetch_limit}};
    e["start"] = state_json(start);
    e["start"]["path"] = f.start_path;
    text += fmt::format("  file system {} on {}\n    {} blocks of {} bytes, {} groups, {} clusters free; {}, {}\n",
                        f.device_text.empty() ? "?" : f.device_text, f.mount_point.empty() ? "?" : f.mount_point,
                        start.geometry.blocks_count, start.geometry.block_bytes, start.geometry.groups(), start.free_clusters,
                        start.geometry.extents ? "extents" : "indirect blocks", start.journal ? "journal" : "no journal");
    std::string options_text;
    for (const std::string& o : f.options) options_text += (options_text.empty() ? "" : ",") + o;
    text += "    options " + options_text + "\n";
    if (f.end_path.empty()) {
      e["end"] = nullptr;
      text += "    no end state\n";
    } else {
      const StateFacts end = E4_TRY(look(f.end_path));
      e["end"] = state_json(end);
      e["end"]["path"] = f.end_path;
      text += fmt::format("    end state: {} clusters free\n", end.free_clusters);
    }
    j["filesystems"].push_back(std::move(e));
  }
  io.out << (options.json ? j.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n" : text);
  return kSame;
}

}  // namespace e4::replay
