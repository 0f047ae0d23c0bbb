// SPDX-License-Identifier: GPL-2.0-only
#include "journal/fc_space.h"

#include <algorithm>
#include <utility>

namespace e4::journal {

void BlockSet::add(const FileMap& map) {
  for (const MappedExtent& e : map.extents) add(e.physical, e.blocks);
  for (const Blk b : map.tree) add(b);
}

void BlockSet::normalize() {
  std::ranges::sort(ranges_, {}, &Range::from);
  std::vector<Range> out;
  for (const Range& r : ranges_) {
    if (r.blocks == 0) continue;
    if (!out.empty() && r.from <= out.back().from + out.back().blocks) {
      out.back().blocks = std::max(out.back().blocks, r.from + r.blocks - out.back().from);
    } else {
      out.push_back(r);
    }
  }
  ranges_ = std::move(out);
}

std::vector<BlockSet::Range> BlockSet::minus(const BlockSet& other) const {
  std::vector<Range> out;
  auto o = other.ranges_.begin();
  for (const Range& r : ranges_) {
    Blk at = r.from;
    const Blk end = r.from + r.blocks;
    while (o != other.ranges_.end() && o->from + o->blocks <= at) ++o;
    for (auto p = o; at < end && p != other.ranges_.end() && p->from < end; ++p) {
      if (p->from > at) out.push_back({at, p->from - at});
      at = std::max(at, p->from + p->blocks);
    }
    if (at < end) out.push_back({at, end - at});
  }
  return out;
}

void ExtentList::unmap(Lblk from, std::uint64_t blocks) {
  const std::uint64_t end = from + blocks;
  auto first = std::ranges::partition_point(list_, [from](const MappedExtent& e) { return e.end() <= from; });
  auto last = first;
  std::vector<MappedExtent> kept;
  for (; last != list_.end() && last->lblk < end; ++last) {
    if (last->lblk < from) {
      MappedExtent left = *last;
      left.blocks = from - last->lblk;
      kept.push_back(left);
    }
    if (last->end() > end) {
      MappedExtent right = *last;
      const auto cut = static_cast<std::uint32_t>(end - last->lblk);
      right.lblk += cut;
      right.physical += cut;
      right.blocks -= cut;
      kept.push_back(right);
    }
  }
  first = list_.erase(first, last);
  list_.insert(first, kept.begin(), kept.end());
}

void ExtentList::map(const MappedExtent& e) {
  unmap(e.lblk, e.blocks);
  auto at = std::ranges::partition_point(list_, [&e](const MappedExtent& x) { return x.lblk < e.lblk; });
  at = list_.insert(at, e);
  const auto follows = [](const MappedExtent& a, const MappedExtent& b) {
    return a.end() == b.lblk && a.physical + a.blocks == b.physical && a.unwritten == b.unwritten;
  };
  if (const auto next = std::next(at); next != list_.end() && follows(*at, *next)) {
    at->blocks += next->blocks;
    at = std::prev(list_.erase(next));
  }
  if (at != list_.begin() && follows(*std::prev(at), *at)) {
    std::prev(at)->blocks += at->blocks;
    list_.erase(at);
  }
}

bool FcSpace::may_hold_data(Blk from, std::uint64_t blocks) const {
  const Blk first = fs_.super().s_first_data_block, end = ext2fs_blocks_count(&fs_.super());
  if (from < first || from >= end || blocks > end - from) return false;
  if (layout_.first_in(from, blocks)) return false;
  return !log_.overlaps(from, blocks);
}

// Sets every clear bit of the range, jumping over what is set already.
void FcSpace::mark(Blk from, std::uint64_t blocks, BlockSet* newly) {
  ext2_filsys raw = fs_.raw();
  const Blk last = from + blocks - 1;
  while (from <= last) {
    blk64_t clear = 0;
    if (ext2fs_find_first_zero_block_bitmap2(raw->block_map, from, last, &clear) != 0) return;
    ext2fs_block_alloc_stats2(raw, clear, +1);
    if (newly != nullptr) newly->add(clear);
    from = clear + 1;
  }
}

void FcSpace::reserve(Blk from, std::uint64_t blocks) { mark(from, blocks, &reserved_); }

Result<Blk> FcSpace::allocate(Blk goal) {
  blk64_t found = 0;
  E4_EXT2(ext2fs_new_block2(fs_.raw(), goal, fs_.raw()->block_map, &found), "fast commits: no block for a directory or extent tree");
  ext2fs_block_alloc_stats2(fs_.raw(), found, +1);
  before_.add(found);
  return found;
}

void FcSpace::settle(BlockSet after) {
  after.normalize();
  // Whole clusters: one that keeps a block stays in use.
  const std::uint64_t ratio = std::uint64_t{1} << fs_.raw()->cluster_ratio_bits;
  const auto clusters = [ratio](const BlockSet& set) {
    BlockSet out;
    for (const BlockSet::Range& r : set.ranges()) {
      const Blk from = r.from & ~(ratio - 1), end = (r.from + r.blocks + ratio - 1) & ~(ratio - 1);
      out.add(from, end - from);
    }
    out.normalize();
    return out;
  };
  for (const BlockSet& r : {std::cref(before_), std::cref(reserved_)}) {
    for (const BlockSet::Range& gone : clusters(r).minus(clusters(after))) {
      for (Blk b = gone.from; b < gone.from + gone.blocks; b += ratio) {
        if (layout_.find(b) || log_.holds(b)) continue;
        if (ext2fs_test_block_bitmap2(fs_.raw()->block_map, b)) ext2fs_block_alloc_stats2(fs_.raw(), b, -1);
      }
    }
  }
  for (const BlockSet::Range& r : after.ranges()) mark(r.from, r.blocks, nullptr);
}

}  // namespace e4::journal
