// SPDX-License-Identifier: GPL-2.0-only
#include "check/judge.h"

#include <fmt/core.h>

namespace e4::check {

using report::Fate;
using report::Severity;

std::string_view name_of(Mode mode) {
  switch (mode) {
    case Mode::read_only: return "read-only";
    case Mode::preen: return "preen";
    case Mode::yes: return "yes";
    case Mode::interactive: return "interactive";
  }
  return "";
}

std::string text_of(const ProblemInfo& info, const std::vector<report::Arg>& args) {
  std::string out;
  std::string_view t = info.text;
  while (!t.empty()) {
    const std::size_t open = t.find('{');
    const std::size_t close = open == std::string_view::npos ? open : t.find('}', open);
    if (close == std::string_view::npos) break;
    out += t.substr(0, open);
    const std::string_view name = t.substr(open + 1, close - open - 1);
    bool known = false;
    for (const report::Arg& a : args) {
      if (a.name != name) continue;
      known = true;
      std::visit([&](const auto& v) { out += fmt::format("{}", v); }, a.value);
      break;
    }
    if (!known) out += '?';
    t.remove_prefix(close + 1);
  }
  out += t;
  return out;
}

namespace {

std::string place_key(std::string_view id, const report::Place& p, const std::string& text) {
  std::string k(id);
  if (p.ino) k += fmt::format(" i{}", *p.ino);
  if (p.block) k += fmt::format(" b{}", *p.block);
  if (p.group) k += fmt::format(" g{}", *p.group);
  if (p.slot) k += fmt::format(" s{}", *p.slot);
  return k + ' ' + text;
}

}  // namespace

void Judge::retract() {
  if (fixed_ == 0) return;
  fixed_ = 0;
  sink_.retract();
}

bool Judge::found(Problem problem, report::Place place, std::vector<report::Arg> args) {
  const ProblemInfo& info = info_of(problem);
  report::Finding f;
  f.id = info.id;
  f.severity = info.severity;
  f.place = place;
  f.text = text_of(info, args);
  f.question = info.question;
  f.quiet = info.preen == Preen::quiet;
  f.args = std::move(args);

  if (info.severity == Severity::note) {
    f.fate = Fate::noted;
    sink_.add(f);
    return false;
  }
  std::string key = place_key(info.id, place, f.text);
  if (declined_.contains(key)) return (mode_ == Mode::read_only || refused_) && !info.question.empty();

  bool repair = false, really = false;
  if (info.question.empty()) {
    if (mode_ == Mode::preen && info.preen == Preen::halt) halted_ = true;
  } else if (mode_ == Mode::read_only || refused_) {
    repair = true;
  } else {
    switch (mode_) {
      case Mode::preen:
        repair = !halted_ && (info.preen == Preen::fix || info.preen == Preen::quiet);
        if (info.preen == Preen::halt) halted_ = true;
        break;
      case Mode::interactive:
        if (yes_to_all_) repair = true;
        else {
          const report::Answer a = sink_.ask(f);
          repair = a != report::Answer::no;
          yes_to_all_ = a == report::Answer::all;
        }
        break;
      case Mode::yes:
      case Mode::read_only: repair = true; break;
    }
    really = repair;
  }
  f.fate = really ? Fate::fixed : repair ? Fate::would_fix : Fate::left;
  ++found_;
  if (really) ++fixed_;
  else if (declined_.size() < kDeclinedMax) declined_.insert(std::move(key));
  sink_.add(f);
  return repair;
}

}  // namespace e4::check
