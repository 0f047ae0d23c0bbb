// SPDX-License-Identifier: GPL-2.0-only
#include <fmt/core.h>

#include <algorithm>

#include "check/session.h"

// Every group descriptor: checksum, places, flags, counts that cannot be. What
// is taken from elsewhere is a backup descriptor's places, which never change
// but by resizing; a table is never moved, since its content would be lost.
namespace e4::check {

using report::arg;

namespace {

class Descriptors {
 public:
  Descriptors(Session& s, Groups& groups) : s_(s), groups_(groups) {}

  Result<void> run() {
    for (GroupNo g = 0; g < groups_.count() && !s_.judge.halted(); ++g) {
      E4_TRY(one(g));
      if (s_.stop_requested()) {
        s_.ended = s_.cancelled = true;
        return {};
      }
      if (g % 256 == 0) s_.progress.step(g, groups_.count());
    }
    return overlaps();
  }

 private:
  Result<void> one(GroupNo g) {
    const Desc old = E4_TRY(groups_.read(g));
    Desc d = old;
    bool reseal = false;
    if (groups_.any_csum()) {
      const std::uint16_t computed = E4_TRY(groups_.computed_checksum(g));
      if (computed != old.checksum &&
          s_.judge.found(Problem::desc_checksum, {.group = g},
                         {arg("group", std::uint64_t{g}), arg("stored", fmt::format("{:#06x}", old.checksum)),
                          arg("computed", fmt::format("{:#06x}", computed))})) {
        reseal = true;
        E4_TRY(distrust(g, d));
      }
    }
    E4_TRY(places(g, d));
    if (s_.judge.halted()) return {};
    flags(g, d);
    E4_TRY(counts(g, d));
    if (reseal || !(d == old)) return groups_.write(g, d);
    return {};
  }

  /// The checksum is wrong, so any field may be. Places come from a backup that
  /// verifies; a bitmap that matches its checksum was initialised.
  Result<void> distrust(GroupNo g, Desc& d) {
    const auto backups = E4_TRY(groups_.backups(g));
    if (!backups.empty()) {
      d.block_bitmap = backups.front().block_bitmap;
      d.inode_bitmap = backups.front().inode_bitmap;
      d.inode_table = backups.front().inode_table;
    }
    if (!groups_.place_ok(g, d.block_bitmap, 1) || !groups_.place_ok(g, d.inode_bitmap, 1) || !groups_.metadata_csum()) return {};
    if ((d.flags & Desc::kBlockUninit) != 0) {
      const auto bitmap = groups_.block_bitmap(d);
      if (bitmap && groups_.block_bitmap_ok(d, *bitmap)) d.flags &= static_cast<std::uint16_t>(~Desc::kBlockUninit);
    }
    if ((d.flags & Desc::kInodeUninit) != 0) {
      const auto bitmap = groups_.inode_bitmap(d);
      if (bitmap && groups_.inode_bitmap_ok(d, *bitmap)) {
        d.flags &= static_cast<std::uint16_t>(~Desc::kInodeUninit);
        d.itable_unused = 0;
      }
    }
    return {};
  }

  Result<void> places(GroupNo g, Desc& d) {
    struct Item {
      const char* what;
      Blk Desc::*field;
      std::uint64_t length_blocks;
    };
    const Item items[] = {{"block bitmap", &Desc::block_bitmap, 1},
                          {"inode bitmap", &Desc::inode_bitmap, 1},
                          {"inode table", &Desc::inode_table, groups_.itable_blocks()}};
    for (const Item& i : items) {
      if (groups_.place_ok(g, d.*i.field, i.length_blocks)) continue;
      const std::vector<report::Arg> args = {arg("group", std::uint64_t{g}), arg("what", i.what), arg("block", d.*i.field)};
      const auto backups = E4_TRY(groups_.backups(g));
      if (backups.empty()) {
        s_.judge.found(Problem::desc_location_lost, {.block = d.*i.field, .group = g}, args);
        lost_ = true;
      } else if (s_.judge.found(Problem::desc_location, {.block = d.*i.field, .group = g}, args)) {
        d.*i.field = backups.front().*i.field;
      } else {
        lost_ = true;
      }
    }
    return {};
  }

  void flags(GroupNo g, Desc& d) {
    constexpr std::uint16_t kUninit = Desc::kBlockUninit | Desc::kInodeUninit;
    if (!groups_.any_csum() && ((d.flags & kUninit) != 0 || d.itable_unused != 0) &&
        s_.judge.found(Problem::desc_uninit_flags, {.group = g}, {arg("group", std::uint64_t{g})})) {
      d.flags &= static_cast<std::uint16_t>(~kUninit);
      d.itable_unused = 0;
    }
    if (groups_.any_csum() && g + 1 == groups_.count() && (d.flags & Desc::kBlockUninit) != 0)
      s_.judge.found(Problem::desc_uninit_last, {.group = g});
    const std::uint32_t limit = std::min(groups_.inodes_per_group(), d.free_inodes);
    if (groups_.any_csum() && d.itable_unused > limit &&
        s_.judge.found(Problem::desc_unused, {.group = g},
                       {arg("group", std::uint64_t{g}), arg("value", std::uint64_t{d.itable_unused}), arg("limit", std::uint64_t{limit})}))
      d.itable_unused = 0;
  }

  Result<void> counts(GroupNo g, Desc& d) {
    if (!groups_.place_ok(g, d.block_bitmap, 1) || !groups_.place_ok(g, d.inode_bitmap, 1) ||
        !groups_.place_ok(g, d.inode_table, groups_.itable_blocks()))
      return {};
    const auto ask = [&](const char* what, std::uint64_t value, std::uint64_t limit) {
      return s_.judge.found(Problem::desc_counts, {.group = g},
                            {arg("group", std::uint64_t{g}), arg("what", what), arg("value", value), arg("limit", limit)});
    };
    if (const std::uint32_t limit = groups_.clusters(g); d.free_clusters > limit && ask("free blocks count", d.free_clusters, limit))
      d.free_clusters = clear_bits(E4_TRY(groups_.block_bitmap(d)), limit);
    const std::uint32_t ipg = groups_.inodes_per_group();
    if (d.free_inodes > ipg && ask("free inodes count", d.free_inodes, ipg))
      d.free_inodes = (d.flags & Desc::kInodeUninit) != 0 ? ipg : clear_bits(E4_TRY(groups_.inode_bitmap(d)), ipg);
    if (const std::uint32_t limit = ipg - std::min(ipg, d.free_inodes); d.used_dirs > limit && ask("used directories count", d.used_dirs, limit))
      d.used_dirs = (d.flags & Desc::kInodeUninit) != 0 ? 0 : E4_TRY(groups_.count_dirs(d));
    return {};
  }

  /// No two pieces of metadata share a block.
  Result<void> overlaps() {
    if (lost_ || s_.judge.halted()) return {};
    struct Piece {
      Blk block;
      std::uint64_t length_blocks;
      GroupNo group;
      const char* what;
    };
    std::vector<Piece> pieces;
    const ext2_filsys fs = s_.fs->raw();
    for (GroupNo g = 0; g < groups_.count(); ++g) {
      blk64_t super = 0, old_desc = 0, new_desc = 0;
      blk_t used = 0;
      ext2fs_super_and_bgd_loc2(fs, g, &super, &old_desc, &new_desc, &used);
      if (super != 0 || (g == 0 && groups_.first_block(0) == 0)) pieces.push_back({super, 1, g, "superblock"});
      const std::uint64_t old_blocks = ext2fs_has_feature_meta_bg(fs->super) != 0
                                           ? fs->super->s_first_meta_bg
                                           : fs->desc_blocks + std::uint64_t{fs->super->s_reserved_gdt_blocks};
      if (old_desc != 0) pieces.push_back({old_desc, std::max<std::uint64_t>(old_blocks, 1), g, "descriptors"});
      if (new_desc != 0) pieces.push_back({new_desc, 1, g, "descriptors"});
      const Desc d = E4_TRY(groups_.read(g));
      pieces.push_back({d.block_bitmap, 1, g, "block bitmap"});
      pieces.push_back({d.inode_bitmap, 1, g, "inode bitmap"});
      pieces.push_back({d.inode_table, groups_.itable_blocks(), g, "inode table"});
    }
    std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.block < b.block; });
    const Piece* last = nullptr;
    for (const Piece& p : pieces) {
      if (last != nullptr && p.block < last->block + last->length_blocks) {
        const bool blame_last = std::string_view(p.what) == "superblock" || std::string_view(p.what) == "descriptors";
        const Piece& bad = blame_last ? *last : p;
        s_.judge.found(Problem::desc_overlap, {.block = bad.block, .group = bad.group},
                       {arg("group", std::uint64_t{bad.group}), arg("what", bad.what), arg("block", bad.block)});
        lost_ = true;
      }
      if (last == nullptr || p.block + p.length_blocks > last->block + last->length_blocks) last = &p;
    }
    return {};
  }

  Session& s_;
  Groups& groups_;
  bool lost_ = false;

 public:
  [[nodiscard]] bool lost() const { return lost_; }
};

}  // namespace

Result<void> descriptor_phase(Session& s) {
  Groups groups(*s.overlay, *s.fs);
  Descriptors work(s, groups);
  E4_TRY(work.run());
  // Without places for bitmaps and tables nothing further can be judged.
  if (work.lost()) s.ended = true;
  return reopen(s);
}

}  // namespace e4::check
