// SPDX-License-Identifier: GPL-2.0-only
#include "orphan/record.h"

#include <array>

namespace e4::orphan {

std::vector<std::string_view> reason_names(std::uint32_t reasons) {
  static constexpr std::array<std::string_view, 18> kNames = {
      "range", "reserved", "special", "free",   "duplicate", "loop",     "unreadable", "wrong-type", "named",
      "csum",  "shared",   "unproved", "not-empty", "verity", "covered", "bad-next",   "group",      "referenced"};
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if ((reasons >> i & 1) != 0) names.push_back(kNames[i]);
  return names;
}

std::string_view to_string(Source source) {
  switch (source) {
    case Source::list: return "list";
    case Source::file: return "file";
    case Source::unlisted: return "unlisted";
  }
  return "";
}

std::string_view to_string(State state) {
  switch (state) {
    case State::erase: return "delete";
    case State::truncate: return "truncate";
    case State::drop: return "drop";
    case State::invalid: return "invalid";
  }
  return "";
}

std::string_view to_string(Action action) {
  switch (action) {
    case Action::erase: return "delete";
    case Action::truncate: return "truncate";
    case Action::drop: return "drop";
    case Action::fix_links: return "fix-links";
    case Action::leave: return "leave";
  }
  return "";
}

}  // namespace e4::orphan
