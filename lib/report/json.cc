// SPDX-License-Identifier: GPL-2.0-only
#include "report/json.h"

#include <nlohmann/json.hpp>
#include <ostream>

namespace e4::report {

namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Finding& f) {
  Json j;
  j["id"] = std::string(f.id);
  j["severity"] = std::string(name_of(f.severity));
  j["fate"] = std::string(name_of(f.fate));
  j["text"] = f.text;
  if (f.place.ino) j["inode"] = *f.place.ino;
  if (f.place.block) j["block"] = *f.place.block;
  if (f.place.group) j["group"] = *f.place.group;
  if (f.place.slot) j["slot"] = *f.place.slot;
  Json args = Json::object();
  for (const Arg& a : f.args) {
    const std::string key(a.name);
    std::visit([&](const auto& v) { args[key] = v; }, a.value);
  }
  j["args"] = std::move(args);
  return j;
}

Json json_of(const Verdict& v) {
  Json j;
  j["found"] = v.found;
  j["fixed"] = v.fixed;
  j["left"] = v.left;
  j["halted"] = v.halted;
  j["changed"] = v.changed;
  j["bytes_written"] = v.bytes_written;
  j["bytes_would_write"] = v.bytes_would_write;
  j["journal_replayed"] = v.journal.replayed;
  j["orphans_released"] = v.orphans.released();
  j["journal"] = {{"present", v.journal.present},
                  {"needed", v.journal.needed},
                  {"replayed", v.journal.replayed},
                  {"transactions", v.journal.transactions},
                  {"blocks", v.journal.blocks},
                  {"revoked", v.journal.revoked},
                  {"fast_commit_records", v.journal.fast_commit_records},
                  {"dropped_transactions", v.journal.dropped_transactions},
                  {"dropped_blocks", v.journal.dropped_blocks}};
  j["orphans"] = {{"released", v.orphans.released()}, {"deleted", v.orphans.deleted},
                  {"truncated", v.orphans.truncated}, {"dropped", v.orphans.dropped},
                  {"left", v.orphans.left},           {"freed_blocks", v.orphans.freed_blocks}};
  j["counts"] = {{"inodes", v.counts.inodes},
                 {"free_inodes", v.counts.free_inodes},
                 {"blocks", v.counts.blocks},
                 {"free_blocks", v.counts.free_blocks}};
  j["not_checked"] = v.not_checked;
  return j;
}

}  // namespace

void write_json(std::ostream& out, const JsonHead& head, const Verdict& verdict, const Collector& findings) {
  Json j;
  j["schema"] = "e4progs-check";
  j["schema_version"] = kJsonVersion;
  j["tool"] = head.tool;
  j["tool_version"] = head.version;
  j["image"] = head.image;
  j["mode"] = head.mode;
  j["error"] = head.error.empty() ? Json(nullptr) : Json(head.error);
  j["exit_status"] = verdict.exit_status;
  j["verdict"] = json_of(verdict);
  Json list = Json::array();
  for (const Finding& f : findings.findings()) list.push_back(json_of(f));
  j["findings"] = std::move(list);
  j["findings_not_listed"] = findings.dropped_count();
  out << j.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace e4::report
