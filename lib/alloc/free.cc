// SPDX-License-Identifier: GPL-2.0-only
#include <algorithm>

#include "alloc/impl.h"
#include "base/assert.h"

namespace e4::alloc {

using Impl = Allocator::Impl;

void Impl::disk_take(GroupNo g, GroupBody& body, std::uint32_t start, std::uint32_t len, CpuSlot& cpu) {
  E4_VERIFY(bits::all_zero(body.disk, start, len));
  bits::set_range(body.disk, start, len);
  if (groups.has(g, GroupTable::kBlockUninit)) groups.clear_uninit(g);
  auto& count = groups.view(g).descriptor_free;
  count.store(count.load(std::memory_order_relaxed) - len, std::memory_order_relaxed);
  body.block_map_changed = true;
  free_counter.add(cpu.free_clusters, -static_cast<std::int64_t>(len));
}

void Impl::disk_give(GroupNo g, GroupBody& body, std::uint32_t start, std::uint32_t len, CpuSlot& cpu, bool count_free) {
  bits::clear_range(body.disk, start, len);
  if (groups.has(g, GroupTable::kBlockUninit)) groups.clear_uninit(g);
  auto& count = groups.view(g).descriptor_free;
  count.store(count.load(std::memory_order_relaxed) + len, std::memory_order_relaxed);
  body.block_map_changed = true;
  if (count_free) free_counter.add(cpu.free_clusters, static_cast<std::int64_t>(len));
}

void Impl::buddy_take(GroupNo g, GroupLock& l, GroupBody& body, std::uint32_t start, std::uint32_t len) {
  body.buddy.mark_used(start, len);
  l.changed();
  groups.publish(g, body);
}

void Impl::buddy_give(GroupNo g, GroupLock& l, GroupBody& body, std::uint32_t start, std::uint32_t len) {
  body.buddy.mark_free(start, len);
  l.changed();
  groups.publish(g, body);
}

Result<void> Impl::free_clusters(GroupNo g, std::uint32_t start, std::uint32_t len, const FreeRequest& how,
                                 EventLog* log) {
  if (g >= groups.count() || len == 0 || start >= geo.clusters_in(g) || len > geo.clusters_in(g) - start)
    return make_error(ErrorKind::corrupt, "free of " + std::to_string(len) + " clusters at " + std::to_string(g) + "/" +
                                              std::to_string(start) + ": outside the file system");
  if (log) log->push_back({Event::Kind::mballoc_free, g, start, len, how.ino});
  if (groups.has(g, GroupTable::kNeedInit)) {
    if (auto r = groups.load(g, log); !r) return r;
  }
  bool at_commit = how.when == FreeRequest::When::at_commit;
  if (how.when == FreeRequest::When::by_rule)
    at_commit = mount.has_journal && ((how.flags & kFreeMetadata) || mount.data_mode != DataMode::writeback);

  CpuSlot& cpu = cpu_slot(how.cpu);
  GroupLock& l = groups.lock(g);
  groups.lock_group(l);
  GroupBody& body = *groups.body(g);
  if (!bits::all_one(body.disk, start, len)) {
    l.spin.unlock();
    return make_error(ErrorKind::corrupt, "free of " + std::to_string(len) + " clusters at " + std::to_string(g) + "/" +
                                              std::to_string(start) + ": some are free already");
  }
  E4_VERIFY(body.buddy.range_used(start, len));
  disk_give(g, body, start, len, cpu, !(how.flags & kFreeRereserve));
  if (at_commit) {
    freed.add(g, body, start, len, how.tid);
  } else {
    groups.clear(g, GroupTable::kTrimmed);
    buddy_give(g, l, body, start, len);
  }
  l.spin.unlock();
  cpu.freed.add(len);
  return {};
}

void Impl::commit(Tid tid, EventLog* log) {
  for (const GroupNo g : freed.take(tid)) {
    GroupLock& l = groups.lock(g);
    groups.lock_group(l);
    GroupBody& body = *groups.body(g);
    std::uint64_t clusters = 0;
    std::size_t kept = 0;
    for (const Pending& p : body.pending) {
      if (p.tid != tid) {
        body.pending[kept++] = p;
        continue;
      }
      body.buddy.mark_free(p.start, p.len);
      l.changed();
      clusters += p.len;
      if (log) log->push_back({Event::Kind::returned, g, p.start, p.len});
    }
    body.pending.resize(kept);
    std::erase(body.pending_tids, tid);
    groups.clear(g, GroupTable::kTrimmed);
    groups.publish(g, body);
    l.spin.unlock();
    freed.committed(clusters);
  }
}

}  // namespace e4::alloc
