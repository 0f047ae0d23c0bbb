// SPDX-License-Identifier: GPL-2.0-only
#include "alloc/group_index.h"

namespace e4::alloc {

GroupIndex::GroupIndex(GroupNo groups, unsigned orders, Policy::OrderSets how) : orders_(orders), how_(how) {
  for (unsigned i = 0; i < 2 * orders; ++i) {
    if (how == Policy::OrderSets::ordered) {
      sets_.push_back(std::make_unique<GroupSet>(groups, &nonempty_[i / orders], 1U << (i % orders)));
    } else {
      lists_.push_back(std::make_unique<List>());
    }
  }
  if (how == Policy::OrderSets::list)
    for (auto& links : links_) links.resize(groups);
}

void GroupIndex::move_list(Kind kind, GroupNo g, int from, int to) {
  auto& links = links_[kind];
  if (from >= 0) {
    List& l = list(kind, static_cast<unsigned>(from));
    Held<SharedLock> held(l.lock);
    const Link at = links[g];
    (at.prev == kNoGroup ? l.head : links[at.prev].next) = at.next;
    (at.next == kNoGroup ? l.tail : links[at.next].prev) = at.prev;
  }
  if (to >= 0) {
    List& l = list(kind, static_cast<unsigned>(to));
    Held<SharedLock> held(l.lock);
    links[g] = {l.tail, kNoGroup};
    (l.tail == kNoGroup ? l.head : links[l.tail].next) = g;
    l.tail = g;
  }
}

bool GroupIndex::contains(Kind kind, unsigned order, GroupNo g) const {
  if (how_ == Policy::OrderSets::ordered) return set(kind, order).contains(g);
  return first_in_list(kind, order, [g](GroupNo other) { return other == g; }) != kNoGroup;
}

GroupNo GroupIndex::size(Kind kind, unsigned order) const {
  if (how_ == Policy::OrderSets::ordered) return set(kind, order).size();
  GroupNo n = 0;
  first_in_list(kind, order, [&n](GroupNo) { return ++n, false; });
  return n;
}

void GroupIndex::add_counts(LockCounts& to) {
  for (auto& s : sets_) s->lock().add_counts(to);
  for (auto& l : lists_) l->lock.add_counts(to);
}

std::uint64_t GroupIndex::memory_bytes() const {
  std::uint64_t n = 0;
  for (const auto& s : sets_) n += s->memory_bytes();
  for (const auto& l : links_) n += l.capacity() * sizeof(Link);
  return n;
}

}  // namespace e4::alloc
