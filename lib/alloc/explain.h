// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "alloc/types.h"

namespace e4::alloc {

/// Why a group did not serve a request in one pass, or that it did.
enum class Verdict : std::uint8_t {
  taken,               // the chunk came from here
  measured,            // searched; its best run became or stayed a candidate
  searched_nothing,    // searched, no run fit
  lock_held,           // try-lock failed
  no_free,             // free == 0
  too_few_free,        // free < wanted
  corrupt,
  not_loaded,          // bitmap on disk, cheap pass does not read it
  flex_first,          // first group of a flex group, not for data in CR 0
  no_order,            // largest free order too small
  average_too_small,   // free / fragments < wanted
  no_fragments,
  load_failed,
};
const char* verdict_words(Verdict v);

struct ExplainedGroup {
  GroupNo group = 0;
  Verdict verdict = Verdict::measured;
  std::uint32_t free = 0, frags = 0;
  std::int32_t top = -1;              // largest free order
  std::uint32_t measured = 0;         // candidates measured here
  std::uint32_t best_start = 0, best_len = 0;  // the best candidate after this group (0: none)
  GroupNo best_group = 0;
};

struct ExplainedPass {
  std::uint8_t cr = 0;
  std::uint32_t goal_len = 0;         // clusters looked for (trimmed by CR_BEST_AVAIL_LEN)
  GroupNo start_group = 0;
  bool linear = true;
  std::vector<ExplainedGroup> groups; // in the order visited
  std::uint32_t groups_not_listed = 0;  // beyond the limit asked for
};

/// One request taken apart: data and words.
struct Explanation {
  Request request;
  Outcome outcome;
  EventLog events;
  std::vector<std::string> steps;     // claim, file-or-group, preallocation, normalization, goal probe, in order
  std::vector<ExplainedPass> passes;
  [[nodiscard]] std::string text() const;
};

}  // namespace e4::alloc
