// SPDX-License-Identifier: GPL-2.0-only
#include <algorithm>
#include <unordered_map>

#include "alloc/impl.h"

namespace e4::alloc {

namespace {

Error wrong(GroupNo g, const std::string& what) {
  return make_error(ErrorKind::corrupt, "verify: group " + std::to_string(g) + ": " + what);
}
std::string pair(std::uint64_t a, std::uint64_t b) { return std::to_string(a) + " and " + std::to_string(b); }

struct Found {
  std::int64_t free_on_disk = 0;
  std::uint64_t pending = 0;
  std::unordered_map<const Pa*, GroupNo> pas;
};

/// B is D plus preallocations plus pending frees, each cluster of them once.
Result<void> check_bitmaps(const GroupTable& groups, GroupNo g, const GroupBody& body, Found& found) {
  const Geometry& geo = groups.geometry();
  const BuddyShape& shape = groups.shape();
  std::vector<bits::Word> sum(body.disk, body.disk + shape.bitmap_words);
  const auto own = [&](std::uint32_t start, std::uint32_t len, const char* who) -> Result<void> {
    if (start > shape.bits || len > shape.bits - start) return wrong(g, std::string(who) + " beyond the group");
    if (!bits::all_zero(sum.data(), start, len))
      return wrong(g, std::string(who) + " at cluster " + std::to_string(start) + " owned twice");
    bits::set_range(sum.data(), start, len);
    return {};
  };
  for (const Pa* pa = body.pas; pa != nullptr; pa = pa->group_next) {
    if (pa->deleted || pa->refs != 0) return wrong(g, "a deleted or used preallocation is still listed");
    if (pa->group != g || !found.pas.emplace(pa, g).second) return wrong(g, "preallocation listed twice");
    const Blk rel = pa->pstart - geo.first_block(g);
    const auto start = static_cast<std::uint32_t>(rel >> geo.cluster_bits);
    if (pa->kind == PaKind::group) {
      if (pa->free != pa->len) return wrong(g, "group preallocation: free and length differ");
      E4_TRY(own(start, pa->len, "group preallocation"));
      continue;
    }
    // Its used part is on disk, the rest is not.
    std::uint32_t unused = 0;
    for (std::uint32_t at = bits::next_zero(body.disk, start, start + pa->len); at < start + pa->len;) {
      const std::uint32_t stop = bits::next_one(body.disk, at, start + pa->len);
      E4_TRY(own(at, stop - at, "inode preallocation"));
      unused += stop - at;
      at = bits::next_zero(body.disk, stop, start + pa->len);
    }
    if (unused != pa->free) return wrong(g, "inode preallocation of inode " + std::to_string(pa->ino) + ": free " + pair(pa->free, unused));
  }
  std::uint32_t last = 0;
  for (const Pending& p : body.pending) {
    if (p.start < last) return wrong(g, "pending frees out of order");
    last = p.start + p.len;
    found.pending += p.len;
    E4_TRY(own(p.start, p.len, "pending free"));
  }
  for (std::uint32_t w = 0; w < shape.bitmap_words; ++w)
    if (sum[w] != body.buddy.bitmap()[w])
      return wrong(g, "in-core bitmap is not disk + preallocations + pending, first at cluster " +
                          std::to_string(w * 64 + static_cast<unsigned>(std::countr_zero(sum[w] ^ body.buddy.bitmap()[w]))));
  return {};
}

Result<void> check_buddy(const GroupTable& groups, GroupNo g, const GroupBody& body) {
  const BuddyShape& shape = groups.shape();
  GroupBody again(shape);
  std::copy_n(body.buddy.bitmap(), shape.bitmap_words, again.buddy.bitmap());
  again.buddy.build(groups.geometry().clusters_in(g));
  if (!body.buddy.same_split(again.buddy)) return wrong(g, "buddy is not the canonical split of its bitmap");
  if (body.buddy.lo_hint() > again.buddy.lo_hint()) return wrong(g, "hint lies behind the first free cluster");
  const GroupView& v = groups.view(g);
  if (v.free != body.buddy.free() || v.frags != body.buddy.frags() || v.top != body.buddy.top())
    return wrong(g, "published counters differ from the buddy");
  if (groups.optimized() && v.avg != groups.average_order(v.free, v.frags)) return wrong(g, "average order");
  const std::uint32_t disk_free = bits::count_zero(body.disk, 0, groups.geometry().clusters_in(g));
  if (!groups.has(g, GroupTable::kBlockUninit) && v.descriptor_free != disk_free)
    return wrong(g, "descriptor count and bitmap: " + pair(v.descriptor_free, disk_free));
  return {};
}

Result<void> check_sets(const GroupTable& groups) {
  if (!groups.optimized()) return {};
  const unsigned orders = groups.geometry().orders();
  std::vector<GroupNo> expect[2] = {std::vector<GroupNo>(orders), std::vector<GroupNo>(orders)};
  for (GroupNo g = 0; g < groups.count(); ++g) {
    const int at[2] = {groups.view(g).top, groups.view(g).avg};
    for (unsigned kind = 0; kind < 2; ++kind) {
      if (at[kind] < 0) continue;
      ++expect[kind][static_cast<unsigned>(at[kind])];
      if (groups.index().how() == Policy::OrderSets::ordered &&
          !groups.index().contains(static_cast<GroupIndex::Kind>(kind), static_cast<unsigned>(at[kind]), g))
        return wrong(g, "missing in its order set");
    }
  }
  for (unsigned kind = 0; kind < 2; ++kind)
    for (unsigned o = 0; o < orders; ++o)
      if (const GroupNo n = groups.index().size(static_cast<GroupIndex::Kind>(kind), o); n != expect[kind][o])
        return wrong(0, "order set " + std::to_string(o) + " has " + pair(n, expect[kind][o]) + " groups");
  return {};
}

}  // namespace

Result<void> Allocator::verify() const {
  Impl& a = *impl_;
  Found found;
  for (GroupNo g = 0; g < a.groups.count(); ++g) {
    const GroupBody* body = a.groups.body(g);
    if (body == nullptr) {
      const GroupView& v = a.groups.view(g);
      if (v.top != -1 || v.avg != -1) return wrong(g, "in a set without being loaded");
      found.free_on_disk += v.free;
      continue;
    }
    E4_TRY(check_bitmaps(a.groups, g, *body, found));
    E4_TRY(check_buddy(a.groups, g, *body));
    found.free_on_disk += a.groups.view(g).descriptor_free;
  }
  E4_TRY(check_sets(a.groups));
  if (found.pending != a.freed.pending()) return wrong(0, "pending clusters: " + pair(found.pending, a.freed.pending()));

  std::size_t listed = 0;
  Result<void> trouble;
  a.inode_pas.for_each([&](Ino ino, std::vector<Pa*>& pas) {
    std::uint64_t end = 0;
    for (const Pa* pa : pas) {
      ++listed;
      if (!found.pas.contains(pa)) trouble = wrong(pa->group, "preallocation of inode " + std::to_string(ino) + " is not in its group's list");
      if (pa->ino != ino || pa->lstart < end) trouble = wrong(pa->group, "preallocations of inode " + std::to_string(ino) + " overlap");
      end = pa->lstart + (std::uint64_t{pa->len} << a.geo.cluster_bits);
    }
  });
  for (std::uint32_t cpu = 0; cpu < a.cpus_count; ++cpu) {
    LocalityGroup& lg = a.localities[cpu];
    Held<ContainerLock> held(lg.list_lock);
    for (unsigned o = 0; o < LocalityGroup::kOrders; ++o) {
      std::uint32_t size = 0, last_free = 0;
      for (const Pa* pa = lg.lists[o].head; pa != nullptr; pa = pa->list_next) {
        ++listed;
        ++size;
        if (!found.pas.contains(pa)) trouble = wrong(pa->group, "locality list holds a preallocation its group does not know");
        if (LocalityGroup::order_for(pa->free) != o || pa->free < last_free) trouble = wrong(pa->group, "locality list out of order");
        last_free = pa->free;
      }
      if (size != lg.lists[o].size) trouble = wrong(0, "locality list size");
    }
  }
  if (!trouble) return trouble;
  if (listed != found.pas.size()) return wrong(0, "preallocations in groups and in lists: " + pair(found.pas.size(), listed));
  return {};
}

}  // namespace e4::alloc
