// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace e4::trace {

/// What a reader met that a replay should know of.
enum class Trouble : std::uint8_t {
  lost,           // the ring buffer dropped events
  cut,            // the file ends in the middle
  unknown_event,  // an ext4 or jbd2 event nobody here knows
  malformed,      // a line or record that is not what its event promises
  other_device,   // events of a device that was not asked for
  other_event,    // events of other subsystems
  missing_kind,   // a kind of event that replay needs never appeared
};
const char* trouble_name(Trouble t);

struct Note {
  Trouble trouble;
  std::string what;          // event, device or CPU
  std::uint64_t count = 0;
  std::uint64_t first = 0;   // line or record of the first one; 0 unknown
};

/// Counts troubles by kind and subject; bounded, whatever the trace holds.
class Notes {
 public:
  void add(Trouble trouble, std::string_view what, std::uint64_t where, std::uint64_t count = 1);
  [[nodiscard]] const std::vector<Note>& list() const { return notes_; }
  [[nodiscard]] std::uint64_t count(Trouble trouble) const;
  /// "line" or "record": what `first` counts.
  std::string unit = "line";
  [[nodiscard]] std::string text(const Note& note) const;

 private:
  std::vector<Note> notes_;
};

}  // namespace e4::trace
