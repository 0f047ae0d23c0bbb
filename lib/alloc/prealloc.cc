// SPDX-License-Identifier: GPL-2.0-only
#include "alloc/prealloc.h"

#include <algorithm>

#include "base/assert.h"

namespace e4::alloc {

Pa* PaPool::get(std::uint32_t pool_number) {
  Held<ContainerLock> held(lock_);
  if (free_ == nullptr) {
    constexpr std::size_t kChunk = 64;
    chunks_.push_back(std::make_unique<Pa[]>(kChunk));
    for (std::size_t i = 0; i < kChunk; ++i) {
      Pa* pa = &chunks_.back()[i];
      pa->group_next = free_;
      free_ = pa;
    }
  }
  Pa* pa = free_;
  free_ = pa->group_next;
  pa->id = (next_id_++ << 16) | pool_number;
  pa->pool = pool_number;
  pa->deleted = false;
  pa->refs = 1;
  pa->group_prev = pa->group_next = pa->list_prev = pa->list_next = nullptr;
  pa->list_order = -1;
  pa->linked = false;
  return pa;
}

void PaPool::put(Pa* pa) {
  Held<ContainerLock> held(lock_);
  pa->group_next = free_;
  free_ = pa;
}

void InodePas::Shard::grow() {
  if (inodes < table.size()) return;
  std::vector<Entry*> bigger(std::max<std::size_t>(8, table.size() * 2));
  for (Entry* e : table) {
    while (e != nullptr) {
      Entry* next = e->next;
      Entry*& slot = bigger[hash(e->ino) & (bigger.size() - 1)];
      e->next = slot;
      slot = e;
      e = next;
    }
  }
  table = std::move(bigger);
}

void InodePas::insert(Pa* pa) {
  Shard& s = shard(pa->ino);
  Held<ContainerLock> held(s.lock);
  Entry* e = s.find(pa->ino);
  if (e == nullptr) {
    s.grow();
    if (s.spare == nullptr) {
      s.owned.push_back(std::make_unique<Entry>());
      s.spare = s.owned.back().get();
    }
    e = s.spare;
    s.spare = e->next;
    e->ino = pa->ino;
    Entry*& slot = s.table[Shard::hash(pa->ino) & (s.table.size() - 1)];
    e->next = slot;
    slot = e;
    ++s.inodes;
  }
  const auto at = std::upper_bound(e->pas.begin(), e->pas.end(), pa->lstart,
                                   [](std::uint64_t l, const Pa* p) { return l < p->lstart; });
  e->pas.insert(at, pa);
  pa->linked = true;
  s.pas.fetch_add(1, std::memory_order_release);
}

void InodePas::erase(Pa* pa) {
  Shard& s = shard(pa->ino);
  Held<ContainerLock> held(s.lock);
  if (!pa->linked) return;
  Entry* e = s.find(pa->ino);
  E4_ASSERT(e != nullptr);
  const auto at = std::find(e->pas.begin(), e->pas.end(), pa);
  E4_ASSERT(at != e->pas.end());
  e->pas.erase(at);
  pa->linked = false;
  s.pas.fetch_sub(1, std::memory_order_release);
  if (!e->pas.empty()) return;
  Entry** link = &s.table[Shard::hash(pa->ino) & (s.table.size() - 1)];
  while (*link != e) link = &(*link)->next;
  *link = e->next;
  e->next = s.spare;
  s.spare = e;
  --s.inodes;
}

void InodePas::add_counts(LockCounts& to) const {
  for (unsigned i = 0; i < kShards; ++i) shards_[i].lock.add_counts(to);
}

void LocalityGroup::unlink(Pa* pa) {
  if (pa->list_order < 0) return;
  List& l = lists[static_cast<unsigned>(pa->list_order)];
  (pa->list_prev ? pa->list_prev->list_next : l.head) = pa->list_next;
  (pa->list_next ? pa->list_next->list_prev : l.tail) = pa->list_prev;
  pa->list_prev = pa->list_next = nullptr;
  pa->list_order = -1;
  pa->linked = false;
  --l.size;
}

void LocalityGroup::insert_sorted(Pa* pa, unsigned order) {
  List& l = lists[order];
  Pa* before = l.head;
  for (; before != nullptr; before = before->list_next) {
    Held<PaLock> held(before->lock);
    if (!before->deleted && before->free > pa->free) break;
  }
  pa->list_next = before;
  pa->list_prev = before ? before->list_prev : l.tail;
  (pa->list_prev ? pa->list_prev->list_next : l.head) = pa;
  (before ? before->list_prev : l.tail) = pa;
  pa->list_order = static_cast<std::int32_t>(order);
  pa->linked = true;
  ++l.size;
}

}  // namespace e4::alloc
