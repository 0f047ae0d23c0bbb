// SPDX-License-Identifier: GPL-2.0-only
// Which group an inode goes to. Counts are read without locks: a group that
// fills up meanwhile is found out when its bitmap is searched.
#include <algorithm>

#include "alloc/inode_records.h"
#include "base/random.h"

namespace e4::alloc {

InodeAllocator::Unit InodeAllocator::unit(GroupNo index) const {
  Unit u;
  const GroupNo first = index * flex_, end = static_cast<GroupNo>(std::min<std::uint64_t>(groups_, std::uint64_t{first} + flex_));
  for (GroupNo g = first; g < end; ++g) {
    u.free_inodes += records_[g].free;
    u.free_clusters += blocks_.descriptor_free(g);
    u.dirs += records_[g].dirs;
  }
  return u;
}

std::optional<GroupNo> InodeAllocator::first_free_in_unit(GroupNo index) const {
  const GroupNo first = index * flex_, end = static_cast<GroupNo>(std::min<std::uint64_t>(groups_, std::uint64_t{first} + flex_));
  for (GroupNo g = first; g < end; ++g)
    if (records_[g].free > 0) return g;
  return std::nullopt;
}

/// From the parent's group on: one with at least the average of free inodes, else with any.
std::optional<GroupNo> InodeAllocator::fallback(GroupNo parent_group) const {
  const auto average = static_cast<std::uint32_t>(std::max<std::int64_t>(0, totals_->free.rough()) / groups_);
  for (const std::uint32_t least : {average, 0U}) {
    for (GroupNo k = 0; k < groups_; ++k) {
      const GroupNo g = static_cast<GroupNo>((std::uint64_t{parent_group} + k) % groups_);
      if (const std::uint32_t free = records_[g].free; free > 0 && free >= least) return g;
    }
    if (least == 0) break;
  }
  return std::nullopt;
}

std::optional<GroupNo> InodeAllocator::orlov(const InodeRequest& request, bool top_level) const {
  const GroupNo parent = parent_group(request);
  const std::int64_t free_inodes = std::max<std::int64_t>(0, totals_->free.rough());
  const std::int64_t free_clusters = std::max<std::int64_t>(0, blocks_.free_clusters_count());
  const std::int64_t dirs = std::max<std::int64_t>(0, totals_->dirs.rough());
  const auto average_inodes = static_cast<std::uint64_t>(free_inodes) / units_;
  const auto average_clusters = static_cast<std::uint64_t>(free_clusters) / units_;

  if (top_level) {
    // Spread: of the units that are above average the one with the fewest directories.
    std::uint64_t hash = 0;
    if (request.name_hash) {
      hash = *request.name_hash;
    } else {
      hash = Random(random_.fetch_add(1, std::memory_order_relaxed)).next();
    }
    const auto start = static_cast<GroupNo>(hash % units_);
    std::uint64_t fewest = per_group_;
    std::optional<GroupNo> pick;
    for (GroupNo k = 0; k < units_; ++k) {
      const auto i = static_cast<GroupNo>((std::uint64_t{start} + k) % units_);
      const Unit u = unit(i);
      if (u.free_inodes == 0 || u.dirs >= fewest || u.free_inodes < average_inodes || u.free_clusters < average_clusters) continue;
      pick = i;
      fewest = u.dirs;
    }
    if (!pick) return fallback(parent);
    const auto group = first_free_in_unit(*pick);
    return group ? group : fallback(parent);
  }

  // Close to the parent, while that unit is not crowded.
  const std::uint64_t clusters_per_group = blocks_.geometry().clusters_per_group;
  const std::uint64_t max_dirs = static_cast<std::uint64_t>(dirs) / units_ + std::uint64_t{per_group_} * flex_ / 16;
  const std::uint64_t inode_margin = std::uint64_t{per_group_} * flex_ / 4, cluster_margin = clusters_per_group * flex_ / 4;
  const std::uint64_t min_inodes = std::max<std::uint64_t>(1, average_inodes > inode_margin ? average_inodes - inode_margin : 0);
  const std::uint64_t min_clusters = average_clusters > cluster_margin ? average_clusters - cluster_margin : 0;
  const GroupNo start = std::min(request.parent_last_group.value_or(parent), groups_ - 1) / flex_;
  for (GroupNo k = 0; k < units_; ++k) {
    const auto i = static_cast<GroupNo>((std::uint64_t{start} + k) % units_);
    const Unit u = unit(i);
    if (u.dirs >= max_dirs || u.free_inodes < min_inodes || u.free_clusters < min_clusters) continue;
    if (const auto group = first_free_in_unit(i)) return group;
  }
  return fallback(parent);
}

/// Files: the parent's unit, then where it put the last one; without flex groups the parent's group, then ever farther.
std::optional<GroupNo> InodeAllocator::near_parent(const InodeRequest& request) const {
  const GroupNo parent = parent_group(request);
  if (flex_ > 1) {
    if (const auto g = first_free_in_unit(parent / flex_)) return g;
    if (request.parent_last_group && *request.parent_last_group < groups_)
      if (const auto g = first_free_in_unit(*request.parent_last_group / flex_)) return g;
    return orlov(request, false);
  }
  const auto usable = [this](GroupNo g) { return records_[g].free > 0 && blocks_.descriptor_free(g) > 0; };
  if (usable(parent)) return parent;
  GroupNo g = static_cast<GroupNo>((std::uint64_t{parent} + request.parent) % groups_);
  for (GroupNo step = 1; step < groups_; step <<= 1) {
    g = static_cast<GroupNo>((std::uint64_t{g} + step) % groups_);
    if (usable(g)) return g;
  }
  for (GroupNo k = 1; k <= groups_; ++k) {
    const auto i = static_cast<GroupNo>((std::uint64_t{parent} + k) % groups_);
    if (records_[i].free > 0) return i;
  }
  return std::nullopt;
}

std::optional<GroupNo> InodeAllocator::choose_group(const InodeRequest& request) const {
  return request.directory ? orlov(request, request.top_level) : near_parent(request);
}

}  // namespace e4::alloc
