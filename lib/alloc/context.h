// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include "alloc/cpu_slots.h"
#include "alloc/explain.h"
#include "alloc/group.h"
#include "alloc/prealloc.h"
#include "alloc/types.h"

namespace e4::alloc {

/// Collects what explain() tells; null in normal requests.
struct ExplainSink {
  Explanation& to;
  std::size_t groups_per_pass;
  bool may_discard;
  void step(std::string text) { to.steps.push_back(std::move(text)); }
  void pass(unsigned cr, std::uint32_t goal_len, GroupNo start, bool linear) {
    ExplainedPass p;
    p.cr = static_cast<std::uint8_t>(cr);
    p.goal_len = goal_len;
    p.start_group = start;
    p.linear = linear;
    to.passes.push_back(std::move(p));
  }
  void group(ExplainedGroup g) {
    if (to.passes.empty()) return;
    ExplainedPass& p = to.passes.back();
    if (p.groups.size() < groups_per_pass) {
      p.groups.push_back(g);
    } else {
      ++p.groups_not_listed;
    }
  }
};

/// One request on its way through the allocator (kernel: ext4_allocation_context).
struct Context {
  enum class Scan : std::uint8_t { go_on, found, broke };

  const Request& rq;
  EventLog* log;
  ExplainSink* explain;
  CpuSlot& cpu;
  std::uint32_t cpu_no;

  Position o{}, g{}, best{}, b{}, f{}; // asked, looked for, best candidate, used, the chunk taken
  std::uint32_t orig_goal_len = 0;     // g.len after normalization
  std::uint32_t flags = 0;
  Scan status = Scan::go_on;
  unsigned cr = 0;
  unsigned order = 0;                  // CR_POWER2_ALIGNED: log2 of g.len; 0: that pass is left out
  std::uint32_t found = 0;
  std::uint16_t groups = 0;
  Buddy::Broken broken{};

  // Prefetching in the pass at hand.
  GroupNo pf_group = 0;
  std::uint32_t pf_count = 0, pf_ios = 0;

  std::uint32_t held_seen = 0;         // visits that met a lock of Request::held_groups

  LocalityHold lg{};                   // small files: their locality group, locked
  Pa* pa = nullptr;                    // used by this request, one reference held
  bool from_prealloc = false;
  bool disk_marked = false;            // D was marked together with the take
  bool load_failed = false;
  PaInfo new_pa{};
  Outcome::Undo undo{};
};

}  // namespace e4::alloc
