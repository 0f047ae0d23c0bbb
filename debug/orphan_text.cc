// SPDX-License-Identifier: GPL-2.0-only
#include "debug/orphan_text.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "orphan/inode.h"

namespace e4::debug {
namespace {

using nlohmann::json;
using orphan::BlockVerdict;
using orphan::Record;

std::string dump(const json& j) { return j.dump(-1, ' ', false, json::error_handler_t::replace); }

std::string mode_octal(std::uint16_t mode) { return fmt::format("{:07o}", mode); }

std::vector<std::string> flag_names(std::uint32_t flags) {
  struct Name {
    std::uint32_t bit;
    const char* name;
  };
  static constexpr Name kNames[] = {
      {0x10, "immutable"},     {0x20, "append"},    {orphan::kFlagEncrypt, "encrypt"}, {orphan::kFlagIndex, "index"},
      {0x4000, "journal-data"}, {orphan::kFlagHugeFile, "huge-file"}, {orphan::kFlagExtents, "extents"},
      {orphan::kFlagVerity, "verity"}, {orphan::kFlagEaInode, "ea-inode"}, {0x2000000, "dax"},
      {orphan::kFlagInlineData, "inline-data"}, {0x20000000, "projinherit"}, {0x40000000, "casefold"}};
  std::vector<std::string> names;
  for (const Name& n : kNames)
    if ((flags & n.bit) != 0) names.emplace_back(n.name);
  return names;
}

std::string journal_line(const JournalState& j) {
  if (!j.applied)
    return j.needs_recovery ? "needs recovery; not applied: this is the state before replay (--journal applies it in memory)"
                            : "nothing to replay";
  if (j.transactions == 0 && j.fast_commit_records == 0) return "nothing to replay";
  return fmt::format("{} transactions and {} fast-commit records applied in memory", j.transactions, j.fast_commit_records);
}

json journal_json(const JournalState& j) {
  return {{"needs_recovery", j.needs_recovery}, {"applied", j.applied},
          {"verdict", journal::to_string(j.verdict)}, {"transactions", j.transactions},
          {"fast_commit_records", j.fast_commit_records}, {"problems", j.problems}};
}

json file_json(const OrphanLook& look) {
  const auto& f = look.plan.file;
  json j = {{"feature", f.feature}, {"present", f.present}, {"inode", f.ino}, {"generation", f.generation},
            {"size_bytes", f.size_bytes}, {"blocks", f.blocks.size()},
            {"slots", f.blocks.size() * orphan::slots_per_block(look.layer.volume->geo().block_bytes)},
            {"used_slots", f.used_slots}, {"proved", f.proved()}, {"faults", orphan::file_fault_names(f.faults)}};
  json blocks = json::array();
  for (const BlockVerdict& v : f.blocks)
    blocks.push_back({{"block", v.logical}, {"physical", v.physical}, {"magic_ok", v.magic_ok},
                      {"checksum_ok", v.checksum_ok}, {"stored_checksum", v.stored_checksum},
                      {"computed_checksum", v.computed_checksum}, {"used_slots", v.used_slots}});
  j["block_verdicts"] = std::move(blocks);
  return j;
}

json number_or_null(std::uint32_t n) { return n == Record::kNone ? json() : json(n); }

json record_json(const OrphanLook& look, const Record& r) {
  json j = {{"source", orphan::to_string(r.source)},
            {"block", number_or_null(r.block)},
            {"slot", number_or_null(r.slot)},
            {"inode", r.ino},
            {"state", orphan::to_string(r.state)},
            {"action", orphan::to_string(r.action)},
            {"reasons", orphan::reason_names(r.reasons)},
            {"bytes_back", r.back_bytes}};
  if (r.mode != 0) {
    j["type"] = type_name(r.mode);
    j["mode"] = mode_octal(r.mode);
    j["uid"] = r.uid;
    j["gid"] = r.gid;
    j["project"] = r.project;
    j["links"] = r.links;
    j["size"] = r.size_bytes;
    j["held_bytes"] = r.held_bytes;
    j["blocks512"] = r.held_bytes / 512;
    j["generation"] = r.generation;
    j["flags"] = flag_names(r.flags);
  }
  const auto paths = look.plan.paths.find(r.ino);
  j["paths"] = paths == look.plan.paths.end() ? json::array() : json(paths->second);
  return j;
}

json totals_json(const orphan::Totals& t) {
  return {{"orphans", t.listed + t.in_file + t.unlisted}, {"on_list", t.listed}, {"in_file", t.in_file},
          {"unlisted", t.unlisted}, {"delete", t.erase}, {"truncate", t.truncate}, {"drop", t.drop},
          {"fix_links", t.fix_links}, {"leave", t.leave}, {"bytes_back", t.back_bytes}};
}

json after_json(const AfterRecovery& a) {
  return {{"deleted", a.totals.erased}, {"truncated", a.totals.truncated}, {"dropped", a.totals.dropped},
          {"relinked", a.totals.relinked}, {"left", a.totals.left}, {"bytes_freed", a.totals.freed_bytes},
          {"free_blocks", a.free_blocks}, {"free_inodes", a.free_inodes}, {"orphans_left", a.orphans_left}};
}

std::string place(const Record& r) {
  if (r.source == orphan::Source::list) return fmt::format("list {}", r.slot);
  if (r.source == orphan::Source::unlisted) return "none";
  return fmt::format("{}.{}", r.block, r.slot);
}

void print_file(std::ostream& out, const OrphanLook& look) {
  const auto& f = look.plan.file;
  if (!f.feature) {
    out << "Orphan file: none" << (f.present ? ", but orphan_present is set" : "") << '\n';
    return;
  }
  const std::uint64_t slots = f.blocks.size() * orphan::slots_per_block(look.layer.volume->geo().block_bytes);
  out << fmt::format("Orphan file: inode {}, {} blocks, {} of {} slots in use, orphan_present {}\n", f.ino, f.blocks.size(),
                     f.used_slots, slots, f.present ? "set" : "clear");
  if (f.faults != 0) out << "Orphan file faults: " << joined(orphan::file_fault_names(f.faults)) << '\n';
  std::size_t good = 0;
  for (const BlockVerdict& v : f.blocks) {
    if (v.magic_ok && v.checksum_ok) {
      ++good;
      continue;
    }
    out << fmt::format("  block {} (physical {}): magic {}, checksum {}", v.logical, v.physical, v.magic_ok ? "good" : "BAD",
                       v.checksum_ok ? "good" : "BAD");
    if (!v.checksum_ok) out << fmt::format(" (stored {}, computed {})", hex32(v.stored_checksum), hex32(v.computed_checksum));
    out << '\n';
  }
  out << fmt::format("  {} of {} blocks have the right magic and checksum\n", good, f.blocks.size());
}

void print_records(std::ostream& out, const OrphanLook& look) {
  if (look.plan.records.empty()) return;
  out << fmt::format("{:>10} {:>10} {:<9} {:>5} {:>14} {:>14} {:>13} {:<9} {:>14}  {}\n", "slot", "inode", "type", "links", "size",
                     "held", "owner", "action", "comes back", "why, paths");
  for (const Record& r : look.plan.records) {
    std::string tail = r.reasons != 0 ? joined(orphan::reason_names(r.reasons)) : "";
    if (const auto it = look.plan.paths.find(r.ino); it != look.plan.paths.end())
      for (const std::string& p : it->second) tail += (tail.empty() ? "" : " ") + p;
    out << fmt::format("{:>10} {:>10} {:<9} {:>5} {:>14} {:>14} {:>13} {:<9} {:>14}  {}\n", place(r), r.ino, type_name(r.mode),
                       r.links, r.size_bytes, r.held_bytes, fmt::format("{}:{}", r.uid, r.gid), orphan::to_string(r.action),
                       r.back_bytes, tail);
  }
}

}  // namespace

std::string hex32(std::uint32_t value) { return fmt::format("0x{:08x}", value); }

std::string type_name(std::uint16_t mode) {
  switch (mode & orphan::kModeTypeMask) {
    case orphan::kModeFifo: return "fifo";
    case orphan::kModeChar: return "char";
    case orphan::kModeDir: return "directory";
    case orphan::kModeBlock: return "block";
    case orphan::kModeRegular: return "regular";
    case orphan::kModeSymlink: return "symlink";
    case orphan::kModeSocket: return "socket";
    default: return mode == 0 ? "-" : "unknown";
  }
}

void print_orphans(std::ostream& out, const OrphanLook& look) {
  const orphan::Plan& plan = look.plan;
  out << "Journal: " << journal_line(look.layer.journal) << '\n';
  for (const std::string& p : look.layer.journal.problems) out << "  " << p << '\n';
  print_file(out, look);
  out << fmt::format("Orphan list: {} inodes", plan.list.inodes.size());
  if (plan.list.end != orphan::ListReport::End::clean)
    out << fmt::format(", broken: {} at inode {}", orphan::to_string(plan.list.end), plan.list.bad);
  out << '\n';
  print_records(out, look);
  const orphan::Totals t = plan.totals();
  out << fmt::format("Total: {} orphans, {} in the file, {} on the list{}\n", t.in_file + t.listed + t.unlisted, t.in_file,
                     t.listed, t.unlisted != 0 ? fmt::format(", {} on neither", t.unlisted) : "");
  out << fmt::format("Recovery will delete {}, truncate {}, drop {}, fix links of {}, leave {}; {} bytes come back\n", t.erase,
                     t.truncate, t.drop, t.fix_links, t.leave, t.back_bytes);
  for (const std::string& o : plan.obstacles) out << "  ownership not proved: " << o << '\n';
  if (look.after != nullptr)
    out << fmt::format("After recovery: {} free blocks, {} free inodes, {} orphans\n", look.after->free_blocks,
                       look.after->free_inodes, look.after->orphans_left);
}

void print_orphans_json(std::ostream& out, const OrphanLook& look) {
  const orphan::Plan& plan = look.plan;
  out << R"({"schema":"e4progs-orphans","schema_version":1,"tool":"e4debug","tool_version":)" << dump(E4_VERSION)
      << ",\"image\":" << dump(look.session.options().image) << ",\n\"unknown_features\":" << dump(look.session.unknown_features())
      << ",\n\"journal\":" << dump(journal_json(look.layer.journal)) << ",\n\"orphan_file\":" << dump(file_json(look))
      << ",\n\"orphan_list\":"
      << dump({{"head", look.layer.volume->last_orphan()}, {"length", plan.list.inodes.size()},
               {"end", orphan::to_string(plan.list.end)}, {"bad_inode", plan.list.bad}})
      << ",\n\"orphans\":[";
  const char* comma = "\n";
  for (const Record& r : plan.records) {
    out << comma << dump(record_json(look, r));
    comma = ",\n";
  }
  out << "],\n\"totals\":" << dump(totals_json(plan.totals())) << ",\n\"names_checked\":" << dump(plan.names_checked)
      << ",\"ownership_proved\":" << dump(plan.ownership_proved) << ",\"obstacles\":" << dump(plan.obstacles)
      << ",\n\"after_recovery\":" << (look.after != nullptr ? dump(after_json(*look.after)) : "null") << "}\n";
}

}  // namespace e4::debug
