// SPDX-License-Identifier: GPL-2.0-only
#include "trace/free_run.h"

#include <algorithm>

namespace e4::trace {

std::uint64_t FreeRun::cluster_of(Blk block) const {
  const alloc::Geometry& g = allocator_.geometry();
  const Blk at = block - g.first_data_block;
  return at / g.blocks_per_group * g.clusters_per_group + (at % g.blocks_per_group >> g.cluster_bits);
}

Blk FreeRun::block_of(std::uint64_t cluster) const {
  const alloc::Geometry& g = allocator_.geometry();
  return g.block_of(static_cast<GroupNo>(cluster / g.clusters_per_group),
                    static_cast<std::uint32_t>(cluster % g.clusters_per_group));
}

void FreeRun::translate(alloc::Request& q) const {
  if (translation_.empty()) return;
  const alloc::Geometry& g = allocator_.geometry();
  const auto move = [&](Blk block) -> Blk {
    if (block < g.first_data_block || block >= g.blocks_count) return block;
    const std::uint64_t at = cluster_of(block);
    const auto c = translation_.find(at);
    if (!c) return 0;
    return block_of(*c) + (block - block_of(at));
  };
  const Blk pleft = q.pleft, pright = q.pright;
  if (pleft != 0) q.pleft = move(pleft);
  if (pright != 0) q.pright = move(pright);
  if (pleft != 0 && q.goal == pleft + (q.lblk - q.lleft) && q.pleft != 0) {
    q.goal = q.pleft + (q.lblk - q.lleft);
  } else if (pright != 0 && q.goal + (q.lright - q.lblk) == pright && q.pright != 0) {
    q.goal = q.pright - (q.lright - q.lblk);
  } else if (q.goal >= g.first_data_block && q.goal < g.blocks_count) {
    const std::uint64_t at = cluster_of(q.goal);
    if (translation_.moved(at)) {
      if (const Blk b = move(q.goal); b != 0) q.goal = b;
    } else if (at > 0 && translation_.moved(at - 1)) {
      if (const Blk b = move(q.goal - g.cluster_blocks()); b != 0) q.goal = b + g.cluster_blocks();
    }
  }
}

void FreeRun::adopt(const alloc::Request& asked, const alloc::Outcome& got, Blk kernel_block, std::uint32_t kernel_len,
                    std::vector<Chunk>* chunks) {
  if (kernel_len == 0) {  // the kernel got nothing and its caller gave up
    if (got.len != 0) allocator_.undo(asked, got);
    return;
  }
  const std::uint64_t kernel = cluster_of(kernel_block);
  const std::uint32_t n = std::min(got.len, kernel_len);
  if (n != 0) {
    translation_.set(kernel, n, cluster_of(got.block));
    if (chunks != nullptr) chunks->push_back({asked.lblk, got.block, n});
  }
  if (got.len > kernel_len) {
    const auto bits = allocator_.geometry().cluster_bits;
    ahead_[asked.ino] = {asked.lblk + (kernel_len << bits), got.block + (std::uint64_t{kernel_len} << bits), got.len - kernel_len};
  }
  if (n < kernel_len) catch_up(asked, got, kernel, kernel_len, chunks);
}

bool FreeRun::take_ahead(const alloc::Request& asked, std::uint32_t kernel_len, alloc::Outcome& got) {
  const auto it = ahead_.find(asked.ino);
  if (it == ahead_.end() || (asked.flags & alloc::kHintData) == 0) return false;
  if (it->second.lblk != asked.lblk || kernel_len == 0) {
    drop_ahead(asked.ino);
    return false;
  }
  got = {};
  got.status = alloc::Status::ok;
  got.block = it->second.block;
  got.len = std::min(it->second.len_clusters, asked.len_clusters);
  const auto bits = allocator_.geometry().cluster_bits;
  const Ahead rest{0, it->second.block + (std::uint64_t{got.len} << bits), it->second.len_clusters - got.len};
  ahead_.erase(it);
  if (rest.len_clusters != 0) {  // more than even this request asks for: nobody comes for it
    ahead_[asked.ino] = rest;
    drop_ahead(asked.ino);
  }
  return true;
}

/// Nobody came for it: free again. It may lie inside a preallocation of the inode, which has to go first.
void FreeRun::drop_ahead(Ino ino) {
  const auto it = ahead_.find(ino);
  if (it == ahead_.end()) return;
  const Ahead a = it->second;
  ahead_.erase(it);
  allocator_.discard_inode(ino);
  alloc::FreeRequest how;
  how.ino = ino;
  how.when = alloc::FreeRequest::When::at_once;
  how.block = a.block;
  how.count_blocks = std::uint64_t{a.len_clusters} << allocator_.geometry().cluster_bits;
  if (!allocator_.free(how)) ++free_errors_;
}

void FreeRun::catch_up(alloc::Request q, const alloc::Outcome& first, std::uint64_t kernel, std::uint32_t kernel_len,
                       std::vector<Chunk>* chunks) {
  const alloc::Geometry& g = allocator_.geometry();
  const Lblk lblk = q.lblk;
  std::uint32_t have = first.len;
  Blk last = first.len != 0 ? first.block + (std::uint64_t{first.len} << g.cluster_bits) : 0;
  while (have < kernel_len) {
    q.lblk = lblk + (have << g.cluster_bits);
    q.len_clusters = kernel_len - have;
    if (last != 0) {
      q.goal = last;
      if ((q.flags & alloc::kHintData) != 0) {
        q.lleft = q.lblk - 1;
        q.pleft = last - 1;
      }
    }
    alloc::Outcome o;
    if (allocator_.allocate(q, o) != alloc::Status::ok || o.len == 0) break;
    const std::uint32_t n = std::min(o.len, kernel_len - have);
    translation_.set(kernel + have, n, cluster_of(o.block));
    if (chunks != nullptr) chunks->push_back({q.lblk, o.block, n});
    have += n;
    last = o.block + (std::uint64_t{n} << g.cluster_bits);
  }
  if (have < kernel_len) translation_.set(kernel + have, kernel_len - have, Translation::kNowhere);
}

void FreeRun::free(GroupNo group, std::uint32_t start, std::uint32_t len, const alloc::FreeRequest& how) {
  const alloc::Geometry& g = allocator_.geometry();
  if (!ahead_.empty()) drop_ahead(how.ino);
  const std::uint64_t kernel = cluster_of(g.block_of(group, start));
  translation_.each(kernel, len, [&](std::uint64_t ours, std::uint64_t left) {
    while (left > 0) {  // per group
      const auto at_group = static_cast<GroupNo>(ours / g.clusters_per_group);
      const auto at = static_cast<std::uint32_t>(ours % g.clusters_per_group);
      const auto n = static_cast<std::uint32_t>(std::min<std::uint64_t>(left, g.clusters_per_group - at));
      if (at_group >= g.groups() || !allocator_.free_clusters(at_group, at, n, how)) ++free_errors_;
      ours += n;
      left -= n;
    }
  });
  translation_.clear(kernel, len);
}

}  // namespace e4::trace
