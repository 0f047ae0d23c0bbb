// SPDX-License-Identifier: GPL-2.0-only
#include "replay/stepper.h"

#include <fmt/core.h>

namespace e4::replay {
namespace {

using K = trace::Kind;

std::string chunk(const trace::Chunk& c) { return fmt::format("{}/{}/{}@{}", c.group, c.start, c.len, c.logical); }

std::string details(const trace::Event& e) {
  switch (e.kind) {
    case K::request_blocks:
      return fmt::format("len {} lblk {} goal {} flags 0x{:x}", e.req.len, e.req.logical, e.req.goal, e.req.flags);
    case K::allocate_blocks: return fmt::format("len {} lblk {} block {}", e.req.len, e.req.logical, e.req.block);
    case K::mballoc_alloc: {
      const char* cr = alloc::criterion_name(e.alloc.cr);
      return fmt::format("orig {} goal {} result {} blks {} grps {} cr {}", chunk(e.alloc.orig), chunk(e.alloc.goal),
                         chunk(e.alloc.result), e.alloc.found, e.alloc.groups, cr != nullptr ? cr : "all of them");
    }
    case K::mballoc_prealloc: return fmt::format("orig {} result {}", chunk(e.alloc.orig), chunk(e.alloc.result));
    case K::new_inode_pa:
    case K::new_group_pa: return fmt::format("pstart {} len {} lstart {}", e.pa.pstart, e.pa.len, e.pa.lstart);
    case K::release_inode_pa:
    case K::release_group_pa: return fmt::format("pstart {} len {}", e.pa.pstart, e.pa.len);
    case K::mballoc_free:
    case K::mballoc_discard:
    case K::trim_extent: return fmt::format("{}/{}/{}", e.extent.group, e.extent.start, e.extent.len);
    case K::free_blocks: return fmt::format("block {} count {} flags 0x{:x}", e.free.block, e.free.count, e.free.flags);
    case K::discard_preallocations:
    case K::mb_discard_preallocations: return fmt::format("len {}", e.discard.len);
    case K::write_begin:
    case K::write_end:
    case K::fallocate_enter:
    case K::fallocate_exit:
    case K::punch_hole:
    case K::zero_range:
    case K::collapse_range:
    case K::insert_range: return fmt::format("pos {} len {}", e.range.pos, e.range.len);
    case K::begin_ordered_truncate: return fmt::format("new size {}", e.range.pos);
    case K::da_reserve_space:
    case K::da_update_reserve_space:
    case K::da_release_space: return fmt::format("blocks {} of {} reserved", e.da.blocks, e.da.reserved);
    case K::allocate_inode: return fmt::format("dir {} mode 0{:o}", e.inode.dir, e.inode.mode);
    case K::commit_start:
    case K::commit_locking:
    case K::commit_flushing:
    case K::commit_logging:
    case K::commit_stats:
    case K::commit_end: return fmt::format("transaction {}", e.commit.tid);
    case K::buddy_bitmap_load:
    case K::bitmap_load:
    case K::read_block_bitmap_load: return fmt::format("group {}", e.extent.group);
    case K::mark: return std::string(e.text());
    default: return {};
  }
}

std::string pa_line(const alloc::Allocator::PaState& p) {
  const bool inode = p.pa.kind == alloc::PaKind::inode;
  std::string s = fmt::format("  {} preallocation: blocks from {} ({} clusters, {} not used)", inode ? "inode" : "group", p.pa.pstart,
                              p.pa.len, p.free_clusters);
  if (inode) s += fmt::format(" for inode {} from file block {}", p.ino, p.pa.lstart);
  return s + "\n";
}

}  // namespace

std::string event_line(const trace::Event& e, std::uint64_t first_ns, const trace::Reader& reader) {
  std::string who = reader.thread_name(e.pid);
  if (who.empty()) who = "?";
  return fmt::format("#{} {:.6f} s {}-{} [{}] {}{} {}", e.number, static_cast<double>(e.time_ns - first_ns) / 1e9, who, e.pid, e.cpu,
                     trace::kind_name(e.kind), e.ino != 0 ? fmt::format(" ino {}", e.ino) : "", details(e));
}

Result<std::unique_ptr<Stepper>> Stepper::open(const RecordingOptions& options, const std::vector<std::string>& policy) {
  auto s = std::make_unique<Stepper>();
  s->recording_ = E4_TRY(load_recording(options));
  if (s->recording_.trace_path == "-") return make_error(ErrorKind::usage, "step goes back and forth: it cannot read standard input");
  if (s->recording_.filesystems.size() != 1)
    return make_error(ErrorKind::usage, "the recording holds several file systems; choose one with --device");
  s->policy_ = E4_TRY(make_policy(policy));
  E4_TRY(s->restart());
  return s;
}

Result<void> Stepper::restart() {
  auto s = std::make_unique<Session>();
  trace::ReaderOptions reader_options;
  if (recording_.filesystems[0].device != 0) reader_options.devices = {recording_.filesystems[0].device};
  s->reader = E4_TRY(trace::open_trace(recording_.trace_path, reader_options));
  s->ahead = std::make_unique<trace::Lookahead>(*s->reader);
  s->world = E4_TRY(load_world(recording_, recording_.filesystems[0], policy_));
  s->comparer = std::make_unique<trace::Comparer>(*s->world.allocator, trace::Mode::resync, false);
  s->player = std::make_unique<trace::Player>(player_facts(recording_, s->world, *s->reader), *s->ahead, *s->comparer);
  s->comparer->attach(*s->player, *s->ahead);
  s_ = std::move(s);
  position_ = 0;
  return {};
}

Result<bool> Stepper::fetch(trace::Item& item) {
  while (E4_TRY(s_->ahead->next(item))) {
    std::uint32_t& device = s_->world.recorded.device;
    if (device == 0) device = item.event.dev;
    if (item.event.dev != 0 && item.event.dev != device) continue;
    if (s_->first_ns == 0) s_->first_ns = item.event.time_ns;
    return true;
  }
  return false;
}

Result<void> Stepper::act(trace::Item& item) {
  E4_TRY(s_->player->feed(item));
  if (item.event.kind == K::unlink_exit && item.event.range.ret == 0) s_->orphans.insert(item.event.ino);
  if (item.event.kind == K::free_inode || item.event.kind == K::allocate_inode) s_->orphans.erase(item.event.ino);
  ++position_;
  return {};
}

Result<bool> Stepper::forward() {
  trace::Item item;
  if (!E4_TRY(fetch(item))) return false;
  E4_TRY(act(item));
  item_ = std::move(item);
  return true;
}

Result<void> Stepper::go_to(std::uint64_t position) {
  if (position < position_) E4_TRY(restart());
  while (position_ < position)
    if (!E4_TRY(forward())) break;
  return {};
}

std::string Stepper::line() const {
  if (position_ == 0) return "at the start; nothing has happened yet";
  return event_line(item_.event, s_->first_ns, *s_->reader);
}

std::string Stepper::decision() const {
  if (position_ == 0 || item_.role != trace::Item::Role::decide || !item_.request) return {};
  const trace::RequestRecord& r = *item_.request;
  std::string s = fmt::format("kernel: {} clusters at block {}", r.result.req.len, r.result.req.block);
  for (const trace::Difference& d : s_->comparer->so_far().differences)
    if (d.event == r.request.number)
      return s + fmt::format("; ours: {} at block {}: they differ ({}: {})", d.ours.len, d.ours.block, cause_name(d.cause), d.why);
  return s + "; ours: the same";
}

Result<std::string> Stepper::explain() {
  if (position_ == 0 || item_.role != trace::Item::Role::decide)
    return make_error(ErrorKind::usage, "no request is decided at this event ('decision' goes to the next one)");
  const std::uint64_t here = position_;
  E4_TRY(go_to(here - 1));
  trace::Item item;
  if (!E4_TRY(fetch(item)) || !item.request)
    return make_error(ErrorKind::corrupt, "the trace changed while it was read");
  std::string text = s_->world.allocator->explain(item.request->ready).text();
  if (!text.ends_with('\n')) text += '\n';
  // The explained search has loaded groups, and loaded groups decide differently: come here again by the usual path.
  E4_TRY(restart());
  E4_TRY(go_to(here));
  return text;
}

std::string Stepper::group_text(GroupNo group) const {
  const alloc::Allocator& a = *s_->world.allocator;
  if (group >= a.geometry().groups()) return fmt::format("there are {} groups\n", a.geometry().groups());
  if (!a.group_loaded(group))
    return fmt::format("group {}: not loaded; {} clusters free on disk{}\n", group, a.descriptor_free(group),
                       a.block_uninit(group) ? ", never used (BLOCK_UNINIT)" : "");
  const alloc::GroupCounters c = a.group_counters(group);
  std::string s = fmt::format("group {}: {} free in {} pieces, first {}; on disk {} free\n  pieces by order:", group, c.free, c.frags,
                              c.first, a.descriptor_free(group));
  for (unsigned o = 0; o < a.geometry().orders(); ++o) s += fmt::format(" {}", c.counters[o]);
  s += "\n";
  for (const auto& p : a.group_preallocations(group)) s += pa_line(p);
  return s;
}

std::string Stepper::inode_text(Ino ino) {
  std::string s = fmt::format("inode {}: {} bytes, {}{}\n", ino, s_->player->sizes().size(ino),
                              s_->player->sizes().extents(ino) ? "extents" : "block map", s_->orphans.contains(ino) ? ", orphan" : "");
  for (const auto& p : s_->world.allocator->inode_preallocations(ino)) s += pa_line(p);
  return s;
}

std::string Stepper::orphans_text() const {
  if (s_->orphans.empty()) return "no orphans: nothing unlinked is still open\n";
  std::string s = fmt::format("{} orphans:", s_->orphans.size());
  for (const Ino i : s_->orphans) s += fmt::format(" {}", i);
  return s + "\n";
}

std::string Stepper::state_text() const {
  const alloc::Allocator& a = *s_->world.allocator;
  trace::Tally t;
  for (const auto& [phase, kinds] : s_->comparer->so_far().phases)
    for (const trace::Tally& k : kinds) t.add(k);
  std::string s = fmt::format("{} clusters free, {} reserved for delayed allocation, {} freed and waiting for their commit\n",
                              a.free_clusters_count(), a.dirty_clusters_count(), a.pending_clusters());
  s += fmt::format("{} decisions so far, {} as the kernel's; remembered stream groups:", t.decisions, t.identical);
  for (const GroupNo g : a.stream_goals()) s += fmt::format(" {}", g);
  return s + "\n";
}

}  // namespace e4::replay
