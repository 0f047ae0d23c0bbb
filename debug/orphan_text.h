// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <iosfwd>
#include <string>

#include "debug/session.h"
#include "orphan/classify.h"

namespace e4::debug {

/// What the image will look like once everything in the plan is carried out.
struct AfterRecovery {
  orphan::ReleaseTotals totals;
  std::uint64_t free_blocks = 0, free_inodes = 0;
  std::uint64_t orphans_left = 0;
};

/// One look at the orphans of an image.
struct OrphanLook {
  const Session& session;
  const Layer& layer;
  const orphan::Plan& plan;
  const AfterRecovery* after = nullptr;  // only when asked for
};

/// A table and totals for people.
void print_orphans(std::ostream& out, const OrphanLook& look);
/// One document, schema "e4progs-orphans" version 1 (e4debug(8)); written record by record.
void print_orphans_json(std::ostream& out, const OrphanLook& look);

/// "regular", "directory", ...
std::string type_name(std::uint16_t mode);
std::string hex32(std::uint32_t value);
/// Names joined by commas, or "-".
template <class Names>
std::string joined(const Names& names) {
  std::string s;
  for (const auto& n : names) s += (s.empty() ? "" : ",") + std::string(n);
  return s.empty() ? "-" : s;
}

}  // namespace e4::debug
