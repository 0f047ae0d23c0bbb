// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "alloc/allocator.h"
#include "alloc/goal.h"

namespace e4::test {

/// A file as the allocator's callers see one: an extent map that gives goals
/// and neighbours, and a size. Enough of ext4's upper half to drive lib/alloc.
class MiniFile {
 public:
  MiniFile(alloc::Allocator& a, Ino ino) : a_(a), ino_(ino) {}

  static constexpr std::uint32_t kWriteback = alloc::kHintData | alloc::kDelallocReserved | alloc::kUseReserved;
  static constexpr std::uint32_t kFallocate = alloc::kHintData | alloc::kHintNoPrealloc;

  std::uint32_t cpu = 0;
  bool open = true;
  bool regular = true;
  bool extent_mapped = true;
  bool delalloc = true;  // mount option, for the goal
  std::uint32_t pid = 0;
  std::uint64_t i_size = 0;  // bytes
  alloc::EventLog log;
  std::function<void(const alloc::Outcome&)> after_allocate;      // each success
  std::function<void(Blk, std::uint64_t)> before_free;            // block, blocks
  std::vector<alloc::Request> requests;  // what was asked, parallel to the outcomes

  /// Allocates [lblk, lblk + blocks) as the writeback of a finished write does; returns every outcome.
  std::vector<alloc::Outcome> write(Lblk lblk, std::uint32_t blocks) {
    const std::uint64_t bs = a_.geometry().block_bytes;
    i_size = std::max(i_size, (std::uint64_t{lblk} + blocks) * bs);
    return map(lblk, blocks, kWriteback);
  }
  /// fallocate: i_size follows chunk by chunk.
  std::vector<alloc::Outcome> fallocate(Lblk lblk, std::uint32_t blocks) {
    const std::uint32_t flags = blocks <= 32767 ? kFallocate : static_cast<std::uint32_t>(alloc::kHintData);
    return map(lblk, blocks, flags, true);
  }
  std::vector<alloc::Outcome> map(Lblk lblk, std::uint32_t blocks, std::uint32_t flags, bool grow = false) {
    std::vector<alloc::Outcome> outcomes;
    const std::uint32_t cl = a_.geometry().cluster_blocks();
    while (blocks > 0) {
      alloc::Request rq = request(lblk, std::min(blocks, 32767U), flags);
      alloc::Outcome out;
      requests.push_back(rq);
      const alloc::Status status = a_.allocate(rq, out, &log);
      outcomes.push_back(out);
      if (status != alloc::Status::ok) break;
      if (after_allocate) after_allocate(out);
      const std::uint32_t skip = lblk % cl;
      const std::uint32_t got = std::min(blocks, out.len * cl - skip);
      add(lblk, out.block + skip, got);
      lblk += got;
      blocks -= got;
      if (grow) i_size = std::max(i_size, std::uint64_t{lblk} * a_.geometry().block_bytes);
    }
    return outcomes;
  }
  alloc::Request request(Lblk lblk, std::uint32_t blocks, std::uint32_t flags) const {
    const std::uint32_t cl = a_.geometry().cluster_blocks();
    alloc::Request rq;
    rq.ino = ino_;
    rq.flags = flags;
    rq.cpu = cpu;
    rq.i_size = i_size;
    rq.open_for_write = open;
    rq.extent_mapped = extent_mapped;
    rq.lleft = rq.lright = lblk;
    const auto right = extents_.upper_bound(lblk);
    if (right != extents_.begin()) {
      const auto& [start, e] = *std::prev(right);
      rq.goal = e.pblk + (lblk - start);
      rq.lleft = start + e.len - 1;
      rq.pleft = e.pblk + e.len - 1;
    } else if (right != extents_.end()) {
      rq.goal = right->second.pblk + lblk - right->first;
    } else {
      rq.goal = alloc::inode_goal(a_.geometry(), delalloc, ino_, regular, pid);
    }
    if (right != extents_.end()) {
      rq.lright = right->first;
      rq.pright = right->second.pblk;
    }
    const std::uint32_t offset = lblk % cl;
    rq.goal -= offset;
    rq.lblk = lblk - offset;
    rq.len_clusters = (offset + blocks + cl - 1) / cl;
    return rq;
  }
  /// The first hole at or after `lblk` (cluster aligned) and its length, at most `want` blocks.
  std::pair<Lblk, std::uint32_t> hole(Lblk lblk, std::uint32_t want) const {
    const std::uint32_t mask = a_.geometry().cluster_blocks() - 1;
    lblk = (lblk + mask) & ~mask;
    auto it = extents_.upper_bound(lblk);
    if (it != extents_.begin() && std::prev(it)->first + std::prev(it)->second.len > lblk) --it;
    for (; it != extents_.end() && it->first <= lblk; ++it) lblk = (it->first + it->second.len + mask) & ~mask;
    return {lblk, it == extents_.end() ? want : std::min(want, it->first - lblk)};
  }
  /// Close of the last writer.
  unsigned close() {
    open = false;
    return a_.discard_inode(ino_, &log);
  }
  /// Frees every block of [lblk, lblk + blocks).
  void punch(Lblk lblk, std::uint32_t blocks, Tid tid,
             alloc::FreeRequest::When when = alloc::FreeRequest::When::by_rule) {
    const std::uint64_t end = std::uint64_t{lblk} + blocks;
    std::map<Lblk, Extent> kept;
    for (const auto& [start, e] : extents_) {
      const std::uint64_t e_end = std::uint64_t{start} + e.len;
      const std::uint64_t lo = std::max<std::uint64_t>(start, lblk), hi = std::min(e_end, end);
      if (lo >= hi) {
        kept[start] = e;
        continue;
      }
      if (start < lo) kept[start] = {e.pblk, static_cast<std::uint32_t>(lo - start)};
      if (hi < e_end) kept[static_cast<Lblk>(hi)] = {e.pblk + (hi - start), static_cast<std::uint32_t>(e_end - hi)};
      alloc::FreeRequest f;
      f.ino = ino_;
      f.block = e.pblk + (lo - start);
      f.count_blocks = hi - lo;
      f.tid = tid;
      f.when = when;
      f.cpu = cpu;
      if (before_free) before_free(f.block, f.count_blocks);
      if (!a_.free(f, &log)) ++failed_frees;
    }
    extents_ = std::move(kept);
  }
  void unlink(Tid tid, alloc::FreeRequest::When when = alloc::FreeRequest::When::by_rule) {
    a_.discard_inode(ino_, &log);
    punch(0, 0xFFFFFFFFU, tid, when);
  }
  struct Extent {
    Blk pblk;
    std::uint32_t len;
  };
  const std::map<Lblk, Extent>& extents() const { return extents_; }
  Ino ino() const { return ino_; }
  unsigned failed_frees = 0;

 private:
  void add(Lblk lblk, Blk pblk, std::uint32_t len) {
    auto it = extents_.upper_bound(lblk);
    if (it != extents_.begin()) {
      auto& [start, e] = *std::prev(it);
      if (start + e.len == lblk && e.pblk + e.len == pblk) {
        e.len += len;
        join(std::prev(it));
        return;
      }
    }
    join(extents_.insert_or_assign(lblk, Extent{pblk, len}).first);
  }
  void join(std::map<Lblk, Extent>::iterator it) {
    const auto next = std::next(it);
    if (next == extents_.end() || it->first + it->second.len != next->first ||
        it->second.pblk + it->second.len != next->second.pblk)
      return;
    it->second.len += next->second.len;
    extents_.erase(next);
  }

  alloc::Allocator& a_;
  Ino ino_;
  std::map<Lblk, Extent> extents_;
};

}  // namespace e4::test
