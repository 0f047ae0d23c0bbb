// SPDX-License-Identifier: GPL-2.0-only
#include <nlohmann/json.hpp>

#include "replay/comparison.h"

namespace e4::replay {
namespace {

using nlohmann::ordered_json;

ordered_json place(const trace::Place& p) { return {{"block", p.block}, {"len", p.len}}; }

ordered_json difference(const trace::Difference& d) {
  return {{"event", d.event},
          {"time_ns", d.time_ns},
          {"inode", d.ino},
          {"logical", d.lblk},
          {"kernel", place(d.kernel)},
          {"ours", place(d.ours)},
          {"cause", trace::cause_name(d.cause)},
          {"possible", d.possible},
          {"why", d.why}};
}

ordered_json tally(const trace::Tally& t) {
  return {{"decisions", t.decisions}, {"identical", t.identical}, {"same_group", t.same_group},
          {"searched", t.searched},   {"same_scan", t.same_scan}, {"all_fields", t.all_fields}};
}

ordered_json filesystem(const ComparedFilesystem& f, trace::Mode mode) {
  const trace::CompareResult& r = f.result;
  ordered_json j;
  j["device"] = f.device;
  j["decisions"] = r.total.decisions;
  j["identical"] = r.total.identical;
  j["same_group"] = r.total.same_group;
  j["first_divergence"] = r.first ? difference(*r.first) : ordered_json(nullptr);
  if (f.end_different_blocks)
    j["end_bitmap"] = {{"identical", *f.end_different_blocks == 0}, {"different_blocks", *f.end_different_blocks}};
  else
    j["end_bitmap"] = nullptr;
  j["mode"] = mode == trace::Mode::resync ? "resync" : "free-run";
  j["searched"] = r.total.searched;
  j["same_scan"] = r.total.same_scan;
  j["all_fields"] = r.total.all_fields;
  j["possible"] = r.possible;
  j["claims_refused"] = {{"kernel", r.refused}, {"same", r.refused_same}, {"ours_only", r.refused_by_us}};
  if (f.groups_different) j["mb_groups"] = {{"different_groups", *f.groups_different}};
  else j["mb_groups"] = nullptr;
  ordered_json causes = ordered_json::object();
  for (std::size_t i = 0; i < trace::kCauses; ++i)
    if (r.causes[i] != 0) causes[trace::cause_name(static_cast<trace::Cause>(i))] = r.causes[i];
  j["causes"] = causes;
  j["differences"] = ordered_json::array();
  for (const trace::Difference& d : r.differences) j["differences"].push_back(difference(d));
  j["differences_not_listed"] = r.differences_count - r.differences.size();
  j["phases"] = ordered_json::array();
  for (const auto& [name, kinds] : r.phases) {
    ordered_json p;
    p["phase"] = name;
    bool any = false;
    for (std::size_t k = 0; k < trace::kRequestKinds; ++k) {
      if (kinds[k].decisions == 0) continue;
      p[trace::request_kind_name(static_cast<trace::RequestKind>(k))] = tally(kinds[k]);
      any = true;
    }
    if (any) j["phases"].push_back(p);
  }
  j["missed_sizes"] = r.missed_sizes;
  j["free_errors"] = r.free_errors;
  j["impose_errors"] = r.impose_errors;
  j["preallocation_counts_differ"] = r.pa_count_differs;
  return j;
}

}  // namespace

std::string comparison_json(const Comparison& c) {
  ordered_json j;
  j["schema"] = "e4replay-compare";
  j["schema_version"] = 1;
  j["recording"] = c.recording;
  j["events"] = c.events;
  j["lost_events"] = c.lost_events;
  j["wall_seconds"] = c.wall_seconds;
  j["replay_seconds"] = c.replay_seconds;
  j["notes"] = c.notes;
  j["filesystems"] = ordered_json::array();
  for (const ComparedFilesystem& f : c.filesystems) j["filesystems"].push_back(filesystem(f, c.mode));
  return j.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace e4::replay
