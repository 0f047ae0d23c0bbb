// SPDX-License-Identifier: GPL-2.0-only
#include <fmt/core.h>

#include <unordered_map>

#include "check/session.h"

// Bitmaps against their checksums and the descriptors' counts: of every group
// when the file system is small or -f was given, else of the groups that
// recovery touched. Whether a set bit has an owner is for the full check.
namespace e4::check {

using report::arg;

namespace {

constexpr GroupNo kAlwaysGroups = 64;  // so many groups are always looked at: half a megabyte of bitmaps

Result<void> check_blocks(Session& s, Groups& groups, GroupNo g, Desc& d) {
  if ((d.flags & Desc::kBlockUninit) != 0 && groups.any_csum()) return {};
  auto bitmap = groups.block_bitmap(d);
  if (!bitmap) {
    s.judge.found(Problem::bitmap_unreadable, {.group = g}, {arg("group", std::uint64_t{g}), arg("why", bitmap.error().message())});
    return {};
  }
  if (!groups.block_bitmap_ok(d, *bitmap)) {
    s.judge.found(Problem::block_bitmap_checksum, {.group = g}, {arg("group", std::uint64_t{g})});
    return {};
  }
  const std::uint32_t counted = clear_bits(*bitmap, groups.clusters(g));
  if (counted != d.free_clusters &&
      s.judge.found(Problem::group_free_blocks, {.group = g},
                    {arg("group", std::uint64_t{g}), arg("stored", std::uint64_t{d.free_clusters}), arg("counted", std::uint64_t{counted})}))
    d.free_clusters = counted;
  return {};
}

Result<void> check_inodes(Session& s, Groups& groups, GroupNo g, Desc& d) {
  std::uint32_t counted = groups.inodes_per_group();
  if ((d.flags & Desc::kInodeUninit) == 0 || !groups.any_csum()) {
    auto bitmap = groups.inode_bitmap(d);
    if (!bitmap) {
      s.judge.found(Problem::bitmap_unreadable, {.group = g}, {arg("group", std::uint64_t{g}), arg("why", bitmap.error().message())});
      return {};
    }
    if (!groups.inode_bitmap_ok(d, *bitmap)) {
      s.judge.found(Problem::inode_bitmap_checksum, {.group = g}, {arg("group", std::uint64_t{g})});
      return {};
    }
    counted = clear_bits(*bitmap, groups.inodes_per_group());
  }
  if (counted == d.free_inodes) return {};
  if (s.judge.found(Problem::group_free_inodes, {.group = g},
                    {arg("group", std::uint64_t{g}), arg("stored", std::uint64_t{d.free_inodes}), arg("counted", std::uint64_t{counted})})) {
    d.free_inodes = counted;
    if (d.itable_unused > counted) d.itable_unused = 0;
  }
  return {};
}

}  // namespace

void note_touched(Session& s) {
  Groups groups(*s.overlay, *s.fs);
  std::unordered_map<Blk, GroupNo> owner;
  for (GroupNo g = 0; g < groups.count(); ++g) {
    const auto d = groups.read(g);
    if (!d) continue;
    owner.emplace(d->block_bitmap, g);
    owner.emplace(d->inode_bitmap, g);
  }
  const auto note = [&](Blk block) {
    if (auto it = owner.find(block); it != owner.end()) s.touched_groups.insert(it->second);
  };
  for (const Blk b : s.overlay->dirty_blocks()) note(b);
  for (const auto& a : s.overlay->aliases()) note(a.block);
}

Result<void> bitmap_phase(Session& s) {
  Groups groups(*s.overlay, *s.fs);
  const bool all = s.options.force || groups.count() <= kAlwaysGroups;
  s.all_bitmaps = all;
  if (!all) note_touched(s);
  for (GroupNo g = 0; g < groups.count(); ++g) {
    if (!all && !s.touched_groups.contains(g)) continue;
    const Desc old = E4_TRY(groups.read(g));
    Desc d = old;
    E4_TRY(check_blocks(s, groups, g, d));
    E4_TRY(check_inodes(s, groups, g, d));
    if (!(d == old)) E4_TRY(groups.write(g, d));
    if (s.stop_requested()) {
      s.ended = s.cancelled = true;
      return {};
    }
    if (g % 64 == 0) s.progress.step(g, groups.count());
  }
  return {};
}

}  // namespace e4::check
