// SPDX-License-Identifier: GPL-2.0-only
#include <algorithm>

#include "alloc/impl.h"
#include "alloc/normalize.h"
#include "base/assert.h"

namespace e4::alloc {

using Impl = Allocator::Impl;

/// Small files share their CPU's preallocations; large ones follow the
/// remembered group, or take exactly what they need when this is their last write.
void Impl::group_or_file(Context& c) {
  if (!(c.flags & kHintData) || (c.flags & kHintGoalOnly)) return;
  const std::uint64_t end = std::uint64_t{c.o.lblk} + (std::uint64_t{c.o.len} << geo.cluster_bits);
  const std::uint64_t isize = c.rq.i_size / geo.block_bytes + (c.rq.i_size % geo.block_bytes != 0);
  const bool busy = c.rq.busy.value_or(groups.busy());
  const bool keeps_growing = !(end == isize && !busy && !c.rq.open_for_write);
  if (std::max(end, isize) > tun.mb_stream_req || tun.mb_group_prealloc == 0) {
    c.flags |= keeps_growing ? kStreamAlloc : kHintNoPrealloc;
    if (c.explain)
      c.explain->step("large file (" + std::to_string(std::max(end, isize)) + " blocks > mb_stream_req " +
                      std::to_string(tun.mb_stream_req) + "): " +
                      (keeps_growing ? "stream goal" : "closed and written to its end: exact length"));
    return;
  }
  c.flags |= kHintGroupAlloc;
  c.lg.take(localities[c.cpu_no]);
  if (c.explain) c.explain->step("small file: locality group of CPU " + std::to_string(c.cpu_no));
}

void Impl::use_inode_pa(Context& c, Pa* pa) {
  const Blk start = pa->pstart + (c.o.lblk - pa->lstart);
  const Blk end = std::min(pa->pstart + (Blk{pa->len} << geo.cluster_bits), start + (Blk{c.o.len} << geo.cluster_bits));
  const auto len = static_cast<std::uint32_t>(geo.ceil_clusters(end - start));
  const Place p = place(start);
  c.b.group = p.group;
  c.b.start = static_cast<std::int32_t>(p.cluster);
  // A preallocation of a consistent file has that many left; never use more than it has.
  c.b.len = std::min(len, pa->free);
  pa->free -= c.b.len;
  c.pa = pa;
  c.undo.pa_id = pa->id;
}

void Impl::use_group_pa(Context& c, Pa* pa) {
  const Place p = place(pa->pstart);
  c.b.group = p.group;
  c.b.start = static_cast<std::int32_t>(p.cluster);
  c.b.len = c.o.len;
  c.pa = pa;
  c.undo.pa_id = pa->id;
}

bool Impl::use_existing(Context& c) {
  if (!(c.flags & kHintData)) return false;
  inode_pas.with(c.rq.ino, [&](std::vector<Pa*>& pas) {
    auto it = std::upper_bound(pas.begin(), pas.end(), std::uint64_t{c.o.lblk},
                               [](std::uint64_t l, const Pa* p) { return l < p->lstart; });
    while (it != pas.begin()) {
      Pa* pa = *--it;
      Held<PaLock> held(pa->lock);
      if (pa->deleted) continue;
      // Only the nearest live one can hold the block: they do not overlap.
      if (c.o.lblk >= pa->lstart + (std::uint64_t{pa->len} << geo.cluster_bits) || pa->free == 0) return;
      if (!c.rq.extent_mapped && pa->pstart + (Blk{pa->len} << geo.cluster_bits) > 0xFFFFFFFFULL) return;
      ++pa->refs;
      c.undo.pa_before = {pa->kind, pa->pstart, pa->len, pa->lstart};
      use_inode_pa(c, pa);
      return;
    }
  });
  if (c.pa) return true;
  if (!c.lg) return false;

  const Blk goal = block_at(c.g);
  const auto distance = [goal](Blk b) { return b > goal ? b - goal : goal - b; };
  Held<ContainerLock> list_held(c.lg->list_lock);
  for (;;) {
    Pa* nearest = nullptr;
    for (unsigned i = std::min(bits::width(c.o.len) - 1, LocalityGroup::kOrders - 1); i < LocalityGroup::kOrders; ++i) {
      for (Pa* pa = c.lg->lists[i].head; pa != nullptr; pa = pa->list_next) {
        Held<PaLock> held(pa->lock);
        if (pa->deleted || pa->free < c.o.len) continue;
        if (nearest == nullptr || distance(pa->pstart) < distance(nearest->pstart)) nearest = pa;
      }
    }
    if (nearest == nullptr) return false;
    Held<PaLock> held(nearest->lock);
    if (nearest->deleted) continue;  // dropped since we looked
    ++nearest->refs;
    c.undo.pa_before = {nearest->kind, nearest->pstart, nearest->len, nearest->lstart};
    use_group_pa(c, nearest);
    return true;
  }
}

void Impl::normalize_request(Context& c) {
  if (!(c.flags & kHintData) || (c.flags & (kHintGoalOnly | kHintNoPrealloc))) return;
  if (c.flags & kHintGroupAlloc) {
    c.g.len = tun.mb_group_prealloc;
    if (c.explain) c.explain->step("normalized to mb_group_prealloc: " + std::to_string(c.g.len) + " clusters");
    return;
  }
  NormalizeInput in{c.o.lblk, c.o.len, c.rq.i_size, c.rq.lleft, c.rq.lright, c.rq.pleft, c.rq.pright, {}, {}};
  inode_pas.with(c.rq.ino, [&](std::vector<Pa*>& pas) {
    for (Pa* pa : pas) {
      Held<PaLock> held(pa->lock);
      if (pa->deleted) continue;
      const std::uint64_t end = pa->lstart + (std::uint64_t{pa->len} << geo.cluster_bits);
      if (pa->lstart > c.o.lblk) {
        in.right_pa_start = pa->lstart;
        break;
      }
      in.left_pa_end = end;
    }
  });
  const Normalized n = normalize(geo, in);
  c.g.lblk = static_cast<Lblk>(n.start);
  c.g.len = static_cast<std::uint32_t>(std::min<std::uint64_t>(geo.ceil_clusters(n.size_blocks), geo.clusters_per_group));
  c.orig_goal_len = c.g.len;
  if (n.goal) {
    const Place p = place(*n.goal);
    c.g.group = p.group;
    c.g.start = static_cast<std::int32_t>(p.cluster);
    c.flags |= kHintTryGoal;
  }
  if (c.explain)
    c.explain->step("normalized to " + std::to_string(c.g.len) + " clusters from file block " + std::to_string(n.start) +
                    (n.goal ? ", goal by a neighbour: block " + std::to_string(*n.goal) : ""));
}

/// The chunk taken is longer than asked: the rest becomes a preallocation.
/// Group lock held; c.b is the chunk on entry, the part used on return.
void Impl::make_pa(Context& c, GroupBody& body) {
  const bool for_group = c.flags & kHintGroupAlloc;
  Pa* pa = pools[c.cpu_no].get(c.cpu_no);
  pa->kind = for_group ? PaKind::group : PaKind::inode;
  pa->ino = c.rq.ino;
  pa->group = c.b.group;
  pa->pstart = block_at(c.b);
  pa->len = pa->free = c.b.len;
  pa->list_cpu = c.cpu_no;
  if (for_group) {
    pa->lstart = pa->pstart;
  } else {
    pa->lstart = c.g.lblk;
    if (c.b.len < c.orig_goal_len) {
      // Shorter than planned: at the window's end if the request lies there, else at its start, else at the request.
      const std::uint64_t n = std::uint64_t{c.b.len} << geo.cluster_bits;
      const std::uint64_t wanted = std::uint64_t{c.o.len} << geo.cluster_bits;
      const std::uint64_t at_end = c.g.lblk + (std::uint64_t{c.orig_goal_len} << geo.cluster_bits) - n;
      if (c.o.lblk >= at_end) {
        pa->lstart = at_end;
      } else if (c.o.lblk + wanted <= c.g.lblk + n) {
        pa->lstart = c.g.lblk;
      } else {
        pa->lstart = c.o.lblk;
      }
    }
  }
  c.new_pa = {pa->kind, pa->pstart, pa->len, pa->lstart};
  if (c.log)
    c.log->push_back({for_group ? Event::Kind::new_group_pa : Event::Kind::new_inode_pa, c.b.group, 0, pa->len, pa->ino,
                      pa->pstart, pa->lstart});
  c.cpu.preallocs_made.add();
  c.cpu.preallocated.add(pa->len);

  pa->group_next = body.pas;
  if (body.pas) body.pas->group_prev = pa;
  body.pas = pa;
  if (for_group) {
    use_group_pa(c, pa);
  } else {
    use_inode_pa(c, pa);
    inode_pas.insert(pa);
  }
}

/// A group preallocation was used from its front: shrink it and hang it where its rest belongs.
void Impl::relist(Context& c) {
  Pa* pa = c.pa;
  unsigned order = 0;
  bool too_many = false;
  {
    Held<PaLock> held(pa->lock);
    const Blk used = Blk{c.b.len} << geo.cluster_bits;
    pa->pstart += used;
    pa->lstart += used;
    pa->len -= c.b.len;
    pa->free -= c.b.len;
    if (pa->free == 0) return;
    order = LocalityGroup::order_for(pa->free);
  }
  // The list it is in belongs to this CPU: only its own requests use it, under the mutex held here.
  {
    Held<ContainerLock> held(c.lg->list_lock);
    LocalityGroup::List& target = c.lg->lists[order];
    if (pa->list_order == static_cast<std::int32_t>(order) && target.head == pa && target.tail == pa) return;
    c.lg->unlink(pa);
    c.lg->insert_sorted(pa, order);
    too_many = target.size > LocalityGroup::kTrimAbove;
  }
  if (too_many) trim_list(c.cpu_no, order, c.log);
}

void Impl::trim_list(std::uint32_t cpu, unsigned order, EventLog* log) {
  LocalityGroup& lg = localities[cpu];
  std::vector<Pa*> victims;
  {
    Held<ContainerLock> held(lg.list_lock);
    std::uint32_t live = 0;
    for (Pa* pa = lg.lists[order].head; pa != nullptr; pa = pa->list_next) {
      Held<PaLock> pa_held(pa->lock);
      live += !pa->deleted;
    }
    if (live <= LocalityGroup::kTrimAbove) return;
    for (Pa *pa = lg.lists[order].head, *next = nullptr; pa != nullptr; pa = next) {
      next = pa->list_next;
      {
        Held<PaLock> pa_held(pa->lock);
        if (pa->refs > 0 || pa->deleted) continue;
        pa->deleted = true;
      }
      lg.unlink(pa);
      victims.push_back(pa);
      if (--live <= LocalityGroup::kTrimTo) break;
    }
  }
  for (auto it = victims.rbegin(); it != victims.rend(); ++it) {
    Pa* pa = *it;
    GroupLock& l = groups.lock(pa->group);
    groups.lock_group(l);
    GroupBody& body = *groups.body(pa->group);
    unlink_from_group(body, pa);
    release_group_pa(pa->group, l, body, pa, log);
    l.spin.unlock();
    recycle(pa);
  }
}

/// Ends a request's use; a used-up preallocation goes away.
void Impl::drop_reference(Pa* pa) {
  {
    Held<PaLock> held(pa->lock);
    --pa->refs;
    if (pa->refs > 0 || pa->free > 0 || pa->deleted) return;
    pa->deleted = true;
  }
  GroupLock& l = groups.lock(pa->group);
  groups.lock_group(l);
  unlink_from_group(*groups.body(pa->group), pa);
  l.spin.unlock();
  unlink_from_object(pa);
  recycle(pa);
}

void Impl::unlink_from_group(GroupBody& body, Pa* pa) {
  (pa->group_prev ? pa->group_prev->group_next : body.pas) = pa->group_next;
  if (pa->group_next) pa->group_next->group_prev = pa->group_prev;
  pa->group_prev = pa->group_next = nullptr;
}

void Impl::unlink_from_object(Pa* pa) {
  if (pa->kind == PaKind::inode) {
    inode_pas.erase(pa);
  } else {
    LocalityGroup& lg = localities[pa->list_cpu];
    Held<ContainerLock> held(lg.list_lock);
    lg.unlink(pa);
  }
}

}  // namespace e4::alloc
