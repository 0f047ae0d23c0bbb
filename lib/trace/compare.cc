// SPDX-License-Identifier: GPL-2.0-only
#include "trace/compare.h"

#include <fmt/core.h>

#include <algorithm>

namespace e4::trace {
namespace {

/// Clusters the kernel got; 0 if it got nothing.
std::uint32_t kernel_len(const RequestRecord& r) {
  return r.end == RequestRecord::End::done ? r.result.req.len : 0;
}

std::uint32_t printed_broken(std::uint16_t order) { return order == 0 ? 0 : 1U << std::min<unsigned>(order, 31); }

bool same_position(const Chunk& c, const alloc::Position& p) {
  return c.group == p.group && c.start == p.start && c.len == p.len && c.logical == p.lblk;
}

}  // namespace

const char* cause_name(Cause c) {
  switch (c) {
    case Cause::busy_lock: return "busy-lock";
    case Cause::interleaved: return "interleaved";
    case Cause::unknown_size: return "unknown-size";
    case Cause::open_state: return "open-state";
    case Cause::discard_worker: return "discard-worker";
    case Cause::earlier: return "earlier-difference";
    case Cause::lost_events: return "lost-events";
    case Cause::unexplained: return "unexplained";
  }
  return "?";
}

const char* request_kind_name(RequestKind k) {
  switch (k) {
    case RequestKind::delayed: return "delayed data";
    case RequestKind::data: return "direct data";
    case RequestKind::fallocate: return "fallocate";
    case RequestKind::metadata: return "metadata";
  }
  return "?";
}

void Tally::add(const Tally& t) {
  decisions += t.decisions;
  identical += t.identical;
  same_group += t.same_group;
  searched += t.searched;
  same_scan += t.same_scan;
  all_fields += t.all_fields;
}

Comparer::Comparer(alloc::Allocator& allocator, Mode mode, bool want_groups)
    : allocator_(allocator), mode_(mode), want_groups_(want_groups), free_run_(allocator) {}

std::uint64_t Comparer::cluster_of(Blk block) const {
  const alloc::Geometry& g = allocator_.geometry();
  return block < g.first_data_block ? 0 : (block - g.first_data_block) >> g.cluster_bits;
}

Blk Comparer::block_of(std::uint64_t cluster) const {
  const alloc::Geometry& g = allocator_.geometry();
  return g.first_data_block + (cluster << g.cluster_bits);
}

GroupNo Comparer::group_of(Blk block) const {
  const alloc::Geometry& g = allocator_.geometry();
  return block < g.first_data_block ? 0 : static_cast<GroupNo>((block - g.first_data_block) / g.blocks_per_group);
}

bool Comparer::matches(const RequestRecord& r, alloc::Status status, const alloc::Outcome& o) const {
  if (r.end == RequestRecord::End::refused) return status == alloc::Status::claim_refused;
  if (status == alloc::Status::claim_refused) return false;
  const std::uint32_t len = status == alloc::Status::ok ? o.len : 0;
  if (len != r.result.req.len) return false;
  return len == 0 || o.block == r.result.req.block;
}

/// Not only the blocks: the chunk, and the preallocation made of it, on which later requests depend.
bool Comparer::same_state(const RequestRecord& r, const alloc::Outcome& o) const {
  if (r.end != RequestRecord::End::done || r.result.req.len == 0) return true;
  if (r.from_prealloc != o.from_prealloc) return false;
  if (r.from_prealloc) return true;
  if (r.has_alloc) {
    const Chunk& c = r.alloc.alloc.result;
    if (c.group != o.result.group || c.start != o.result.start || c.len != o.result.len) return false;
    if (((r.alloc.alloc.flags & alloc::kStreamAlloc) != 0) != ((o.flags & alloc::kStreamAlloc) != 0)) return false;
  }
  const bool theirs = r.new_pa_kind != Kind::unknown;
  if (theirs != (o.new_pa.kind != alloc::PaKind::none)) return false;
  if (!theirs) return true;
  return (r.new_pa_kind == Kind::new_group_pa) == (o.new_pa.kind == alloc::PaKind::group) &&
         r.new_pa.pa.pstart == o.new_pa.pstart && r.new_pa.pa.len == o.new_pa.len && r.new_pa.pa.lstart == o.new_pa.lstart;
}

Tally& Comparer::row(const RequestRecord& r) {
  if (result_.phases.empty()) result_.phases.emplace_back("", std::array<Tally, kRequestKinds>{});
  RequestKind k = RequestKind::metadata;
  if (r.is_data()) {
    k = RequestKind::data;
    if (r.delayed()) k = RequestKind::delayed;
    if ((r.request.req.flags & alloc::kHintNoPrealloc) != 0) k = RequestKind::fallocate;
  }
  return result_.phases.back().second[static_cast<std::size_t>(k)];
}

void Comparer::count(const RequestRecord& r, alloc::Status status, const alloc::Outcome& o, bool same) {
  if (r.end == RequestRecord::End::refused) {
    ++result_.refused;
    if (same) ++result_.refused_same;
    return;
  }
  if (status == alloc::Status::claim_refused) ++result_.refused_by_us;
  Tally& t = row(r);
  ++t.decisions;
  if (same) ++t.identical;
  const bool both = status == alloc::Status::ok && r.result.req.len != 0;
  if (same || (both && group_of(o.block) == group_of(r.result.req.block))) ++t.same_group;
  if (!r.has_alloc || r.from_prealloc) return;
  ++t.searched;
  const auto& a = r.alloc.alloc;
  const bool searched = status != alloc::Status::claim_refused && !o.from_prealloc;
  const bool scan = searched && a.cr == o.cr && a.groups == o.groups;
  if (scan) ++t.same_scan;
  const bool result_same = a.result.len == 0 ? status != alloc::Status::ok : same_position(a.result, o.result);
  if (scan && result_same && same_position(a.orig, o.orig) && same_position(a.goal, o.goal) && a.found == o.found &&
      a.flags == (o.flags & 0xFFFF) && a.tail == o.tail && printed_broken(a.buddy) == o.broken)
    ++t.all_fields;
}

/// Free run: our choice stays, and what the trace says of the kernel's blocks is translated to ours.
void Comparer::adopt(const RequestRecord& r, const alloc::Outcome& o) {
  free_run_.adopt(r.ready, o, r.result.req.block, kernel_len(r));
}

Result<void> Comparer::decide(RequestRecord& r) {
  in_flight_.erase(r.request.pid);
  log_.clear();
  alloc::Outcome o;
  alloc::Status status = alloc::Status::ok;
  if (mode_ == Mode::free_run) {
    free_run_.translate(r.ready);
    if (free_run_.take_ahead(r.ready, kernel_len(r), o)) {
      const bool same = matches(r, status, o);
      count(r, status, o, same);
      if (!same) differ(r, status, o);
      adopt(r, o);
      return {};
    }
  }
  status = allocator_.allocate(r.ready, o, &log_);
  if (status == alloc::Status::error) {
    // A bitmap that cannot be read is a fault of the image, not a decision. A preallocation that does not fit comes of
    // lines lost, doubled or made up: it goes, and the request differs.
    const std::string why = allocator_.take_error();
    if (!why.empty() && !o.from_prealloc) return make_error(ErrorKind::corrupt, why);
    if (allocator_.discard_inode(r.request.ino) != 0) ++result_.pa_count_differs;
  }
  const bool same = matches(r, status, o);
  count(r, status, o, same);
  if (mode_ == Mode::free_run) {
    if (!same) differ(r, status, o);
    else if (!same_state(r, o)) hidden_ = true;
    adopt(r, o);
    return {};
  }
  if (same && same_state(r, o)) return {};
  if (status == alloc::Status::ok) allocator_.undo(r.ready, o);
  if (!same) differ(r, status, o);
  resync(r);
  return {};
}

void Comparer::differ(RequestRecord& r, alloc::Status status, alloc::Outcome& o) {
  Difference d;
  d.event = r.begin_number;
  d.time_ns = r.request.time_ns;
  d.ino = r.request.ino;
  d.lblk = r.request.req.logical;
  if (r.end == RequestRecord::End::done) d.kernel = {r.result.req.block, r.result.req.len};
  if (status == alloc::Status::ok) d.ours = {o.block, o.len};
  if (mode_ == Mode::free_run && (result_.differences_count > 0)) {
    d.cause = Cause::earlier;
    d.why = "the states differ since the first difference";
  } else {
    if (mode_ == Mode::free_run) {  // look for the cause from the state before it
      if (status == alloc::Status::ok) allocator_.undo(r.ready, o);
      explain(r, d);
      alloc::Outcome again;
      allocator_.allocate(r.ready, again);
      o = again;
    } else {
      explain(r, d);
    }
  }
  ++result_.causes[static_cast<std::size_t>(d.cause)];
  ++result_.differences_count;
  if (d.possible) ++result_.possible;
  if (!result_.first) result_.first = d;
  if (result_.differences.size() < CompareResult::kMaxListed) result_.differences.push_back(std::move(d));
}

/// After a difference, or where only the preallocation differs: the kernel's state becomes ours.
void Comparer::resync(RequestRecord& r) {
  if (r.end == RequestRecord::End::done) {
    alloc::Imposed choice;
    choice.block = r.result.req.block;
    choice.len = r.result.req.len;
    choice.from_prealloc = r.from_prealloc;
    if (r.has_alloc && !r.from_prealloc) {
      const auto& a = r.alloc.alloc;
      choice.group = a.result.group;
      choice.start = static_cast<std::uint32_t>(std::max(a.result.start, 0));
      choice.chunk_len = a.result.len;
      choice.stream = (a.flags & alloc::kStreamAlloc) != 0;
    }
    if (r.new_pa_kind != Kind::unknown) {
      choice.new_pa.kind = r.new_pa_kind == Kind::new_group_pa ? alloc::PaKind::group : alloc::PaKind::inode;
      choice.new_pa.pstart = r.new_pa.pa.pstart;
      choice.new_pa.len = r.new_pa.pa.len;
      choice.new_pa.lstart = r.new_pa.pa.lstart;
    }
    for (const RequestRecord::Released& p : r.released) {
      const bool ours = std::any_of(log_.begin(), log_.end(), [&](const alloc::Event& e) {
        return e.kind == alloc::Event::Kind::mballoc_discard && e.group == p.group && e.start == p.start && e.len == p.len;
      });
      if (!ours && !allocator_.impose_release(p.group, p.start, p.len)) ++result_.impose_errors;
    }
    if (choice.len != 0 && !allocator_.impose(r.ready, choice)) ++result_.impose_errors;
  }
  for (const GroupNo g : r.loaded)
    if (g < allocator_.geometry().groups() && !allocator_.group_loaded(g) && !allocator_.load_group(g)) ++result_.impose_errors;
}

Result<void> Comparer::free(const Freed& f) {
  const alloc::Geometry& g = allocator_.geometry();
  if (f.group >= g.groups() || f.start > g.clusters_in(f.group) || f.len > g.clusters_in(f.group) - f.start) {
    ++result_.free_errors;
    return {};
  }
  // Whoever frees a file's data has dropped its preallocations first; if not, the event that did is lost.
  if ((f.flags & alloc::kFreeMetadata) == 0 && f.ino != 0 && allocator_.preallocations(f.ino) != 0) {
    allocator_.discard_inode(f.ino);
    ++result_.pa_count_differs;
  }
  alloc::FreeRequest how;
  how.ino = f.ino;
  how.flags = f.flags;
  how.tid = f.tid;
  how.cpu = f.event->cpu;
  if (mode_ == Mode::free_run && free_run_.moved()) {
    free_run_.free(f.group, f.start, f.len, how);
    return {};
  }
  if (!allocator_.free_clusters(f.group, f.start, f.len, how)) ++result_.free_errors;
  return {};
}

void Comparer::discard_inode(Ino ino, std::uint32_t expected) {
  if (allocator_.discard_inode(ino) != expected) ++result_.pa_count_differs;
  if (mode_ == Mode::free_run) free_run_.drop_ahead(ino);
}

void Comparer::inode_allocated(Ino ino, std::uint32_t) {
  const alloc::Geometry& g = allocator_.geometry();
  if (ino == 0) return;
  const GroupNo group = (ino - 1) / std::max(g.inodes_per_group, 1U);
  if (group < g.groups()) allocator_.note_inode_allocated(group);
}

void Comparer::reserve(std::int64_t clusters, std::uint32_t cpu) {
  if (clusters > 0) allocator_.da_reserve(static_cast<std::uint64_t>(clusters), cpu);
  else if (clusters < 0) allocator_.da_release(static_cast<std::uint64_t>(-clusters), cpu);
}

void Comparer::phase(std::string_view text) {
  if (text.starts_with("phase: ")) text.remove_prefix(7);
  if (reading_groups_ && want_groups_ && !result_.groups_taken) {
    result_.groups_taken = true;
    const GroupNo n = allocator_.geometry().groups();
    result_.groups.reserve(n);
    for (GroupNo g = 0; g < n; ++g) result_.groups.push_back(allocator_.group_counters(g));
  }
  reading_groups_ = text.starts_with("reading mb_groups");
  constexpr std::size_t kMaxPhases = 256;
  if (result_.phases.size() < kMaxPhases)
    result_.phases.emplace_back(std::string(text.substr(0, 80)), std::array<Tally, kRequestKinds>{});
}

void Comparer::saw(const Event& e) {
  switch (e.kind) {
    case Kind::request_blocks:
      in_flight_[e.pid] = {e.time_ns, e.pid, e.cpu, e.kind, group_of(e.req.goal)};
      return;
    case Kind::allocate_blocks: in_flight_.erase(e.pid); return;
    case Kind::trim_extent: ++trims_; return;
    case Kind::commit_stats: returning_ = true; break;
    case Kind::commit_end: returning_ = false; break;
    case Kind::mballoc_free:
    case Kind::mballoc_discard: break;
    case Kind::mballoc_alloc:
    case Kind::mballoc_prealloc:
    case Kind::release_group_pa: break;
    default: return;
  }
  GroupNo group = 0;
  if (e.kind == Kind::mballoc_alloc || e.kind == Kind::mballoc_prealloc) group = e.alloc.result.group;
  else if (e.kind == Kind::release_group_pa) group = group_of(e.pa.pstart);
  else if (e.kind == Kind::mballoc_free || e.kind == Kind::mballoc_discard) group = e.extent.group;
  constexpr std::size_t kRecent = 64;
  if (recent_.size() >= kRecent) recent_.pop_front();
  recent_.push_back({e.time_ns, e.pid, e.cpu, e.kind, group});
}

CompareResult& Comparer::finish() {
  result_.total = {};
  for (const auto& [name, kinds] : result_.phases)
    for (const Tally& t : kinds) result_.total.add(t);
  result_.free_errors += free_run_.free_errors();
  if (player_ != nullptr) result_.missed_sizes = player_->sizes().missed();
  return result_;
}

}  // namespace e4::trace
