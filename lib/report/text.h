// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <iosfwd>
#include <string>

#include "report/sink.h"
#include "report/verdict.h"

namespace e4::report {

struct TextOptions {
  std::string device;        // what to call the image
  bool prefix_all = false;   // -p: every line begins with "DEVICE: "
  bool print_quiet = false;  // -v: also what preen repairs in silence
};

/// e2fsck's words: "Problem.  Clear? yes". One line a finding; control bytes
/// of an image never reach the terminal.
class TextSink : public Sink {
 public:
  /// `in`: where answers come from; nullptr unless interactive.
  TextSink(std::ostream& out, TextOptions options, std::istream* in = nullptr)
      : out_(out), options_(std::move(options)), in_(in) {}
  void say(std::string_view line) override;
  void say_orphan(std::string_view line) override;
  void add(const Finding& finding) override;
  /// y, n, a, Enter (yes); end of input is no, for this and all later questions.
  Answer ask(const Finding& finding) override;
  void retract() override;

 private:
  void line_head(const Finding& finding);
  std::ostream& out_;
  TextOptions options_;
  std::istream* in_;
  bool asked_ = false;  // the text of the finding now being added is already on the screen
  bool input_ended_ = false;
};

/// The last lines: what was changed, what is left, one summary line (never a
/// bare "clean": it says what was looked at and what was not).
void write_summary(std::ostream& out, const std::string& device, const Verdict& verdict, bool read_only);

/// `s` with control and non-ASCII-safe bytes written as \xNN.
std::string printable(std::string_view s);

}  // namespace e4::report
