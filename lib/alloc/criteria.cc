// SPDX-License-Identifier: GPL-2.0-only
#include <algorithm>

#include "alloc/impl.h"

namespace e4::alloc {

using Impl = Allocator::Impl;
using Scan = Context::Scan;

/// Inodes without extents hold 32-bit block numbers.
GroupNo Impl::usable_groups(const Context& c) const {
  if (c.rq.extent_mapped) return groups.count();
  return std::min<GroupNo>(groups.count(), 0xFFFFFFFFU / geo.blocks_per_group);
}

/// The goal, then the criteria one after the other.
void Impl::regular(Context& c) {
  if (probe_goal(c) || (c.flags & kHintGoalOnly)) return;
  c.order = 0;
  const unsigned w = bits::width(c.g.len);
  if (w >= tun.mb_order2_req && w <= geo.orders() && (c.g.len & (c.g.len - 1)) == 0) c.order = w - 1;
  if (c.flags & kStreamAlloc) {
    const StreamGoals::Goal goal = stream.get(c.rq.ino);
    c.g.group = c.rq.stream_group.value_or(goal.group);
    c.g.start = goal.start;
    if (policy.stream_goal != Policy::StreamGoal::locked) c.flags &= ~static_cast<std::uint32_t>(kHintTryGoal);
  }
  c.cr = c.order > 0 ? kCrPower2Aligned : kCrGoalLenFast;
  c.pf_ios = 0;
  c.pf_count = 0;
  for (;;) {
    while (c.cr <= kCrAnyFree && c.status == Scan::go_on) scan(c);
    if (c.status == Scan::found || c.best.len == 0 || (c.flags & kHintFirst)) break;
    if (!c.rq.lose_best) take_best_late(c);
    if (c.status == Scan::found) break;
    // Somebody was quicker: now the first free run will do.
    c.cpu.lost_chunks.add();
    c.best = {};
    c.status = Scan::go_on;
    c.flags |= kHintFirst;
    c.cr = kCrAnyFree;
  }
  if (c.pf_count > 0) prefetch_finish(c);
  if (c.status == Scan::found && c.cr < kCrExhausted) c.cpu.passes[c.cr].hits.add();
}

/// One pass over the groups with the criterion at hand.
void Impl::scan(Context& c) {
  const GroupNo ngroups = usable_groups(c);
  GroupNo start = c.g.group < ngroups ? c.g.group : 0;
  c.pf_group = start;
  c.pf_count = 0;
  const bool lists = policy.order_sets == Policy::OrderSets::list;
  // Before 6.18.26 inodes without extents had no part in the optimized scan.
  const bool linear = !groups.optimized() || c.cr >= kCrGoalLenSlow || (lists && !c.rq.extent_mapped);
  if (c.explain) c.explain->pass(c.cr, c.g.len, start, linear);
  if (linear) {
    scan_linear(c, start, ngroups, ngroups);
    return;
  }
  if (lists) {
    // Always the goal's group first, then the linear part, then by lists; never more visits than groups.
    const GroupNo first = std::min<GroupNo>(ngroups, 1 + std::min(tun.mb_max_linear_groups, ngroups));
    scan_linear(c, start, first, ngroups);
    if (c.status == Scan::go_on && first < ngroups) visit_lists(c, ngroups - first);
    return;
  }
  if (tun.mb_max_linear_groups > 0) {
    start = scan_linear(c, start, tun.mb_max_linear_groups, ngroups);
    if (c.status != Scan::go_on) return;
  }
  scan_optimized(c, start, ngroups);
}

/// `count` groups from `start`, wrapping; the next criterion after a whole circle. Returns the group after the last.
GroupNo Impl::scan_linear(Context& c, GroupNo start, GroupNo count, GroupNo ngroups) {
  GroupNo g = start;
  for (GroupNo i = 0; i < count; ++i) {
    visit(c, g);
    if (c.status != Scan::go_on) return start;
    if (++g >= ngroups) g = 0;
  }
  if (count == ngroups) ++c.cr;
  return g;
}

bool Impl::visit_set(Context& c, GroupIndex::Kind kind, unsigned order, GroupNo from, GroupNo to) {
  const GroupIndex& index = groups.index();
  for (GroupNo g = index.next(kind, order, from, to); g != kNoGroup; g = index.next(kind, order, g + 1, to)) {
    visit(c, g);
    if (c.status != Scan::go_on) return false;
  }
  return true;
}

/// Through the ordered sets: all orders of [start, end), then all of [0, start).
void Impl::scan_optimized(Context& c, GroupNo start, GroupNo ngroups) {
  if (c.cr > kCrBestAvailLen) {
    // The linear part before went round the whole circle and moved on (mb_max_linear_groups == groups).
    c.cr = kCrGoalLenSlow;
    return;
  }
  const unsigned orders = geo.orders();
  const GroupNo ranges[2][2] = {{start, ngroups}, {0, start}};
  const unsigned cr = c.cr;
  const auto goal_order = static_cast<unsigned>(std::max(0, groups.average_order(c.g.len, 1)));
  if (cr == kCrPower2Aligned || cr == kCrGoalLenFast) {
    const auto kind = cr == kCrPower2Aligned ? GroupIndex::kTop : GroupIndex::kAvg;
    const unsigned first = cr == kCrPower2Aligned ? c.order : goal_order;
    for (const auto& range : ranges) {
      if (range[0] >= range[1]) continue;
      // Sets that fill or empty meanwhile: their mask is read again after each visit.
      for (unsigned o = first; o < orders; ++o) {
        const std::uint32_t more = groups.index().nonempty(kind) >> o;
        if (more == 0) break;
        o += static_cast<unsigned>(std::countr_zero(more));
        if (!visit_set(c, kind, o, range[0], range[1])) return;
      }
    }
    c.cr = cr == kCrPower2Aligned ? kCrGoalLenFast : (c.flags & kHintData) ? kCrBestAvailLen : kCrGoalLenSlow;
    return;
  }
  // Shorter goals, down to what the trim order, the stripe and the request allow.
  const int hi = static_cast<int>(bits::width(c.g.len)) - 1;
  int lo = std::max(0, hi - static_cast<int>(std::min(tun.mb_best_avail_max_trim_order, 31U)));
  if (mount.stripe_blocks > 0 && stripe_clusters > 0 && (1U << lo) < stripe_clusters)
    lo = static_cast<int>(bits::width(stripe_clusters)) - 1;
  if ((1U << lo) < c.o.len) lo = static_cast<int>(bits::width(c.o.len));
  for (const auto& range : ranges) {
    for (int i = hi; i >= lo && range[0] < range[1]; --i) {
      c.g.len = 1U << i;
      if (stripe_clusters > 0) c.g.len = (c.g.len + stripe_clusters - 1) / stripe_clusters * stripe_clusters;
      if (c.explain) c.explain->pass(c.cr, c.g.len, range[0], false);
      const auto o = static_cast<unsigned>(groups.average_order(c.g.len, 1));
      if (!visit_set(c, GroupIndex::kAvg, o, range[0], range[1])) return;
    }
  }
  c.g.len = c.orig_goal_len;
  c.cr = kCrGoalLenSlow;
}

namespace {

/// Request::held_groups: a lock covers all groups that hash to it.
bool pretend_held(Context& c, GroupNo g) {
  const GroupNo* const end = c.rq.held_groups + c.rq.held_groups_count;
  const bool held = std::any_of(c.rq.held_groups, end, [&](GroupNo h) { return h % GroupTable::kLocks == g % GroupTable::kLocks; });
  if (!held || (c.rq.held_visits != 0 && c.held_seen >= c.rq.held_visits)) return false;
  ++c.held_seen;
  return true;
}

}  // namespace

void Impl::visit(Context& c, GroupNo g) {
  const unsigned cr = c.cr;
  if (g == c.pf_group && (cr >= kCrGoalLenSlow || c.pf_ios < tun.mb_prefetch_limit)) prefetch(c, g);
  c.cpu.passes[cr].considered.add();
  GroupLock& l = groups.lock(g);
  const bool skip_busy = policy.busy_groups == Policy::BusyGroups::skip && cr < kCrAnyFree;
  Verdict verdict = Verdict::lock_held;
  const bool pretended = skip_busy && c.rq.held_groups_count != 0 && pretend_held(c, g);
  if (!pretended && (!skip_busy || !l.spin.is_locked())) {
    verdict = judge_unlocked(c, g, cr);
    if (verdict == Verdict::measured) {
      if (!skip_busy) {
        groups.lock_group(l);
      } else if (!groups.try_lock_group(l)) {
        c.cpu.busy_skips.add();
        if (c.explain) c.explain->group({g, Verdict::lock_held});
        return;
      }
      verdict = judge(c, g, cr);
      if (verdict == Verdict::measured) {
        ++c.groups;
        c.cpu.passes[cr].scanned.add();
        const std::uint32_t before = c.found;
        search_group(c, g, l, *groups.body(g));
        if (c.explain) {
          const GroupView& v = groups.view(g);
          ExplainedGroup e{g, Verdict::measured, v.free.load(), v.frags.load(), v.top.load()};
          e.measured = c.found - before;
          if (c.status == Scan::found) e.verdict = Verdict::taken;
          if (c.found == before) e.verdict = Verdict::searched_nothing;
          e.best_group = c.best.group;
          e.best_start = static_cast<std::uint32_t>(c.best.start);
          e.best_len = c.best.len;
          c.explain->group(e);
        }
        l.spin.unlock();
        return;
      }
      l.spin.unlock();
    }
  } else {
    c.cpu.busy_skips.add();
  }
  if (c.explain) {
    const GroupView& v = groups.view(g);
    c.explain->group({g, verdict, v.free.load(), v.frags.load(), v.top.load()});
  }
}

/// Is the group worth locking? Loads it if the criterion is worth a read.
Verdict Impl::judge_unlocked(Context& c, GroupNo g, unsigned cr) {
  const auto quick = [&]() -> Verdict {
    const std::uint32_t free = groups.view(g).free.load(std::memory_order_relaxed);
    if (free == 0) return Verdict::no_free;
    if (cr < kCrAnyFree && free < c.g.len) return Verdict::too_few_free;
    if (groups.has(g, GroupTable::kCorrupt)) return Verdict::corrupt;
    return Verdict::measured;
  };
  if (c.flags & kStrictCheck) {
    // After a failed search the hints are not good enough.
    GroupLock& l = groups.lock(g);
    groups.lock_group(l);
    const Verdict v = quick();
    l.spin.unlock();
    if (v != Verdict::measured) return v;
  } else if (const Verdict v = quick(); v != Verdict::measured) {
    return v;
  }
  if (groups.has(g, GroupTable::kNeedInit)) {
    const bool flex_first = geo.log_groups_per_flex > 0 && (g & (geo.flex_groups() - 1)) == 0;
    if (cr < kCrGoalLenSlow && !flex_first && !groups.has(g, GroupTable::kBlockUninit)) return Verdict::not_loaded;
    if (auto r = groups.load(g, c.log); !r) {
      remember_error(r.error());
      c.load_failed = true;
      return Verdict::load_failed;
    }
  }
  return judge(c, g, cr);
}

/// Does the group fulfil the criterion (kernel: ext4_mb_good_group)?
Verdict Impl::judge(const Context& c, GroupNo g, unsigned cr) const {
  const GroupView& v = groups.view(g);
  const std::uint32_t free = v.free.load(std::memory_order_relaxed), frags = v.frags.load(std::memory_order_relaxed);
  if (groups.has(g, GroupTable::kCorrupt)) return Verdict::corrupt;
  if (free == 0) return Verdict::no_free;
  if (frags == 0) return Verdict::no_fragments;
  switch (cr) {
    case kCrPower2Aligned:
      if ((c.flags & kHintData) && geo.flex_groups() >= 4 && (g & (geo.flex_groups() - 1)) == 0)
        return Verdict::flex_first;
      if (free < c.g.len) return Verdict::too_few_free;
      if (c.order < geo.orders() && v.top.load(std::memory_order_relaxed) < static_cast<int>(c.order))
        return Verdict::no_order;
      break;
    case kCrGoalLenFast:
    case kCrBestAvailLen:
      if (free < std::uint64_t{c.g.len} * frags) return Verdict::average_too_small;
      break;
    case kCrGoalLenSlow:
      if (free < c.g.len) return Verdict::too_few_free;
      break;
    default:
      break;
  }
  return Verdict::measured;
}

/// Sets the READ bit of a group; true if that starts a read which is not done yet.
bool Impl::prefetch_group(GroupNo g) {
  std::atomic<std::uint8_t>& state = groups.state(g);
  if (policy.read_bit == Policy::ReadBit::test_first &&
      (state.load(std::memory_order_relaxed) & GroupTable::kReadBit) != 0)
    return false;
  const std::uint8_t before = state.fetch_or(GroupTable::kReadBit, std::memory_order_relaxed);
  if ((before & GroupTable::kReadBit) || !(before & GroupTable::kNeedInit)) return false;
  if (groups.view(g).descriptor_free.load(std::memory_order_relaxed) == 0) return false;
  if (before & (GroupTable::kCached | GroupTable::kBlockUninit)) return false;
  groups.set(g, GroupTable::kCached);
  return true;
}

void Impl::prefetch(Context& c, GroupNo g) {
  std::uint32_t n = tun.mb_prefetch;
  if (geo.flex_bg) n = std::min(geo.flex_groups() - (g & (geo.flex_groups() - 1)), n);
  c.pf_count = n;
  for (; n > 0; --n) {
    c.pf_ios += prefetch_group(g);
    if (++g >= groups.count()) g = 0;
  }
  c.pf_group = g;
}

/// Builds the groups of the last prefetch, backwards.
void Impl::prefetch_finish(Context& c) {
  GroupNo g = c.pf_group;
  for (std::uint32_t n = std::min(c.pf_count, groups.count()); n > 0; --n) {
    g = g == 0 ? groups.count() - 1 : g - 1;
    if (!groups.has(g, GroupTable::kNeedInit)) continue;
    if (groups.view(g).descriptor_free.load(std::memory_order_relaxed) == 0) continue;
    if (auto r = groups.load(g, c.log); !r) {
      remember_error(r.error());
      return;
    }
  }
}

}  // namespace e4::alloc
