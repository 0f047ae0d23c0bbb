// SPDX-License-Identifier: GPL-2.0-only
#include <algorithm>

#include "alloc/impl.h"
#include "base/assert.h"

namespace e4::alloc {

using Impl = Allocator::Impl;
using Scan = Context::Scan;

/// The exact goal, if it is worth a try. Waits for the group's lock.
bool Impl::probe_goal(Context& c) {
  if (!(c.flags & (kHintTryGoal | kHintGoalOnly))) return false;
  const GroupNo g = c.g.group;
  if (groups.view(g).free.load(std::memory_order_relaxed) == 0) return false;
  if (groups.has(g, GroupTable::kNeedInit)) {
    if (auto r = groups.load(g, c.log); !r) {
      remember_error(r.error());
      c.load_failed = true;
      return false;
    }
  }
  GroupLock& l = groups.lock(g);
  groups.lock_group(l);
  if (!groups.has(g, GroupTable::kCorrupt)) {
    GroupBody& body = *groups.body(g);
    const Buddy::Run run = body.buddy.find_run(static_cast<std::uint32_t>(std::max(0, c.g.start)), c.g.len);
    bool accept = false;
    if (run.len >= c.g.len) {
      accept = stripe_clusters == 0 || c.g.len != stripe_clusters ||
               geo.block_of(g, run.start) % mount.stripe_blocks == 0;
    } else {
      accept = run.len > 0 && (c.flags & kHintMerge);
    }
    if (accept) {
      ++c.found;
      c.best = {g, static_cast<std::int32_t>(run.start), run.len, 0};
      take(c, l, body);
      c.cpu.goal_hits.add();
    }
    if (c.explain)
      c.explain->step("goal probe: group " + std::to_string(g) + ", cluster " + std::to_string(c.g.start) + ": " +
                      std::to_string(run.len) + " free, " + std::to_string(c.g.len) + " wanted: " +
                      (accept ? "taken" : "no"));
  }
  l.spin.unlock();
  return c.status == Scan::found;
}

void Impl::search_group(Context& c, GroupNo g, GroupLock& l, GroupBody& body) {
  if (c.cr == kCrPower2Aligned) {
    search_piece(c, g, l, body);
    return;
  }
  if (c.cr <= kCrBestAvailLen && stripe_clusters > 0 && mount.stripe_blocks >= geo.cluster_blocks() &&
      c.g.len % stripe_clusters == 0)
    search_aligned(c, g, l, body);
  if (c.status == Scan::go_on) search_runs(c, g, l, body);
}

/// A power of two: the first piece of the smallest order that is large enough.
void Impl::search_piece(Context& c, GroupNo g, GroupLock& l, GroupBody& body) {
  const Buddy::Run piece = body.buddy.find_piece(c.order);
  if (piece.len == 0) return;
  ++c.found;
  c.best = {g, static_cast<std::int32_t>(piece.start), piece.len, 0};
  take(c, l, body);
}

/// Runs that start on a stripe.
void Impl::search_aligned(Context& c, GroupNo g, GroupLock& l, GroupBody& body) {
  const Blk first = geo.first_block(g), stripe = mount.stripe_blocks;
  const Blk aligned = (first + stripe - 1) / stripe * stripe;
  const std::uint32_t end = geo.clusters_per_group;
  for (std::uint64_t i = (aligned - first) >> geo.cluster_bits; i < end; i += stripe_clusters) {
    const auto at = static_cast<std::uint32_t>(i);
    if (body.buddy.used(at)) continue;
    const Buddy::Run run = body.buddy.find_run(at, stripe_clusters);
    if (run.len < stripe_clusters) continue;
    ++c.found;
    c.best = {g, static_cast<std::int32_t>(run.start), run.len, 0};
    take(c, l, body);
    return;
  }
}

/// Every run of the group, measured piece by piece. Runs that are too short
/// are not walked one by one: a cheap pass does not measure them at all, and in
/// the others only their number and the longest of them matter.
void Impl::search_runs(Context& c, GroupNo g, GroupLock& l, GroupBody& body) {
  const Buddy& buddy = body.buddy;
  const std::uint32_t end = geo.clusters_per_group;
  std::uint32_t at = std::min(buddy.lo_hint(), end);
  while (c.status == Scan::go_on) {
    const bool leap = c.cr < kCrGoalLenSlow || (c.best.len > 0 && c.best.len < c.g.len && !(c.flags & kHintFirst));
    if (leap) {
      const std::uint32_t fitting = buddy.next_fitting(at, c.g.len, end);
      if (c.cr >= kCrGoalLenSlow) measure_short(c, g, buddy, at, fitting);
      if (c.status != Scan::go_on) return;
      at = fitting;
    } else {
      at = buddy.next_free(at, end);
    }
    if (at >= end) break;
    const Buddy::Run run = buddy.find_run(at, c.g.len);
    measure(c, g, l, body, run);
    at += run.len;
  }
  check_limits(c, g, l, body, true);
}

/// All segments of [from, to) are shorter than wanted, and so is the best
/// candidate: what measuring them one after the other comes to.
void Impl::measure_short(Context& c, GroupNo g, const Buddy& buddy, std::uint32_t from, std::uint32_t to) {
  const bool all = to >= geo.clusters_per_group;
  const std::uint32_t count = all && from <= buddy.lo_hint() ? buddy.frags() : buddy.count_segments(from, to);
  if (count == 0) return;
  // The one that exceeds mb_max_to_scan is still measured, and ends the search.
  const std::uint32_t limit = tun.mb_max_to_scan >= c.found ? tun.mb_max_to_scan - c.found + 1 : 1;
  if (count >= limit) {
    c.found += limit;
    c.status = Scan::broke;
    to = buddy.after_segments(from, to, limit);
  } else {
    c.found += count;
    if (!all) return;  // a long enough one follows and replaces whatever was best
  }
  // No run is longer than twice its longest piece allows.
  if (c.best.len + 2 >= 4U << buddy.top()) return;
  const Buddy::Run run = buddy.longest_segment(from, to);
  if (run.len > c.best.len) c.best = {g, static_cast<std::int32_t>(run.start), run.len, 0};
}

void Impl::measure(Context& c, GroupNo g, GroupLock& l, GroupBody& body, Buddy::Run run) {
  ++c.found;
  const Position candidate{g, static_cast<std::int32_t>(run.start), run.len, 0};
  if ((c.flags & kHintFirst) || run.len == c.g.len) {
    c.best = candidate;
    take(c, l, body);
    return;
  }
  if (c.best.len == 0) {
    c.best = candidate;
    return;  // the first candidate never ends the search
  }
  if (c.best.len < c.g.len ? run.len > c.best.len : run.len > c.g.len && run.len < c.best.len) c.best = candidate;
  check_limits(c, g, l, body, false);
}

void Impl::check_limits(Context& c, GroupNo g, GroupLock& l, GroupBody& body, bool final) {
  if (c.status == Scan::found) return;
  if (c.found > tun.mb_max_to_scan && !(c.flags & kHintFirst)) {
    c.status = Scan::broke;
    return;
  }
  if (c.best.len < c.g.len) return;
  // A candidate that is long enough lies in the group at hand: it ended that group's search. Only one kept from a search
  // before a retry can be older than this hold of the lock; it may be gone.
  if ((!final && c.found <= tun.mb_min_to_scan) || c.best.group != g) return;
  if (body.buddy.range_free(static_cast<std::uint32_t>(c.best.start), std::min(c.best.len, c.g.len))) {
    take(c, l, body);
  } else {
    c.best = {};
  }
}

/// Takes the best candidate's first clusters in B. What is not longer than
/// asked is marked on disk under the same lock; the rest of a longer chunk
/// becomes a preallocation, of which this request uses its part.
void Impl::take(Context& c, GroupLock& l, GroupBody& body) {
  const std::uint32_t len = std::min(c.best.len, c.g.len);
  const GroupNo g = c.best.group;
  c.b = {g, c.best.start, len, c.g.lblk};
  c.f = c.b;
  const auto start = static_cast<std::uint32_t>(c.b.start);
  c.broken = body.buddy.mark_used(start, len);
  l.changed();
  groups.publish(g, body);
  c.status = Scan::found;
  if (c.flags & kStreamAlloc) {
    c.undo.stream_slot = static_cast<std::int32_t>(stream.slot(c.rq.ino));
    c.undo.stream_before = stream.at(stream.slot(c.rq.ino));
    stream.set(c.rq.ino, g, c.b.start);
  }
  if (c.o.len < len) make_pa(c, body);
  disk_take(g, body, static_cast<std::uint32_t>(c.b.start), c.b.len, c.cpu);
  c.disk_marked = true;
}

/// All passes are through: take the best candidate, if it is still there.
void Impl::take_best_late(Context& c) {
  const GroupNo g = c.best.group;
  GroupLock& l = groups.lock(g);
  groups.lock_group(l);
  if (!groups.has(g, GroupTable::kCorrupt)) {
    GroupBody& body = *groups.body(g);
    const Buddy::Run run = body.buddy.find_run(static_cast<std::uint32_t>(c.best.start), c.best.len);
    if (run.len > 0) {
      c.best.len = run.len;
      take(c, l, body);
    }
  }
  l.spin.unlock();
}

}  // namespace e4::alloc
