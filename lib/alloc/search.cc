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

/// Every run of the group, measured piece by piece.
void Impl::search_runs(Context& c, GroupNo g, GroupLock& l, GroupBody& body) {
  const Buddy& buddy = body.buddy;
  const std::uint32_t end = geo.clusters_per_group;
  std::uint32_t left = buddy.free(), at = buddy.lo_hint();
  while (left > 0 && c.status == Scan::go_on) {
    at = buddy.next_free(at, end);
    E4_ASSERT(at < end);  // `left` counts the free clusters from here on
    if (c.cr < kCrGoalLenSlow) {
      // A cheap pass does not even measure what is too short.
      const std::uint32_t len = buddy.next_used(at, end) - at;
      if (len < c.g.len) {
        at += len;
        left -= len;
        continue;
      }
    }
    const Buddy::Run run = buddy.find_run(at, c.g.len);
    measure(c, g, l, body, run);
    at += run.len;
    left -= run.len;
  }
  check_limits(c, g, l, body, true);
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
  // A candidate that is long enough always lies in the group at hand: it ended that group's search.
  if ((final || c.found > tun.mb_min_to_scan) && c.best.group == g) take(c, l, body);
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
