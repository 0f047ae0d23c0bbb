// SPDX-License-Identifier: GPL-2.0-only
#include "trace/player.h"

#include <algorithm>
#include <utility>

namespace e4::trace {
namespace {
constexpr std::uint32_t kMaxPrefetch = 1U << 20;
}

Player::Player(PlayerFacts facts, Lookahead& ahead, Target& target)
    : facts_(std::move(facts)),
      ahead_(ahead),
      target_(target),
      sizes_(facts_.geometry.block_bytes, facts_.geometry.block_bytes << facts_.geometry.cluster_bits,
             facts_.new_inodes_extents, facts_.inodes) {}

Result<void> Player::feed(Item& item) {
  const Event& e = item.event;
  ++counts_.events;
  if (e.kind == Kind::mark) {
    target_.phase(e.text());
    return {};
  }
  if (e.dev != 0) target_.saw(e);
  if (!discards_.empty())
    if (const auto tid = discards_.ended(e.pid)) target_.commit(*tid);
  sizes_.feed(e);
  if (item.role == Item::Role::begin) return begin(*item.request);
  if (item.role == Item::Role::decide && item.request->end == RequestRecord::End::done) E4_TRY(decide(*item.request));
  return act(e, item);
}

Result<void> Player::begin(RequestRecord& r) {
  ++counts_.requests;
  const Event& e = r.request;
  const alloc::Geometry& g = facts_.geometry;
  alloc::Request& q = r.ready;
  q.ino = e.ino;
  q.len_clusters = e.req.len;
  q.lblk = e.req.logical;
  q.goal = e.req.goal;
  q.lleft = e.req.lleft;
  q.pleft = e.req.pleft;
  q.lright = e.req.lright;
  q.pright = e.req.pright;
  q.flags = e.req.flags;
  q.cpu = e.cpu;
  q.i_size = sizes_.size(e.ino);
  q.extent_mapped = sizes_.extents(e.ino);
  q.busy = false;
  q.privileged = facts_.user_privileged || (facts_.kernel_thread && facts_.kernel_thread(e.pid));
  q.open_for_write = true;
  if (r.is_data() && r.delayed()) {
    // Only a large file whose request ends exactly at its end asks whether it is open.
    const std::uint64_t end = q.lblk + (std::uint64_t{q.len_clusters} << g.cluster_bits);
    const std::uint64_t size_blocks = (q.i_size + g.block_bytes - 1) / g.block_bytes;
    if (end == size_blocks && (end > facts_.mb_stream_req || facts_.mb_group_prealloc == 0)) {
      E4_TRY(ahead_.resolve_open(r));
      q.open_for_write = r.open != RequestRecord::Open::closed;
    }
  }
  switch (r.end) {
    case RequestRecord::End::done: ++counts_.completed; break;
    case RequestRecord::End::refused:
      ++counts_.refused;
      return target_.decide(r);
    default: ++counts_.abandoned; break;
  }
  return {};
}

Result<void> Player::decide(RequestRecord& r) {
  if (r.played) return {};
  r.played = true;
  E4_TRY(target_.decide(r));
  for (const GroupNo g : r.cached) target_.bitmap_cached(g);
  r.cached.clear();
  return {};
}

Result<void> Player::discard_started(const Event& e) {
  const alloc::Geometry& g = facts_.geometry;
  if (!facts_.discard_ends || e.extent.group >= g.groups() || e.extent.start < 0) return {};
  const auto start = static_cast<std::uint32_t>(e.extent.start);
  if (start >= g.clusters_in(e.extent.group) || e.extent.len > g.clusters_in(e.extent.group) - start) return {};
  return target_.discard_started(e.extent.group, start, e.extent.len, discards_.start(e.pid));
}

Result<void> Player::act(const Event& e, const Item& item) {
  switch (e.kind) {
    case Kind::free_blocks: free_flags_[e.pid] = e.free.flags; break;
    case Kind::mballoc_free: {
      ++counts_.frees;
      Freed f;
      f.ino = e.ino;
      f.group = e.extent.group;
      f.start = static_cast<std::uint32_t>(e.extent.start);
      f.len = e.extent.len;
      const auto it = free_flags_.find(e.pid);
      f.flags = it == free_flags_.end() ? 0 : it->second;
      f.tid = transactions_.running();
      f.event = &e;
      return target_.free(f);
    }
    case Kind::commit_flushing: transactions_.flushing(e.commit.tid); break;
    case Kind::commit_end:
      ++counts_.commits;
      if (const auto tid = transactions_.ended(e.commit.tid)) target_.commit(*tid);
      break;
    case Kind::discard_preallocations: target_.discard_inode(e.ino, e.discard.len); break;
    case Kind::buddy_bitmap_load:
      // Inside a request the model predicts it; a task without one is the lazy thread, a reader of mb_groups, a free.
      if (item.role == Item::Role::none) return target_.load_group(e.extent.group);
      break;
    case Kind::read_block_bitmap_load:
      if (item.role == Item::Role::inside && !item.request->played) item.request->cached.push_back(e.extent.group);
      else target_.bitmap_cached(e.extent.group);
      break;
    case Kind::prefetch_bitmaps: return target_.prefetch(e.prefetch.group, std::min(e.prefetch.ios, kMaxPrefetch));
    case Kind::trim_extent: return discard_started(e);
    case Kind::allocate_inode: target_.inode_allocated(e.ino, e.inode.mode); break;
    case Kind::da_reserve_space:
      counts_.dirty_clusters += e.da.blocks;
      target_.reserve(e.da.blocks, e.cpu);
      break;
    case Kind::da_update_reserve_space:
    case Kind::da_release_space:
      counts_.dirty_clusters -= e.da.blocks;
      target_.reserve(-std::int64_t{e.da.blocks}, e.cpu);
      break;
    default: break;
  }
  return {};
}

}  // namespace e4::trace
