// SPDX-License-Identifier: GPL-2.0-only
#include <algorithm>

#include "alloc/impl.h"

namespace e4::alloc {

using Impl = Allocator::Impl;

namespace {

Pa* find_pa(const GroupBody& body, std::uint64_t id) {
  for (Pa* pa = body.pas; pa != nullptr; pa = pa->group_next)
    if (pa->id == id) return pa;
  return nullptr;
}

}  // namespace

/// A preallocation object from outside a request: hung into its group and its inode or locality list.
Pa* Impl::adopt_pa(GroupNo g, const PaInfo& info, std::uint32_t free_clusters, const Request& rq) {
  const std::uint32_t cpu = rq.cpu % cpus_count;
  Pa* pa = pools[cpu].get(cpu);
  pa->kind = info.kind;
  pa->ino = rq.ino;
  pa->group = g;
  pa->pstart = info.pstart;
  pa->lstart = info.lstart;
  pa->len = info.len;
  pa->free = free_clusters;
  pa->refs = 0;
  pa->list_cpu = cpu;
  GroupLock& l = groups.lock(g);
  groups.lock_group(l);
  GroupBody& body = *groups.body(g);
  pa->group_next = body.pas;
  if (body.pas) body.pas->group_prev = pa;
  body.pas = pa;
  l.spin.unlock();
  if (pa->kind == PaKind::inode) {
    inode_pas.insert(pa);
  } else {
    LocalityGroup& lg = localities[cpu];
    Held<ContainerLock> held(lg.list_lock);
    lg.insert_sorted(pa, LocalityGroup::order_for(pa->free));
  }
  return pa;
}

/// Takes a preallocation out of every list and recycles it; its clusters stay as they are.
void Impl::forget_pa(Pa* pa) {
  GroupLock& l = groups.lock(pa->group);
  groups.lock_group(l);
  unlink_from_group(*groups.body(pa->group), pa);
  l.spin.unlock();
  unlink_from_object(pa);
  recycle(pa);
}

void Impl::undo(const Request& rq, const Outcome& out) {
  if (out.status != Status::ok || out.len == 0) return;
  const GroupNo g = place(out.block).group;
  const std::uint32_t at = place(out.block).cluster;
  GroupLock& l = groups.lock(g);
  groups.lock_group(l);
  GroupBody& body = *groups.body(g);
  if (bits::all_one(body.disk, at, out.len)) disk_give(g, body, at, out.len, cpu_slot(rq.cpu), true);
  Pa* pa = out.undo.pa_id ? find_pa(body, out.undo.pa_id) : nullptr;
  if (!out.from_prealloc) {
    // The whole chunk goes back, its preallocation with it.
    const auto start = static_cast<std::uint32_t>(out.result.start);
    if (body.buddy.range_used(start, out.result.len)) buddy_give(g, l, body, start, out.result.len);
  }
  l.spin.unlock();
  if (!out.from_prealloc) {
    if (pa) forget_pa(pa);
    if (out.undo.stream_slot >= 0) stream.put(static_cast<std::uint32_t>(out.undo.stream_slot), out.undo.stream_before);
    return;
  }
  const PaInfo& before = out.undo.pa_before;
  if (pa == nullptr) {
    // Used up and gone: it comes back with what this request had taken.
    adopt_pa(g, before, out.len, rq);
    return;
  }
  if (pa->kind == PaKind::inode) {
    pa->free += out.len;
    return;
  }
  LocalityGroup& lg = localities[pa->list_cpu];
  Held<ContainerLock> held(lg.list_lock);
  pa->pstart = before.pstart;
  pa->lstart = before.lstart;
  pa->len = before.len;
  pa->free += out.len;
  lg.unlink(pa);
  lg.insert_sorted(pa, LocalityGroup::order_for(pa->free));
}

/// Makes [start, start + len) free in B as far as D allows: preallocations
/// that overlap it are dropped whole, pending frees inside it are over.
void Impl::vacate(GroupNo g, std::uint32_t start, std::uint32_t len) {
  GroupLock& l = groups.lock(g);
  groups.lock_group(l);
  GroupBody& body = *groups.body(g);
  std::vector<Pa*> dropped;
  for (Pa* pa = body.pas; pa != nullptr;) {
    Pa* next = pa->group_next;
    const std::uint32_t at = place(pa->pstart).cluster;
    if (at < start + len && start < at + pa->len) {
      unlink_from_group(body, pa);
      unlink_from_object(pa);
      if (pa->kind == PaKind::inode) {
        release_inode_pa(g, l, body, pa, nullptr);
      } else {
        release_group_pa(g, l, body, pa, nullptr);
      }
      dropped.push_back(pa);
    }
    pa = next;
  }
  std::vector<Pending> kept;
  std::uint64_t over = 0;
  for (const Pending& p : body.pending) {
    const std::uint32_t lo = std::max(p.start, start), hi = std::min(p.start + p.len, start + len);
    if (lo >= hi) {
      kept.push_back(p);
      continue;
    }
    if (p.start < lo) kept.push_back({p.start, lo - p.start, p.tid});
    if (hi < p.start + p.len) kept.push_back({hi, p.start + p.len - hi, p.tid});
    over += hi - lo;
  }
  body.pending = std::move(kept);
  freed.committed(over);
  // What is used in B and free on disk now belongs to nobody.
  for (std::uint32_t i = start; i < start + len;) {
    const std::uint32_t hole = bits::next_zero(body.disk, i, start + len);
    const std::uint32_t hole_end = bits::next_one(body.disk, hole, start + len);
    for (std::uint32_t j = hole; j < hole_end;) {
      const std::uint32_t used = bits::next_one(body.buddy.bitmap(), j, hole_end);
      const std::uint32_t used_end = bits::next_zero(body.buddy.bitmap(), used, hole_end);
      if (used < used_end) buddy_give(g, l, body, used, used_end - used);
      j = std::max(used_end, used + (used == used_end));
    }
    i = std::max(hole_end, hole + 1);
  }
  l.spin.unlock();
  for (Pa* pa : dropped) recycle(pa);
}

Result<void> Impl::impose_from_pa(const Request& rq, const Imposed& choice, Pa* pa) {
  const Place at = place(choice.block);
  GroupLock& l = groups.lock(at.group);
  groups.lock_group(l);
  disk_take(at.group, *groups.body(at.group), at.cluster, choice.len, cpu_slot(rq.cpu));
  if (pa->kind == PaKind::group) {
    // Used from the front; what lies before was used by requests we did not see.
    const std::uint32_t front = place(pa->pstart).cluster;
    if (front < at.cluster) buddy_give(at.group, l, *groups.body(at.group), front, at.cluster - front);
    l.spin.unlock();
    LocalityGroup& lg = localities[pa->list_cpu];
    const std::uint32_t gone = at.cluster + choice.len - front;
    const Blk gone_blocks = Blk{gone} << geo.cluster_bits;
    Held<ContainerLock> held(lg.list_lock);
    pa->pstart += gone_blocks;
    pa->lstart += gone_blocks;
    pa->len -= gone;
    pa->free = pa->len;
    lg.unlink(pa);
    if (pa->free > 0) lg.insert_sorted(pa, LocalityGroup::order_for(pa->free));
  } else {
    l.spin.unlock();
    pa->free -= std::min(pa->free, choice.len);
  }
  if (pa->free == 0) forget_pa(pa);
  return {};
}

Result<void> Impl::impose(const Request& rq, const Imposed& choice) {
  if (choice.len == 0) return {};
  const std::uint64_t len_blocks = std::uint64_t{choice.len} << geo.cluster_bits;
  const auto bad = [&](const std::string& why) {
    return make_error(ErrorKind::corrupt, "recorded choice of " + std::to_string(choice.len) + " clusters: " + why)
        .at_block(choice.block)
        .at_inode(rq.ino);
  };
  if (!in_range(choice.block, 1) || (choice.block - geo.first_data_block) % geo.cluster_blocks() != 0 ||
      len_blocks > geo.blocks_per_group)
    return bad("outside the file system");
  const Place at = place(choice.block);
  const bool whole = choice.chunk_len == 0;
  const GroupNo g = at.group;
  const std::uint32_t start = whole ? at.cluster : choice.start;
  const std::uint32_t len = whole ? choice.len : choice.chunk_len;
  const std::uint32_t clusters = geo.clusters_in(g);
  if ((!whole && choice.group != g) || start > at.cluster || start >= clusters || len > clusters - start ||
      at.cluster - start >= len || choice.len > len - (at.cluster - start))
    return bad("block and chunk do not belong together");
  if (groups.has(g, GroupTable::kNeedInit)) {
    if (auto r = groups.load(g, nullptr); !r) return r;
  }
  if (!bits::all_zero(groups.body(g)->disk, at.cluster, choice.len)) return bad("already in use");

  // (A preallocation somebody freed blocks in does not hold them any more: then the chunk is taken afresh.)
  if (choice.from_prealloc && groups.body(g)->buddy.range_used(at.cluster, choice.len)) {
    for (Pa* pa = groups.body(g)->pas; pa != nullptr; pa = pa->group_next) {
      const std::uint32_t front = place(pa->pstart).cluster;
      if (front <= at.cluster && at.cluster + choice.len <= front + pa->len &&
          (pa->kind == PaKind::group || pa->ino == rq.ino))
        return impose_from_pa(rq, choice, pa);
    }
  }
  if (!bits::all_zero(groups.body(g)->disk, start, len)) return bad("chunk partly in use");
  vacate(g, start, len);
  GroupLock& l = groups.lock(g);
  groups.lock_group(l);
  GroupBody& body = *groups.body(g);
  buddy_take(g, l, body, start, len);
  disk_take(g, body, at.cluster, choice.len, cpu_slot(rq.cpu));
  l.spin.unlock();
  if (choice.stream) stream.set(rq.ino, g, static_cast<std::int32_t>(start));
  if (choice.new_pa.kind == PaKind::none || choice.len >= len) {
    // Chunk longer than the part used and no preallocation told: the rest is free.
    if (choice.len < len) vacate(g, start, len);
    return {};
  }
  PaInfo info = choice.new_pa;
  info.pstart = geo.block_of(g, start);
  info.len = len;
  std::uint32_t left = len - choice.len;
  if (info.kind == PaKind::group) {
    const std::uint32_t used = at.cluster + choice.len - start;
    info.pstart += Blk{used} << geo.cluster_bits;
    info.lstart = info.pstart;
    info.len = left = len - used;
    if (left == 0) return {};
  }
  adopt_pa(g, info, left, rq);
  return {};
}

Result<void> Allocator::hold(GroupNo group, std::uint32_t start, std::uint32_t len, Tid tid) {
  Impl& a = *impl_;
  if (group >= a.groups.count() || start >= a.geo.clusters_in(group) || len > a.geo.clusters_in(group) - start)
    return make_error(ErrorKind::corrupt, "hold of " + std::to_string(len) + " clusters at " + std::to_string(group) + "/" +
                                              std::to_string(start) + ": outside the file system");
  E4_TRY(load_group(group));
  GroupLock& l = a.groups.lock(group);
  a.groups.lock_group(l);
  GroupBody& body = *a.groups.body(group);
  const std::uint32_t end = start + len;
  for (std::uint32_t at = body.buddy.next_free(start, end); at < end; at = body.buddy.next_free(at, end)) {
    const std::uint32_t stop = body.buddy.next_used(at, end);
    a.buddy_take(group, l, body, at, stop - at);
    a.freed.add(group, body, at, stop - at, tid);
    at = stop;
  }
  l.spin.unlock();
  return {};
}

}  // namespace e4::alloc
