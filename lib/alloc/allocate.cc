// SPDX-License-Identifier: GPL-2.0-only
#include <algorithm>

#include "alloc/impl.h"

namespace e4::alloc {

using Impl = Allocator::Impl;

void Impl::initialize(Context& c, std::uint32_t len) const {
  const Blk goal = in_range(c.rq.goal, 1) ? c.rq.goal : geo.first_data_block;
  const Place p = place(goal);
  // These are the allocator's own to set.
  c.flags = c.rq.flags & ~static_cast<std::uint32_t>(kHintFirst | kHintGroupAlloc | kStreamAlloc | kStrictCheck);
  c.o.group = p.group;
  c.o.start = static_cast<std::int32_t>(p.cluster);
  c.o.len = std::min(len, geo.clusters_per_group);
  c.o.lblk = c.rq.lblk & ~(geo.cluster_blocks() - 1);
  c.g = c.o;
  c.b.lblk = c.o.lblk;
  c.orig_goal_len = c.g.len;
}

Status Impl::allocate(const Request& rq, Outcome& out, EventLog* log, ExplainSink* explain) {
  const std::uint32_t cpu_no = rq.cpu % cpus_count;
  CpuSlot& cpu = cpus[cpu_no];
  cpu.requests.add();
  out = Outcome{};
  std::uint32_t len = rq.len_clusters, claimed = 0;
  if (!(rq.flags & kDelallocReserved)) {
    claimed = len = claim(rq, len);
    if (explain)
      explain->step("claim: " + std::to_string(len) + " of " + std::to_string(rq.len_clusters) + " clusters, " +
                    std::to_string(free_sum()) + " free, " + std::to_string(dirty_sum()) + " promised");
  }
  out.claimed = len;
  if (len == 0) {
    cpu.claim_refused.add();
    return out.status = Status::claim_refused;
  }
  if (claimed > 0) dirty_counter.add(cpu.dirty_clusters, claimed);

  Context c{rq, log, explain, cpu, cpu_no};
  initialize(c, len);
  group_or_file(c);
  if (use_existing(c)) {
    c.from_prealloc = true;
    c.status = Context::Scan::found;
    cpu.prealloc_hits.add();
    if (explain) explain->step("served from an existing preallocation");
  } else {
    normalize_request(c);
    std::uint64_t changes_seen = 0;
    for (unsigned retries = 0;; ++retries) {
      regular(c);
      if (c.status == Context::Scan::found || !retry_after_discard(c, changes_seen, retries)) break;
      c.status = Context::Scan::go_on;
    }
  }

  if (c.status == Context::Scan::found) {
    const bool marked = c.disk_marked || mark_disk(c);
    release(c);
    out.status = marked ? Status::ok : Status::error;
    if (marked) {
      out.block = block_at(c.b);
      out.len = c.b.len;
      out.result = c.from_prealloc ? c.b : c.f;
      cpu.successes.add();
      cpu.allocated.add(c.b.len);
    }
  } else {
    out.status = c.load_failed ? Status::error : Status::no_space;
    cpu.no_space.add();
  }
  if (claimed > 0) dirty_counter.add(cpu.dirty_clusters, -static_cast<std::int64_t>(claimed));

  out.from_prealloc = c.from_prealloc;
  out.orig = c.o;
  out.goal = c.g;
  out.found = static_cast<std::uint16_t>(c.found);
  out.groups = c.groups;
  out.cr = static_cast<std::uint8_t>(c.cr);
  out.tail = static_cast<std::uint16_t>(c.broken.tail);
  out.broken = static_cast<std::uint16_t>(c.broken.broken);
  out.flags = c.flags;
  out.new_pa = c.new_pa;
  out.undo = c.undo;
  return out.status;
}

/// Nothing found: give up preallocations, group by group, and say whether another search makes sense.
bool Impl::retry_after_discard(Context& c, std::uint64_t& changes_seen, unsigned retries) {
  constexpr unsigned kKernelRetries = 2;
  // The kernel gives up after three searches. As long as others keep changing
  // groups under us, free clusters may have moved past the search, so we go on
  // a bounded while; alone, nothing changes and the decision is the kernel's.
  constexpr unsigned kMaxRetries = 64;
  if (c.explain && !c.explain->may_discard) return false;
  if (retries >= kKernelRetries) {
    const std::uint64_t now = groups.changes();
    if (now == changes_seen || retries >= kMaxRetries) return false;
    changes_seen = now;
    return true;
  }
  const std::uint64_t freed_now = discard_for(c.o.len, c.log);
  const std::uint64_t now = groups.changes();
  if (freed_now > 0) {
    changes_seen = now;
    return true;
  }
  if (!(c.flags & kStrictCheck) || now != changes_seen) {
    c.flags |= kStrictCheck;
    changes_seen = now;
    return true;
  }
  return false;
}

/// A piece of a preallocation becomes used on disk. False if it is already: the
/// caller asked twice for the same file block.
bool Impl::mark_disk(Context& c) {
  GroupLock& l = groups.lock(c.b.group);
  groups.lock_group(l);
  GroupBody& body = *groups.body(c.b.group);
  const auto start = static_cast<std::uint32_t>(c.b.start);
  // Free on disk and held in B, unless somebody freed blocks inside the preallocation without discarding it.
  const bool free = bits::all_zero(body.disk, start, c.b.len) && body.buddy.range_used(start, c.b.len);
  if (free) disk_take(c.b.group, body, start, c.b.len, c.cpu);
  l.spin.unlock();
  if (free) return true;
  remember_error(make_error(ErrorKind::corrupt, "file block " + std::to_string(c.o.lblk) + " does not fit its preallocation: allocated before, or freed without a discard")
                     .at_inode(c.rq.ino)
                     .at_block(block_at(c.b)));
  Held<PaLock> held(c.pa->lock);
  c.pa->free += c.pa->kind == PaKind::inode ? c.b.len : 0;
  c.b.len = 0;
  return false;
}

void Impl::release(Context& c) {
  if (!c.pa) return;
  if (c.pa->kind == PaKind::group) relist(c);
  drop_reference(c.pa);
}

}  // namespace e4::alloc
