// SPDX-License-Identifier: GPL-2.0-only
#include <fmt/core.h>

#include <algorithm>

#include "replay/comparison.h"

namespace e4::replay {
namespace {

std::string place(const trace::Place& p) {
  return p.len == 0 ? "nothing" : fmt::format("{}..{} ({} clusters)", p.block, p.block + p.len - 1, p.len);
}

std::string share(std::uint64_t n, std::uint64_t of) {
  if (of == 0) return "-";
  // Rounded down, so that only all is 100 %.
  return fmt::format("{}.{:02} %", n * 100 / of, n * 10000 / of % 100);
}

std::string difference(const trace::Difference& d) {
  return fmt::format("event {}: inode {} block {}: kernel {}, ours {}\n    {}{}: {}\n", d.event, d.ino, d.lblk, place(d.kernel),
                     place(d.ours), trace::cause_name(d.cause), d.possible ? " (the recorded outcome is one of the possible ones)" : "", d.why);
}

std::string filesystem(const ComparedFilesystem& f, bool verbose) {
  const trace::CompareResult& r = f.result;
  const trace::Tally& t = r.total;
  std::string s = fmt::format("file system {}\n", f.device.empty() ? "?" : f.device);
  const auto line = [&](const char* what, std::uint64_t n, std::uint64_t of) {
    s += fmt::format("  {:<34} {:>9} of {:<9} {}\n", what, n, of, share(n, of));
  };
  line("same block and length", t.identical, t.decisions);
  line("same group", t.same_group, t.decisions);
  if (t.searched != 0) {
    line("same criterion and groups scanned", t.same_scan, t.searched);
    line("same in every printed field", t.all_fields, t.searched);
  }
  if (r.refused != 0) line("claims refused alike", r.refused_same, r.refused);
  if (r.refused_by_us != 0) s += fmt::format("  {} claims refused that the kernel granted\n", r.refused_by_us);
  if (f.end_different_blocks)
    s += *f.end_different_blocks == 0 ? "  final bitmap: equal to the recorded end state\n"
                                      : fmt::format("  final bitmap: {} blocks differ from the recorded end state\n", *f.end_different_blocks);
  else
    s += "  final bitmap: no end state to compare with\n";
  if (f.groups_different)
    s += *f.groups_different == 0 ? "  mb_groups: every group equal\n"
                                  : fmt::format("  mb_groups: {} groups differ; {}\n", *f.groups_different, f.first_group_difference);
  if (r.first) s += "  first divergence: " + difference(*r.first);
  if (r.differences_count != 0) {
    s += fmt::format("  {} differences by cause:", r.differences_count);
    for (std::size_t i = 0; i < trace::kCauses; ++i)
      if (r.causes[i] != 0) s += fmt::format(" {} {}", r.causes[i], trace::cause_name(static_cast<trace::Cause>(i)));
    s += fmt::format("; in {} the recorded outcome was reproduced under its cause\n", r.possible);
  }
  if (r.missed_sizes != 0) s += fmt::format("  {} file sizes turned out to be other than the trace showed\n", r.missed_sizes);
  if (r.pa_count_differs != 0) s += fmt::format("  {} inodes had another number of preallocations\n", r.pa_count_differs);
  if (r.free_errors + r.impose_errors != 0)
    s += fmt::format("  {} frees and {} forced choices did not fit the state\n", r.free_errors, r.impose_errors);
  s += fmt::format("\n  {:<32} {:<14} {:>9} {:>9} {:>9} {:>9}\n", "phase", "request", "decisions", "same", "group", "scan");
  for (const auto& [name, kinds] : r.phases)
    for (std::size_t k = 0; k < trace::kRequestKinds; ++k)
      if (kinds[k].decisions != 0)
        s += fmt::format("  {:<32} {:<14} {:>9} {:>9} {:>9} {:>9}\n", name.substr(0, 32), trace::request_kind_name(static_cast<trace::RequestKind>(k)),
                         kinds[k].decisions, kinds[k].identical, kinds[k].same_group,
                         kinds[k].searched == 0 ? std::string("-") : fmt::format("{}/{}", kinds[k].same_scan, kinds[k].searched));
  if (verbose && r.differences_count != 0) {
    s += "\n";
    for (const trace::Difference& d : r.differences) s += "  " + difference(d);
    if (r.differences_count > r.differences.size())
      s += fmt::format("  and {} more\n", r.differences_count - r.differences.size());
  }
  return s;
}

}  // namespace

std::string comparison_text(const Comparison& c, bool verbose) {
  const double rate = static_cast<double>(c.events) / std::max(c.replay_seconds, 1e-9);
  std::string s = fmt::format("{}: {} events, {} lost, {}; {:.2f} s ({:.2f} million events a second)\n", c.recording, c.events,
                              c.lost_events, c.mode == trace::Mode::resync ? "resync" : "free run", c.wall_seconds, rate / 1e6);
  for (const std::string& n : c.notes) s += "  note: " + n + "\n";
  for (const ComparedFilesystem& f : c.filesystems) s += filesystem(f, verbose);
  return s;
}

}  // namespace e4::replay
