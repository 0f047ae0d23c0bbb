// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "replay/world.h"
#include "trace/compare.h"
#include "trace/lookahead.h"

namespace e4::replay {

/// One line about an event: its number, time, task and what it says.
std::string event_line(const trace::Event& event, std::uint64_t first_ns, const trace::Reader& reader);

/// A walk through a recording, one event at a time, forwards and backwards,
/// with the allocator's state as it is after the event. Going back replays
/// from the start (a million events a second), so every position is reached by
/// the same path. The kernel's choice is taken at a difference.
class Stepper {
 public:
  /// One file system only: the recording's first that `options` leave.
  static Result<std::unique_ptr<Stepper>> open(const RecordingOptions& options, const std::vector<std::string>& policy);

  /// Events of the file system that were acted on; 0 at the start.
  [[nodiscard]] std::uint64_t position() const { return position_; }
  /// False at the end of the trace.
  Result<bool> forward();
  /// To a position counted as position() does; stops at the end.
  Result<void> go_to(std::uint64_t position);
  /// On to the next event for which `wanted` holds; false if there is none.
  template <class F>
  Result<bool> find(F&& wanted) {
    while (E4_TRY(forward()))
      if (wanted(item_)) return true;
    return false;
  }

  /// The event just acted on; nothing at the start.
  [[nodiscard]] const trace::Item* item() const { return position_ == 0 ? nullptr : &item_; }
  [[nodiscard]] std::string line() const;
  /// What kernel and model made of the request that was decided at this event; empty if none was.
  [[nodiscard]] std::string decision() const;
  /// Takes the decision at this event again from the state before it and tells each step. Error (usage) at any other event.
  Result<std::string> explain();

  [[nodiscard]] std::string group_text(GroupNo group) const;
  [[nodiscard]] std::string inode_text(Ino ino);
  [[nodiscard]] std::string orphans_text() const;
  [[nodiscard]] std::string state_text() const;

 private:
  struct Session {
    std::unique_ptr<trace::Reader> reader;
    std::unique_ptr<trace::Lookahead> ahead;
    World world;
    std::unique_ptr<trace::Comparer> comparer;
    std::unique_ptr<trace::Player> player;
    std::set<Ino> orphans;  // unlinked and not freed
    std::uint64_t first_ns = 0;
  };
  Result<void> restart();
  /// The next event of the file system, not acted on yet; false at the end.
  Result<bool> fetch(trace::Item& item);
  Result<void> act(trace::Item& item);

  trace::Recording recording_;
  alloc::Policy policy_;
  std::unique_ptr<Session> s_;
  trace::Item item_;
  std::uint64_t position_ = 0;
};

}  // namespace e4::replay
