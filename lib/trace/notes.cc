// SPDX-License-Identifier: GPL-2.0-only
#include "trace/notes.h"

#include <fmt/core.h>

namespace e4::trace {
namespace {
constexpr std::size_t kMaxNotes = 200;
constexpr std::size_t kMaxWhat = 120;
}  // namespace

const char* trouble_name(Trouble t) {
  switch (t) {
    case Trouble::lost: return "lost";
    case Trouble::cut: return "cut";
    case Trouble::unknown_event: return "unknown-event";
    case Trouble::malformed: return "malformed";
    case Trouble::other_device: return "other-device";
    case Trouble::other_event: return "other-event";
    case Trouble::missing_kind: return "missing-kind";
  }
  return "?";
}

void Notes::add(Trouble trouble, std::string_view what, std::uint64_t where, std::uint64_t count) {
  what = what.substr(0, kMaxWhat);
  for (Note& n : notes_)
    if (n.trouble == trouble && n.what == what) {
      n.count += count;
      return;
    }
  if (notes_.size() >= kMaxNotes) {
    for (Note& n : notes_)
      if (n.trouble == trouble) {
        n.count += count;
        return;
      }
    return;
  }
  notes_.push_back({trouble, std::string(what), count, where});
}

std::uint64_t Notes::count(Trouble trouble) const {
  std::uint64_t sum = 0;
  for (const Note& n : notes_)
    if (n.trouble == trouble) sum += n.count;
  return sum;
}

std::string Notes::text(const Note& n) const {
  const std::string at = n.first != 0 ? fmt::format(", first before {} {}", unit, n.first) : std::string();
  const std::string from = n.first != 0 ? fmt::format(", first at {} {}", unit, n.first) : std::string();
  switch (n.trouble) {
    case Trouble::lost: return fmt::format("{} events lost on {}{}", n.count, n.what, at);
    case Trouble::cut: return fmt::format("the trace is cut off at {} {}: {}", unit, n.first, n.what);
    case Trouble::unknown_event: return fmt::format("{} events of unknown kind {}{}", n.count, n.what, from);
    case Trouble::malformed: return fmt::format("{} malformed: {}{}", n.count, n.what, from);
    case Trouble::other_device: return fmt::format("{} events of other device {} left out{}", n.count, n.what, from);
    case Trouble::other_event: return fmt::format("{} events {} left out{}", n.count, n.what, from);
    case Trouble::missing_kind: return n.what;
  }
  return n.what;
}

}  // namespace e4::trace
