// SPDX-License-Identifier: GPL-2.0-only
#include <fmt/core.h>

#include <algorithm>

#include "trace/compare.h"

// Why a decision differs. Everything a decision depends on is either in the
// trace, or it is one of the few things that are not: a file's size after a
// growing truncate, which group's lock another CPU held at that instant, what
// the discard worker held back. So the request is tried again with another
// value of each; what then gives the kernel's choice is the believed cause.
namespace e4::trace {
namespace {

/// How far from a request another CPU's event may lie and still have had its lock, given that events
/// are printed before or after the locked section.
constexpr std::uint64_t kNearNs = 20'000;

const char* activity_words(Kind k) {
  switch (k) {
    case Kind::mballoc_free: return "was freeing there (mballoc_free)";
    case Kind::mballoc_discard:
    case Kind::release_group_pa: return "was giving a preallocation back";
    case Kind::commit_stats:
    case Kind::commit_end: return "was returning the freed clusters of a commit";
    default: return "was allocating";
  }
}

}  // namespace

std::vector<Comparer::Activity> Comparer::others(const RequestRecord& r) const {
  std::vector<Activity> out;
  const std::uint64_t from = r.request.time_ns > kNearNs ? r.request.time_ns - kNearNs : 0;
  const std::uint64_t to = std::max(r.end_ns, r.request.time_ns) + kNearNs;
  // On its own CPU another thread counts only while the request was under way (it gave the CPU up in the middle).
  const auto elsewhere_or_during = [&](const Activity& a) {
    return a.cpu != r.request.cpu || (a.time_ns > r.request.time_ns && a.time_ns < r.end_ns);
  };
  for (const Activity& a : recent_)
    if (a.pid != r.request.pid && a.time_ns >= from && a.time_ns <= to && elsewhere_or_during(a)) out.push_back(a);
  for (const auto& [pid, a] : in_flight_)
    if (pid != r.request.pid) out.push_back(a);
  if (ahead_ != nullptr) {
    constexpr std::size_t kEnough = 256;
    ahead_->each_ahead(to, [&](const Item& i) {
      const Event& e = i.event;
      if (out.size() >= kEnough || e.pid == r.request.pid || e.dev != r.request.dev) return;
      if (!elsewhere_or_during({e.time_ns, e.pid, e.cpu, e.kind, 0})) return;
      switch (e.kind) {
        case Kind::mballoc_alloc:
        case Kind::mballoc_prealloc: out.push_back({e.time_ns, e.pid, e.cpu, e.kind, e.alloc.result.group}); break;
        case Kind::mballoc_free:
        case Kind::mballoc_discard: out.push_back({e.time_ns, e.pid, e.cpu, e.kind, e.extent.group}); break;
        case Kind::commit_end:
          if (returning_) out.push_back({e.time_ns, e.pid, e.cpu, e.kind, 0});
          break;
        default: break;
      }
    });
  }
  return out;
}

bool Comparer::try_request(RequestRecord& r, const alloc::Request& q) {
  alloc::Outcome o;
  const alloc::Status status = allocator_.allocate(q, o);
  const bool fits = matches(r, status, o) && same_state(r, o);
  if (status == alloc::Status::ok) allocator_.undo(q, o);
  return fits;
}

bool Comparer::try_sizes(RequestRecord& r, Difference& d) {
  if (!r.is_data() || r.end != RequestRecord::End::done) return false;
  const alloc::Geometry& g = allocator_.geometry();
  alloc::Request q = r.ready;
  if (r.delayed()) {
    q.open_for_write = !q.open_for_write;
    if (try_request(r, q)) {
      d.cause = Cause::open_state;
      d.possible = true;
      d.why = fmt::format("with the file {} for writing the model chooses the same",
                          q.open_for_write ? "open" : "closed");
      return true;
    }
    q.open_for_write = r.ready.open_for_write;
  }
  const std::uint64_t bs = g.block_bytes;
  const std::uint64_t end = (std::uint64_t{q.lblk} + (std::uint64_t{q.len_clusters} << g.cluster_bits)) * bs;
  std::vector<std::uint64_t> sizes{end, end + bs};
  for (std::uint64_t s = 16 * kKiB; s <= 16 * kMiB; s *= 2) sizes.push_back(s), sizes.push_back(s + bs);
  for (const std::uint64_t s : sizes) {
    if (s <= r.ready.i_size && s != end) continue;  // what is missing is growth
    for (const bool open : {true, false}) {
      if (!open && !r.delayed()) continue;
      q.i_size = s;
      q.open_for_write = open;
      if (!try_request(r, q)) continue;
      d.cause = Cause::unknown_size;
      d.possible = true;
      d.why = fmt::format("with a file size near {} bytes (the trace shows {}) the model chooses the same", s, r.ready.i_size);
      if (player_ != nullptr && s > r.ready.i_size) player_->sizes().set(r.request.ino, s);
      return true;
    }
  }
  return false;
}

/// The line says where a stream search began. Two threads that share a
/// remembered group may have left it in another order than their lines have.
bool Comparer::try_stream(RequestRecord& r, Difference& d) {
  if (mode_ != Mode::resync || !r.has_alloc || r.from_prealloc) return false;
  const auto& a = r.alloc.alloc;
  if ((a.flags & alloc::kStreamAlloc) == 0 || a.goal.start != -1) return false;
  alloc::Request q = r.ready;
  q.stream_group = a.goal.group;
  if (!try_request(r, q)) return false;
  d.cause = Cause::interleaved;
  d.possible = true;
  d.why = fmt::format("with group {} remembered as stream goal, as the kernel printed, the model chooses the same: threads that "
                      "allocated at the same time left it in another order than their lines",
                      a.goal.group);
  return true;
}

bool Comparer::try_locks(RequestRecord& r, Difference& d) {
  const std::vector<Activity> near = others(r);
  if (near.empty()) return false;
  // Each group somebody was at, then the one the model chose. A lock may be held for the whole search or for the
  // first visits only (a group is visited once a criterion).
  constexpr std::uint32_t kMaxVisits = 4;
  constexpr std::size_t kMaxGroups = 16;
  std::vector<const Activity*> candidates;
  for (const Activity& a : near) {
    const auto same = [&](const Activity* c) { return c->group == a.group; };
    if (candidates.size() < kMaxGroups && std::none_of(candidates.begin(), candidates.end(), same)) candidates.push_back(&a);
  }
  Activity chosen = near.front();
  chosen.group = group_of(d.ours.block);
  if (d.ours.len != 0) candidates.push_back(&chosen);
  alloc::Request q = r.ready;
  for (const Activity* a : candidates)
    for (std::uint32_t visits = 0; visits <= kMaxVisits; ++visits) {
      q.held_groups = &a->group;
      q.held_groups_count = 1;
      q.held_visits = visits;
      if (!try_request(r, q)) continue;
      d.cause = Cause::busy_lock;
      d.possible = true;
      d.why = fmt::format("with the lock of group {} held by CPU {} (thread {}), which {}, the model chooses the same", a->group,
                          a->cpu, a->pid, activity_words(a->kind));
      return true;
    }
  for (std::uint32_t visits = 0; visits <= kMaxVisits; ++visits) {
    const Activity& a = near.front();
    q.held_groups = &chosen.group;
    q.held_groups_count = visits == 0 ? 0 : 1;
    q.held_visits = visits;
    q.lose_best = true;
    if (!try_request(r, q)) continue;
    d.cause = Cause::busy_lock;
    d.possible = true;
    d.why = fmt::format("if the best chunk of the search went to CPU {} (thread {}), which {}, before it could be locked again, "
                        "the model chooses the same", a.cpu, a.pid, activity_words(a.kind));
    return true;
  }
  const auto changes = [&](const Activity& a) {
    return a.kind != Kind::request_blocks && a.time_ns > r.request.time_ns && a.time_ns < r.end_ns;
  };
  const auto during = std::find_if(near.begin(), near.end(), changes);
  const Activity& a = during == near.end() ? near.front() : *during;
  d.cause = during == near.end() ? Cause::busy_lock : Cause::interleaved;
  d.why = fmt::format("thread {} on CPU {} {} {}", a.pid, a.cpu, activity_words(a.kind),
                      during == near.end() ? "at the same time" : "while the request was searching, which saw the groups partly before and partly after");
  return true;
}

void Comparer::explain(RequestRecord& r, Difference& d) {
  if (try_stream(r, d) || try_sizes(r, d)) return;
  if (try_locks(r, d)) {
    if (d.possible || trims_ == 0) return;
  }
  if (allocator_.mount().discard && trims_ != 0) {
    d.cause = Cause::discard_worker;
    d.why = "mounted with discard: the worker may hold freed clusters back while the device works; the trace shows its start, not its end";
    return;
  }
  if (d.cause == Cause::busy_lock || d.cause == Cause::interleaved) return;
  if (lost_ != 0) {
    d.cause = Cause::lost_events;
    d.why = fmt::format("{} events were lost before", lost_);
    return;
  }
  if (mode_ == Mode::free_run && hidden_) {
    d.cause = Cause::earlier;
    d.why = "a request before this one got the kernel's blocks, but another preallocation or stream goal (resync names the cause)";
    return;
  }
  d.cause = Cause::unexplained;
  d.why = "no other size, open state or held lock gives the kernel's choice";
}

}  // namespace e4::trace
