// SPDX-License-Identifier: GPL-2.0-only
#include <algorithm>
#include <thread>

#include "alloc/impl.h"

namespace e4::alloc {

using Impl = Allocator::Impl;

/// Gives back what of an inode's preallocation is not used on disk: one piece per free run of D. ext4 never frees a
/// file's blocks while the file has preallocations; a trace with lost events may. Clusters freed inside the range come
/// back through their commit, or have come back already, and are left alone.
void Impl::release_inode_pa(GroupNo g, GroupLock& l, GroupBody& body, Pa* pa, EventLog* log) {
  const std::uint32_t begin = place(pa->pstart).cluster, end = begin + pa->len;
  std::uint64_t clusters = 0;
  const auto give = [&](std::uint32_t at, std::uint32_t stop) {
    if (at >= stop) return;
    if (log) {
      log->push_back({Event::Kind::mballoc_discard, g, at, stop - at});
      log->push_back({Event::Kind::release_inode_pa, g, at, (stop - at) << geo.cluster_bits, pa->ino, geo.block_of(g, at)});
    }
    body.buddy.mark_free(at, stop - at);
    l.changed();
    clusters += stop - at;
  };
  for (std::uint32_t at = bits::next_zero(body.disk, begin, end); at < end;) {
    const std::uint32_t stop = bits::next_one(body.disk, at, end);
    while ((at = body.buddy.next_used(at, stop)) < stop) {
      const std::uint32_t held = body.buddy.next_free(at, stop);
      for (const Pending& p : body.pending) {
        if (p.start >= held || p.start + p.len <= at) continue;
        give(at, std::min(p.start, held));
        at = std::min(held, p.start + p.len);
      }
      give(at, held);
      at = held;
    }
    at = bits::next_zero(body.disk, stop, end);
  }
  if (clusters > 0) groups.publish(g, body);
  cpus[0].preallocs_discarded.add();
  cpus[0].discarded.add(clusters);
}

/// A locality group's preallocation is used from the front, so its rest is one piece.
void Impl::release_group_pa(GroupNo g, GroupLock& l, GroupBody& body, Pa* pa, EventLog* log) {
  const std::uint32_t begin = place(pa->pstart).cluster;
  if (log) {
    log->push_back({Event::Kind::release_group_pa, g, begin, pa->len, 0, pa->pstart});
    log->push_back({Event::Kind::mballoc_discard, g, begin, pa->len});
  }
  if (pa->len > 0) buddy_give(g, l, body, begin, pa->len);
  cpus[0].preallocs_discarded.add();
  cpus[0].discarded.add(pa->len);
}

unsigned Impl::discard_inode(Ino ino, EventLog* log) {
  std::vector<Pa*> victims;
  unsigned live = 0;
  inode_pas.with(ino, [&](std::vector<Pa*>& pas) {
    for (Pa* pa : pas) {
      Held<PaLock> held(pa->lock);
      if (pa->deleted) continue;
      ++live;
      if (pa->refs > 0) continue;
      pa->deleted = true;
      victims.push_back(pa);
    }
  });
  if (log) log->push_back({Event::Kind::discard_preallocations, 0, 0, live, ino});
  for (Pa* pa : victims) inode_pas.erase(pa);
  // Taken out ascending, released descending, as the kernel does.
  for (auto it = victims.rbegin(); it != victims.rend(); ++it) {
    Pa* pa = *it;
    GroupLock& l = groups.lock(pa->group);
    groups.lock_group(l);
    GroupBody& body = *groups.body(pa->group);
    unlink_from_group(body, pa);
    release_inode_pa(pa->group, l, body, pa, log);
    l.spin.unlock();
    recycle(pa);
  }
  return live;
}

/// Drops the idle preallocations of a group; says how many clusters they had left.
std::uint64_t Impl::discard_group(GroupNo g, bool* busy, EventLog* log) {
  if (groups.body(g) == nullptr) return 0;
  GroupLock& l = groups.lock(g);
  groups.lock_group(l);
  GroupBody& body = *groups.body(g);
  std::vector<Pa*> victims;  // newest first
  std::uint64_t clusters = 0;
  for (Pa* pa = body.pas; pa != nullptr; pa = pa->group_next) {
    Held<PaLock> held(pa->lock);
    if (pa->deleted) continue;
    if (pa->refs > 0) {
      *busy = true;
      continue;
    }
    pa->deleted = true;
    clusters += pa->free;
    victims.push_back(pa);
  }
  for (auto it = victims.rbegin(); it != victims.rend(); ++it) {
    Pa* pa = *it;
    unlink_from_group(body, pa);
    unlink_from_object(pa);
    if (pa->kind == PaKind::inode) {
      release_inode_pa(g, l, body, pa, log);
    } else {
      release_group_pa(g, l, body, pa, log);
    }
  }
  l.spin.unlock();
  for (Pa* pa : victims) recycle(pa);
  return clusters;
}

/// No space: preallocations of group after group, until `needed` clusters came back.
std::uint64_t Impl::discard_for(std::uint64_t needed, EventLog* log) {
  constexpr int kRounds = 3;
  if (log) log->push_back({Event::Kind::mb_discard, 0, 0, static_cast<std::uint32_t>(needed)});
  std::uint64_t total = 0;
  for (int round = 0; round < kRounds; ++round) {
    bool busy = false;
    for (GroupNo g = 0; g < groups.count() && total < needed; ++g) total += discard_group(g, &busy, log);
    if (total >= needed || !busy) break;
    std::this_thread::yield();
  }
  return total;
}

}  // namespace e4::alloc
