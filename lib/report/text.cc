// SPDX-License-Identifier: GPL-2.0-only
#include "report/text.h"

#include <fmt/core.h>

#include <istream>
#include <ostream>

namespace e4::report {

std::string printable(std::string_view s) {
  std::string r;
  r.reserve(s.size());
  for (const char c : s) {
    const auto u = static_cast<unsigned char>(c);
    if (u < 0x20 || u == 0x7f) r += fmt::format("\\x{:02x}", u);
    else r += c;
  }
  return r;
}

void TextSink::say(std::string_view line) { out_ << options_.device << ": " << printable(line) << '\n'; }

void TextSink::say_orphan(std::string_view line) {
  if (options_.prefix_all) out_ << options_.device << ": ";
  out_ << line << '\n';
}

void TextSink::line_head(const Finding& finding) {
  if (options_.prefix_all) out_ << options_.device << ": ";
  out_ << printable(finding.text);
}

void TextSink::add(const Finding& finding) {
  if (asked_) {
    asked_ = false;
    return;
  }
  if (finding.quiet && finding.fate == Fate::fixed && !options_.print_quiet) return;
  line_head(finding);
  if (!finding.question.empty()) {
    switch (finding.fate) {
      case Fate::noted: break;
      case Fate::fixed: out_ << (options_.prefix_all ? "  (fixed)" : fmt::format("  {} yes", finding.question)); break;
      case Fate::would_fix:
      case Fate::left: out_ << (options_.prefix_all ? "  (not fixed)" : fmt::format("  {} no", finding.question)); break;
    }
  }
  out_ << '\n';
}

Answer TextSink::ask(const Finding& finding) {
  asked_ = true;
  for (;;) {
    line_head(finding);
    out_ << "  " << finding.question << "<y> " << std::flush;
    std::string answer;
    if (in_ == nullptr || input_ended_ || !std::getline(*in_, answer)) {
      input_ended_ = true;
      out_ << "no\n";
      return Answer::no;
    }
    const char c = answer.empty() ? 'y' : answer.front();
    switch (c) {
      case 'y': case 'Y': case ' ': case 0x1b: out_ << "yes\n"; return Answer::yes;
      case 'n': case 'N': out_ << "no\n"; return Answer::no;
      case 'a': case 'A': out_ << "yes to all\n"; return Answer::all;
      default: out_ << "Please answer y (yes), n (no) or a (yes to all).\n";
    }
  }
}

void TextSink::retract() { say("nothing was written: the repairs above were not made"); }

void write_summary(std::ostream& out, const std::string& device, const Verdict& v, bool read_only) {
  if (v.bytes_written > 0 && v.fixed > 0) out << device << ": ***** FILE SYSTEM WAS MODIFIED *****\n";
  if (v.left > 0) out << device << ": ********** WARNING: Filesystem still has errors **********\n";
  std::string s = fmt::format(
      "{}: found {}, fixed {}, left {}; journal {}; orphans {} {} (deleted {}, truncated {}), dropped {}, left {}; ", device,
      v.found, v.fixed, v.left,
      !v.journal.present ? "none" : v.journal.replayed ? (read_only ? "replayed in memory" : "replayed") : v.journal.needed ? "not replayed" : "empty",
      read_only ? "to release" : "released", v.orphans.released(), v.orphans.deleted, v.orphans.truncated, v.orphans.dropped, v.orphans.left);
  if (read_only) s += fmt::format("bytes written 0 (a repair would write {})", v.bytes_would_write);
  else s += fmt::format("bytes written {}", v.bytes_written);
  out << s << '\n';
  const Counts& c = v.counts;
  out << device << ": ";
  if (c.inodes != 0)
    out << fmt::format("{}/{} files, {}/{} blocks; ", c.inodes - c.free_inodes, c.inodes, c.blocks - c.free_blocks, c.blocks);
  std::string list;
  for (const std::string& n : v.not_checked) list += (list.empty() ? "" : ", ") + n;
  out << (list.empty() ? "everything was checked" : "not checked: " + list) << '\n';
}

}  // namespace e4::report
