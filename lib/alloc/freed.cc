// SPDX-License-Identifier: GPL-2.0-only
#include "alloc/freed.h"

#include <algorithm>

namespace e4::alloc {

/// Inserts the extent into the group's sorted list, joined with touching ones of the same transaction.
/// Says whether the group has to be listed for the transaction.
bool FreedLists::merge(GroupBody& body, std::uint32_t start, std::uint32_t len, Tid tid) {
  auto& list = body.pending;
  auto at = std::upper_bound(list.begin(), list.end(), start,
                             [](std::uint32_t s, const Pending& p) { return s < p.start; });
  const bool joins_left = at != list.begin() && std::prev(at)->tid == tid && std::prev(at)->start + std::prev(at)->len == start;
  const bool joins_right = at != list.end() && at->tid == tid && start + len == at->start;
  if (joins_left && joins_right) {
    std::prev(at)->len += len + at->len;
    list.erase(at);
  } else if (joins_left) {
    std::prev(at)->len += len;
  } else if (joins_right) {
    at->start = start;
    at->len += len;
  } else {
    list.insert(at, {start, len, tid});
  }
  if (std::find(body.pending_tids.begin(), body.pending_tids.end(), tid) != body.pending_tids.end()) return false;
  body.pending_tids.push_back(tid);
  return true;
}

void FreedLists::link(GroupNo group, Tid tid) {
  // Two transactions are open at most in a kernel; a search from the newest finds it at once.
  for (auto it = open_.rbegin(); it != open_.rend(); ++it) {
    if (it->tid == tid) {
      it->groups.push_back(group);
      return;
    }
  }
  open_.push_back({tid, {group}});
}

void FreedLists::add(GroupNo group, GroupBody& body, std::uint32_t start, std::uint32_t len, Tid tid) {
  if (how_ == Policy::FreedExtents::merge_locked) {
    Held<ContainerLock> held(lock_);
    pending_.fetch_add(len, std::memory_order_relaxed);
    if (merge(body, start, len, tid)) link(group, tid);
    return;
  }
  pending_.fetch_add(len, std::memory_order_relaxed);
  if (merge(body, start, len, tid)) {
    Held<ContainerLock> held(lock_);
    link(group, tid);
  }
}

std::vector<GroupNo> FreedLists::take(Tid tid) {
  Held<ContainerLock> held(lock_);
  for (auto it = open_.begin(); it != open_.end(); ++it) {
    if (it->tid != tid) continue;
    std::vector<GroupNo> groups = std::move(it->groups);
    open_.erase(it);
    return groups;
  }
  return {};
}

std::vector<Tid> FreedLists::open() const {
  Held<ContainerLock> held(lock_);
  std::vector<Tid> tids;
  for (const Open& o : open_) tids.push_back(o.tid);
  return tids;
}

}  // namespace e4::alloc
