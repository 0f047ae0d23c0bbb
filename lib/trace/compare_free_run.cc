// SPDX-License-Identifier: GPL-2.0-only
#include <algorithm>

#include "trace/compare.h"

// Free run: our choice stays. Goals, neighbours and frees of the trace name
// the kernel's blocks and are translated to ours.
namespace e4::trace {

void Comparer::translate(alloc::Request& q) const {
  if (translation_.empty()) return;
  const alloc::Geometry& g = allocator_.geometry();
  const auto move = [&](Blk block) -> Blk {
    if (block < g.first_data_block || block >= g.blocks_count) return block;
    const auto c = translation_.find(cluster_of(block));
    if (!c) return 0;
    return block_of(*c) + (block - block_of(cluster_of(block)));
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

void Comparer::adopt(const RequestRecord& r, const alloc::Outcome& o) {
  const bool theirs = r.end == RequestRecord::End::done && r.result.req.len != 0;
  if (!theirs) {  // the kernel got nothing and its caller gave up
    if (o.len != 0) allocator_.undo(r.ready, o);
    return;
  }
  const std::uint64_t kernel = cluster_of(r.result.req.block);
  const std::uint32_t len = r.result.req.len;
  const std::uint32_t got = std::min(o.len, len);
  if (got != 0) translation_.set(kernel, got, cluster_of(o.block));
  if (o.len > len) {
    const auto bits = allocator_.geometry().cluster_bits;
    ahead_of_[r.request.ino] = {r.request.req.logical + (len << bits), o.block + (std::uint64_t{len} << bits), o.len - len};
  }
  if (got < len) catch_up(r, r.ready, o);
}

/// The kernel's caller comes for the rest of what we gave it at once.
bool Comparer::take_ahead(const RequestRecord& r, alloc::Status& status, alloc::Outcome& o) {
  const auto it = ahead_of_.find(r.request.ino);
  if (it == ahead_of_.end() || !r.is_data()) return false;
  if (it->second.lblk != r.request.req.logical || r.end == RequestRecord::End::refused || r.result.req.len == 0) {
    drop_ahead(r.request.ino);
    return false;
  }
  status = alloc::Status::ok;
  o.block = it->second.block;
  o.len = std::min(it->second.len, r.ready.len_clusters);
  const Ahead rest{0, it->second.block + (std::uint64_t{o.len} << allocator_.geometry().cluster_bits), it->second.len - o.len};
  ahead_of_.erase(it);
  if (rest.len != 0) {  // more than even this request asks for: nobody comes for it
    ahead_of_[r.request.ino] = rest;
    drop_ahead(r.request.ino);
  }
  return true;
}

/// Nobody came for it: free again. It may lie inside a preallocation of the inode, which has to go first.
void Comparer::drop_ahead(Ino ino) {
  const auto it = ahead_of_.find(ino);
  if (it == ahead_of_.end()) return;
  const Ahead a = it->second;
  ahead_of_.erase(it);
  allocator_.discard_inode(ino);
  alloc::FreeRequest how;
  how.ino = ino;
  how.when = alloc::FreeRequest::When::at_once;
  how.block = a.block;
  how.count_blocks = std::uint64_t{a.len} << allocator_.geometry().cluster_bits;
  if (!allocator_.free(how)) ++result_.free_errors;
}

/// We got less than the kernel: what a caller would do, ask again for the rest.
void Comparer::catch_up(const RequestRecord& r, alloc::Request q, const alloc::Outcome& first) {
  const alloc::Geometry& g = allocator_.geometry();
  const std::uint64_t kernel = cluster_of(r.result.req.block);
  std::uint32_t have = first.len;
  Blk last = first.len != 0 ? first.block + (std::uint64_t{first.len} << g.cluster_bits) : 0;
  while (have < r.result.req.len) {
    q.lblk = r.request.req.logical + (have << g.cluster_bits);
    q.len_clusters = r.result.req.len - have;
    if (last != 0) {
      q.goal = last;
      if (r.is_data()) {
        q.lleft = q.lblk - 1;
        q.pleft = last - 1;
      }
    }
    alloc::Outcome o;
    if (allocator_.allocate(q, o) != alloc::Status::ok || o.len == 0) break;
    const std::uint32_t n = std::min(o.len, r.result.req.len - have);
    translation_.set(kernel + have, n, cluster_of(o.block));
    have += n;
    last = o.block + (std::uint64_t{n} << g.cluster_bits);
  }
  if (have < r.result.req.len) translation_.set(kernel + have, r.result.req.len - have, Translation::kNowhere);
}

Result<void> Comparer::free_ours(const Freed& f) {
  const alloc::Geometry& g = allocator_.geometry();
  const std::uint64_t kernel = cluster_of(g.block_of(f.group, f.start));
  alloc::FreeRequest how;
  how.ino = f.ino;
  how.flags = f.flags;
  how.tid = f.tid;
  how.cpu = f.event->cpu;
  translation_.each(kernel, f.len, [&](std::uint64_t ours, std::uint64_t len) {
    while (len > 0) {  // per group
      const auto group = static_cast<GroupNo>(ours / g.clusters_per_group);
      const auto start = static_cast<std::uint32_t>(ours % g.clusters_per_group);
      const auto n = static_cast<std::uint32_t>(std::min<std::uint64_t>(len, g.clusters_per_group - start));
      if (group >= g.groups() || !allocator_.free_clusters(group, start, n, how)) ++result_.free_errors;
      ours += n;
      len -= n;
    }
  });
  translation_.clear(kernel, f.len);
  return {};
}

}  // namespace e4::trace
