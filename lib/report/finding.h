// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/units.h"

namespace e4::report {

enum class Severity {
  note,     // worth knowing, nothing is wrong
  preen,    // expected after a crash, or harmless: repaired without asking
  error,    // the image is inconsistent
  unfixable // inconsistent, and nothing we know repairs it
};

/// What became of a finding.
enum class Fate {
  noted,      // there was nothing to repair
  fixed,      // repaired in the image
  would_fix,  // repaired in memory only: the image is read-only (-n)
  left,       // declined, or no repair known
};

/// Where in the image; what does not apply stays empty.
struct Place {
  std::optional<Ino> ino = {};
  std::optional<Blk> block = {};           // physical block
  std::optional<GroupNo> group = {};
  std::optional<std::uint64_t> slot = {};  // slot of the orphan file, counted over all its blocks
};

struct Arg {
  std::string_view name;  // a literal
  std::variant<std::uint64_t, std::string> value;
};
/// A number as an argument, whatever its integer type.
inline Arg arg(std::string_view name, std::uint64_t value) { return {name, value}; }
inline Arg arg(std::string_view name, std::string value) { return {name, std::move(value)}; }

/// One thing wrong with an image. `id`, `question` are literals of the problem
/// table (lib/check/problems.h); ids are stable from release to release.
struct Finding {
  std::string_view id;
  Severity severity = Severity::error;
  Fate fate = Fate::left;
  Place place = {};
  std::string text;           // a sentence without newline
  std::string_view question;  // "Clear?", or empty when there is nothing to ask
  bool quiet = false;         // fixed in preen mode without a line of text
  std::vector<Arg> args = {};
};

std::string_view name_of(Severity);
std::string_view name_of(Fate);

}  // namespace e4::report
