// SPDX-License-Identifier: GPL-2.0-only
#include "alloc/explain.h"

#include "alloc/impl.h"

namespace e4::alloc {

const char* verdict_words(Verdict v) {
  switch (v) {
    case Verdict::taken: return "taken from here";
    case Verdict::measured: return "searched; best candidate kept";
    case Verdict::searched_nothing: return "searched, no run fits";
    case Verdict::lock_held: return "its lock is held";
    case Verdict::no_free: return "nothing free";
    case Verdict::too_few_free: return "fewer free clusters than wanted";
    case Verdict::corrupt: return "its bitmap is not usable";
    case Verdict::not_loaded: return "not loaded, and this pass does not read bitmaps";
    case Verdict::flex_first: return "first group of a flex group, kept for metadata";
    case Verdict::no_order: return "no free piece of that order";
    case Verdict::average_too_small: return "average free run shorter than wanted";
    case Verdict::no_fragments: return "no free run";
    case Verdict::load_failed: return "its bitmap could not be loaded";
  }
  return "";
}

std::string Explanation::text() const {
  const auto n = [](std::uint64_t v) { return std::to_string(v); };
  std::string s = "inode " + n(request.ino) + ": " + n(request.len_clusters) + " clusters at file block " + n(request.lblk) +
                  ", goal block " + n(request.goal) + "\n";
  for (const std::string& step : steps) s += "  " + step + "\n";
  for (const ExplainedPass& p : passes) {
    const char* name = criterion_name(p.cr);
    s += "  " + std::string(name ? name : "CR " + n(p.cr)) + ": " + n(p.goal_len) + " clusters, from group " + n(p.start_group) +
         (p.linear ? ", one group after the other" : ", through the order sets") + "\n";
    for (const ExplainedGroup& g : p.groups) {
      s += "    group " + n(g.group) + " (free " + n(g.free) + ", runs " + n(g.frags) + ", top order " + std::to_string(g.top) +
           "): " + verdict_words(g.verdict);
      if (g.measured > 0) s += ", " + n(g.measured) + " candidates";
      if (g.best_len > 0) s += ", best " + n(g.best_len) + " at " + n(g.best_group) + "/" + n(g.best_start);
      s += "\n";
    }
    if (p.groups.empty()) s += "    no group qualifies\n";
    if (p.groups_not_listed > 0) s += "    and " + n(p.groups_not_listed) + " groups more\n";
  }
  switch (outcome.status) {
    case Status::ok:
      s += "  result: block " + n(outcome.block) + ", " + n(outcome.len) + " clusters" +
           (outcome.from_prealloc ? " from a preallocation" : "") +
           (outcome.new_pa.kind != PaKind::none ? "; new preallocation of " + n(outcome.new_pa.len) + " at block " + n(outcome.new_pa.pstart) : "") +
           "\n";
      break;
    case Status::claim_refused: s += "  result: no space, refused before any search\n"; break;
    case Status::no_space: s += "  result: no space\n"; break;
    case Status::error: s += "  result: a bitmap could not be used\n"; break;
  }
  return s;
}

Explanation Allocator::explain(const Request& request, bool keep, std::size_t groups_per_pass) {
  Explanation e;
  e.request = request;
  ExplainSink sink{e, groups_per_pass, keep};
  impl_->allocate(request, e.outcome, &e.events, &sink);
  if (!keep) impl_->undo(request, e.outcome);
  return e;
}

}  // namespace e4::alloc
