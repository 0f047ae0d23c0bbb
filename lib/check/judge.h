// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "check/problems.h"
#include "report/sink.h"
#include "report/verdict.h"

namespace e4::check {

enum class Mode : std::uint8_t {
  read_only,    // -n: everything in memory, nothing written
  preen,        // -p, -a
  yes,          // -y
  interactive,  // asks
};
std::string_view name_of(Mode mode);

/// Decides what becomes of each problem, tells the sink, and keeps the score.
/// Whoever finds a problem only says which and where, and repairs when told to.
class Judge {
 public:
  Judge(Mode mode, report::Sink& sink) : mode_(mode), sink_(sink) {}

  /// True: repair it (in the overlay). With -n that is a rehearsal: the answer
  /// is yes, the finding counts as left. A finding already declined at the
  /// same place is not reported again. Once -p has halted every answer is no.
  bool found(Problem problem, report::Place place = {}, std::vector<report::Arg> args = {});
  /// News, with the same bookkeeping of where it goes.
  void say(std::string_view line) { sink_.say(line); }
  void say_orphan(std::string_view line) { sink_.say_orphan(line); }

  [[nodiscard]] Mode mode() const { return mode_; }
  [[nodiscard]] bool writes() const { return mode_ != Mode::read_only && !refused_; }
  [[nodiscard]] bool halted() const { return halted_; }
  /// From now on nothing may be written (an unknown feature): every repair is
  /// a rehearsal as with -n.
  void refuse_writes() { refused_ = true; }
  [[nodiscard]] bool writes_refused() const { return refused_; }

  /// Nothing that was repaired so far will be written: it counts as left.
  void retract();

  [[nodiscard]] std::uint64_t found_count() const { return found_; }
  [[nodiscard]] std::uint64_t fixed_count() const { return fixed_; }
  [[nodiscard]] std::uint64_t left_count() const { return found_ - fixed_; }

 private:
  Mode mode_;
  report::Sink& sink_;
  bool yes_to_all_ = false;
  bool halted_ = false;
  bool refused_ = false;
  std::uint64_t found_ = 0, fixed_ = 0;
  std::set<std::string> declined_;  // at most kDeclinedMax of them
  static constexpr std::size_t kDeclinedMax = 100'000;
};

/// The text of a problem with its arguments put in.
std::string text_of(const ProblemInfo& info, const std::vector<report::Arg>& args);

}  // namespace e4::check
