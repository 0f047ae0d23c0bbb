// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <string_view>
#include <vector>

#include "report/finding.h"

namespace e4::report {

/// An answer of the user to one question.
enum class Answer { yes, no, all };  // all: yes to this and everything after it

/// Where findings and news go. A sink never changes what is done, except
/// through ask(). Called from one thread.
class Sink {
 public:
  virtual ~Sink() = default;
  /// News that is not a finding ("recovering journal"); no newline.
  virtual void say(std::string_view line) = 0;
  /// News about one orphan, of which there may be millions.
  virtual void say_orphan(std::string_view line) = 0;
  /// A finding, its fate decided.
  virtual void add(const Finding& finding) = 0;
  /// Puts finding.text and finding.question to the user. Only interactive
  /// sinks are asked; the others say no.
  virtual Answer ask(const Finding&) { return Answer::no; }
  /// Repairs reported so far were given up before anything was written.
  virtual void retract() = 0;
};

/// Keeps findings (at most `limit`, the rest is only counted) and hands
/// everything on to `next`, if there is one.
class Collector final : public Sink {
 public:
  explicit Collector(Sink* next = nullptr, std::size_t limit = 10'000) : next_(next), limit_(limit) {}
  void say(std::string_view line) override {
    if (next_ != nullptr) next_->say(line);
  }
  void say_orphan(std::string_view line) override {
    if (next_ != nullptr) next_->say_orphan(line);
  }
  void add(const Finding& finding) override {
    if (findings_.size() < limit_) findings_.push_back(finding);
    else ++dropped_;
    if (next_ != nullptr) next_->add(finding);
  }
  Answer ask(const Finding& finding) override { return next_ != nullptr ? next_->ask(finding) : Answer::no; }
  void retract() override {
    for (Finding& f : findings_)
      if (f.fate == Fate::fixed || f.fate == Fate::would_fix) f.fate = Fate::left;
    if (next_ != nullptr) next_->retract();
  }

  [[nodiscard]] const std::vector<Finding>& findings() const { return findings_; }
  [[nodiscard]] std::size_t dropped_count() const { return dropped_; }

 private:
  Sink* next_;
  std::size_t limit_;
  std::vector<Finding> findings_;
  std::size_t dropped_ = 0;
};

}  // namespace e4::report
