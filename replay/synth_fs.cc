// SPDX-License-Identifier: GPL-2.0-only
#include "replay/synth_fs.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>

#include "alloc/goal.h"
#include "replay/tree_plan.h"
#include "trace/event.h"

namespace e4::replay {
namespace {

std::string hint_names(std::uint32_t flags) {
  static constexpr struct {
    std::uint32_t bit;
    const char* name;
  } kNames[] = {{alloc::kHintMerge, "HINT_MERGE"},       {alloc::kHintFirst, "HINT_FIRST"},
                {alloc::kHintData, "HINT_DATA"},         {alloc::kHintNoPrealloc, "HINT_NOPREALLOC"},
                {alloc::kHintGroupAlloc, "HINT_GRP_ALLOC"}, {alloc::kHintGoalOnly, "HINT_GOAL_ONLY"},
                {alloc::kHintTryGoal, "HINT_TRY_GOAL"},  {alloc::kDelallocReserved, "DELALLOC_RESV"},
                {alloc::kStreamAlloc, "STREAM_ALLOC"},   {alloc::kUseRootBlocks, "USE_ROOT_BLKS"},
                {alloc::kUseReserved, "USE_RESV"},       {alloc::kStrictCheck, "STRICT_CHECK"}};
  std::string s;
  for (const auto& n : kNames)
    if ((flags & n.bit) != 0) s += (s.empty() ? "" : "|") + std::string(n.name);
  return s;
}

std::string position(const alloc::Position& p) {
  return fmt::format("{}/{}/{}@{}", p.group, p.start, p.len, p.lblk);
}

constexpr std::uint32_t kWritebackMax = 2048;  // blocks the flusher maps at once
constexpr std::uint32_t kFallocateMax = 32767;

}  // namespace

SynthFs::SynthFs(alloc::Allocator& allocator, ImageState& start, std::ostream& trace, std::uint32_t device)
    : allocator_(allocator),
      geometry_(allocator.geometry()),
      delalloc_(allocator.mount().delalloc),
      trace_(trace),
      dev_(fmt::format("dev {},{} ", trace::dev_major(device), trace::dev_minor(device))),
      inode_used_(start.filsys().super().s_inodes_count + 1) {
  const Ino first = start.filsys().super().s_first_ino;
  for (Ino i = 0; i < inode_used_.size(); ++i) inode_used_[i] = i < first || start.inode(i).has_value();
  File& root = files_[2];
  root.mode = S_IFDIR | 0755;
  root.size_bytes = geometry_.block_bytes;
  root.map[0] = {0, 1};  // the start image's own block: never freed here
}

void SynthFs::run_as(const std::string& name, std::uint32_t pid, std::uint32_t cpu) {
  task_ = name;
  pid_ = pid;
  cpu_ = cpu;
}

void SynthFs::line(const char* event, const std::string& text) {
  now_ns_ += 350;
  ++events_;
  trace_ << fmt::format("{:>16}-{:<5} [{:03}] {:>5}.{:09}: {:<22}{}{}\n", task_, pid_, cpu_, now_ns_ / 1000000000,
                        now_ns_ % 1000000000, std::string(event) + ":", dev_, text);
}

void SynthFs::phase(const std::string& text) {
  now_ns_ += 350;
  ++events_;
  trace_ << fmt::format("{:>16}-{:<5} [{:03}] {:>5}.{:09}: {:<22}phase: {}\n", task_, pid_, cpu_, now_ns_ / 1000000000,
                        now_ns_ % 1000000000, "tracing_mark_write:", text);
}

void SynthFs::log_lines(const alloc::EventLog& log) {
  using K = alloc::Event::Kind;
  for (const alloc::Event& e : log) {
    switch (e.kind) {
      case K::group_loaded:
        line("ext4_mb_bitmap_load", fmt::format("group {}", e.group));
        line("ext4_mb_buddy_bitmap_load", fmt::format("group {}", e.group));
        break;
      case K::new_inode_pa:
        line("ext4_mb_new_inode_pa", fmt::format("ino {} pstart {} len {} lstart {}", e.ino, e.block, e.len, e.lblk));
        break;
      case K::new_group_pa:
        line("ext4_mb_new_group_pa", fmt::format("ino {} pstart {} len {} lstart {}", e.ino, e.block, e.len, e.lblk));
        break;
      case K::discard_preallocations: line("ext4_discard_preallocations", fmt::format("ino {} len: {}", e.ino, e.len)); break;
      case K::mballoc_discard:
        line("ext4_mballoc_discard", fmt::format("inode 0 extent {}/{}/{} ", e.group, e.start, e.len));
        break;
      case K::release_inode_pa:
        line("ext4_mb_release_inode_pa", fmt::format("ino {} block {} count {}", e.ino, e.block, e.len));
        break;
      case K::release_group_pa: line("ext4_mb_release_group_pa", fmt::format("pstart {} len {}", e.block, e.len)); break;
      case K::mb_discard: line("ext4_mb_discard_preallocations", fmt::format("needed {}", e.len)); break;
      case K::mballoc_free:
        line("ext4_mballoc_free", fmt::format("inode {} extent {}/{}/{} ", e.ino, e.group, e.start, e.len));
        break;
      case K::returned: break;  // no event of the kernel's
    }
  }
}

Ino SynthFs::create(Ino directory, std::uint32_t mode) {
  const std::uint32_t ipg = geometry_.inodes_per_group;
  const Ino begin = (directory - 1) / ipg * ipg + 1;
  Ino ino = 0;
  for (std::size_t i = 0; i + 1 < inode_used_.size() && ino == 0; ++i) {
    const Ino candidate = static_cast<Ino>((begin - 1 + i) % (inode_used_.size() - 1) + 1);
    if (!inode_used_[candidate]) ino = candidate;
  }
  if (ino == 0) return 0;
  line("ext4_request_inode", fmt::format("dir {} mode 0{:o}", directory, mode));
  inode_used_[ino] = true;
  allocator_.note_inode_allocated((ino - 1) / ipg);
  line("ext4_allocate_inode", fmt::format("ino {} dir {} mode 0{:o}", ino, directory, mode));
  File& f = files_[ino];
  f = File{};
  f.mode = mode;
  f.parent = directory;
  if (S_ISDIR(mode)) {
    if (map_run(ino, 0, 1, 0) != 1) return 0;
    f.size_bytes = geometry_.block_bytes;
  }
  return ino;
}

bool SynthFs::add_name(Ino directory, std::size_t name_bytes) {
  File& d = file(directory);
  d.name_bytes += (8 + name_bytes + 3) & ~std::size_t{3};
  // Two thirds full, as blocks of an indexed directory are.
  const std::uint64_t need = d.name_bytes * 3 / 2 / geometry_.block_bytes + 1;
  while (d.size_bytes / geometry_.block_bytes < need) {
    if (map_run(directory, static_cast<Lblk>(d.size_bytes / geometry_.block_bytes), 1, 0) != 1) return false;
    d.size_bytes += geometry_.block_bytes;
  }
  return true;
}

alloc::Request SynthFs::request_for(Ino ino, Lblk lblk, std::uint32_t blocks, std::uint32_t flags) {
  const File& f = file(ino);
  alloc::Request q;
  q.ino = ino;
  q.len_clusters = blocks;
  q.lblk = q.lleft = q.lright = lblk;
  q.flags = flags;
  q.cpu = cpu_;
  q.i_size = f.size_bytes;
  q.open_for_write = f.open;
  q.privileged = true;
  q.busy = false;
  auto after = f.map.upper_bound(lblk);
  const bool has_left = after != f.map.begin();
  if (has_left) {
    const auto& [start, run] = *std::prev(after);
    q.lleft = start + run.blocks - 1;
    q.pleft = run.block == 0 ? 0 : run.block + run.blocks - 1;
    q.goal = run.block == 0 ? 0 : run.block + (lblk - start);
  }
  if (after != f.map.end()) {
    q.lright = after->first;
    q.pright = after->second.block;
    if (!has_left) q.goal = after->second.block - (after->first - lblk);
  }
  if (q.goal == 0) q.goal = alloc::inode_goal(geometry_, delalloc_, ino, S_ISREG(f.mode), pid_);
  return q;
}

/// The request's own lines and what the allocator did inside it.
std::uint32_t SynthFs::allocate(Ino ino, alloc::Request q, Blk& block) {
  const std::string asked = fmt::format("lblk {} goal {} lleft {} lright {} pleft {} pright {}", q.lblk, q.goal, q.lleft, q.lright,
                                        q.pleft, q.pright);
  line("ext4_request_blocks", fmt::format("ino {} flags {} len {} {} ", ino, hint_names(q.flags), q.len_clusters, asked));
  alloc::Outcome o;
  alloc::EventLog log;
  const alloc::Status status = allocator_.allocate(q, o, &log);
  if (status == alloc::Status::claim_refused) return 0;
  log_lines(log);
  if (o.from_prealloc) {
    line("ext4_mballoc_prealloc", fmt::format("inode {} orig {} result {}", ino, position(o.orig), position(o.result)));
  } else {
    const char* name = alloc::criterion_name(o.cr);
    line("ext4_mballoc_alloc",
         fmt::format("inode {} orig {} goal {} result {} blks {} grps {} cr {} flags {} tail {} broken {}", ino, position(o.orig),
                     position(o.goal), position(o.result), o.found, o.groups, name != nullptr ? name : fmt::format("0x{:x}", o.cr),
                     hint_names(o.flags), o.tail, o.broken));
  }
  line("ext4_allocate_blocks", fmt::format("ino {} flags {} len {} block {} {}", ino, hint_names(q.flags), o.len, o.block, asked));
  block = o.block;
  return o.len;
}

/// One request for a run of file blocks; books what came. Returns its length.
std::uint32_t SynthFs::map_run(Ino ino, Lblk lblk, std::uint32_t blocks, std::uint32_t flags) {
  File& f = file(ino);
  Blk block = 0;
  const std::uint32_t got = allocate(ino, request_for(ino, lblk, blocks, flags), block);
  if (got == 0) return 0;
  bool joined = false;
  if (auto after = f.map.upper_bound(lblk); after != f.map.begin()) {
    auto& [start, run] = *std::prev(after);
    if (start + run.blocks == lblk && run.block + run.blocks == block && run.block != 0) {
      run.blocks += got;
      joined = true;
    }
  }
  if (!joined) f.map[lblk] = {block, got};
  fit_tree(ino, flags & (alloc::kDelallocReserved | alloc::kUseReserved));
  return got;
}

/// As many tree blocks as the file's extents need: more are requested, spare ones freed.
void SynthFs::fit_tree(Ino ino, std::uint32_t flags) {
  File& f = file(ino);
  std::uint64_t entries = 0;
  for (const auto& [lblk, run] : f.map) entries += (run.blocks + 32766) / 32767;
  std::uint64_t need = 0;
  for (const auto n : tree_levels(entries, (geometry_.block_bytes - 12) / 12)) need += n;
  while (f.tree.size() < need) {
    alloc::Request q = request_for(ino, 0, 1, flags);
    q.goal = f.tree.empty() ? alloc::inode_goal(geometry_, delalloc_, ino, S_ISREG(f.mode), pid_) : f.map.rbegin()->second.block;
    q.lleft = q.lright = 0;
    q.pleft = q.pright = 0;
    Blk block = 0;
    if (allocate(ino, q, block) == 0) return;
    f.tree.push_back(block);
  }
  while (f.tree.size() > need) {
    free_blocks_of(ino, f.tree.back(), 1, true);
    f.tree.pop_back();
  }
}

bool SynthFs::fallocate(Ino ino, std::uint64_t offset, std::uint64_t bytes, bool keep_size) {
  File& f = file(ino);
  const std::uint64_t bs = geometry_.block_bytes;
  const std::uint64_t end_bytes = offset + bytes;
  const auto first = static_cast<Lblk>(offset / bs), end = static_cast<Lblk>((end_bytes + bs - 1) / bs);
  line("ext4_fallocate_enter", fmt::format("ino {} offset {} len {} mode {}", ino, offset, bytes, keep_size ? "KEEP_SIZE" : ""));
  const std::uint32_t flags = alloc::kHintData | (end - first <= kFallocateMax ? std::uint32_t{alloc::kHintNoPrealloc} : 0U);
  const bool was_open = f.open;
  f.open = true;
  Lblk at = first;
  while (at < end) {
    const auto after = f.map.upper_bound(at);
    if (after != f.map.begin()) {
      const auto& [start, run] = *std::prev(after);
      if (start + run.blocks > at) {
        at = start + run.blocks;
        continue;
      }
    }
    const Lblk stop = after == f.map.end() ? end : std::min(end, after->first);
    const std::uint32_t got = map_run(ino, at, std::min(stop - at, kFallocateMax), flags);
    if (got == 0) break;
    at += got;
    if (!keep_size) f.size_bytes = std::max(f.size_bytes, std::min(std::uint64_t{at} * bs, end_bytes));
  }
  f.open = was_open;
  const bool ok = at >= end;
  line("ext4_fallocate_exit", fmt::format("ino {} pos {} blocks {} ret {}", ino, offset, end - first, ok ? 0 : -28));
  return ok;
}

bool SynthFs::write(Ino ino, std::uint64_t pos, std::uint64_t bytes) {
  File& f = file(ino);
  f.open = true;
  const std::uint64_t bs = geometry_.block_bytes, chunk = std::max<std::uint64_t>(bs, 32768);
  for (std::uint64_t done = 0; done < bytes;) {
    const std::uint64_t n = std::min(bytes - done, chunk - (pos + done) % chunk);
    const std::uint64_t at = pos + done;
    // Leave the kernel's way of running full (one block at a time) alone: stop well before it.
    if (free_blocks() < 2 * n / bs + 64) return false;
    line("ext4_da_write_begin", fmt::format("ino {} pos {} len {}", ino, at, n));
    for (auto l = static_cast<Lblk>(at / bs); l <= (at + n - 1) / bs; ++l) {
      const auto after = f.map.upper_bound(l);
      if (after != f.map.begin() && std::prev(after)->first + std::prev(after)->second.blocks > l) continue;
      const auto waiting = f.delayed.upper_bound(l);
      if (waiting != f.delayed.begin() && std::prev(waiting)->first + std::prev(waiting)->second > l) continue;
      line("ext4_da_reserve_space", fmt::format("ino {} mode 0{:o} i_blocks {} reserve_blocks 1reserved_data_blocks {}", ino, f.mode, 0,
                                                f.reserved_blocks));
      allocator_.da_reserve(1, cpu_);
      ++f.reserved_blocks;
      if (waiting != f.delayed.begin() && std::prev(waiting)->first + std::prev(waiting)->second == l)
        ++std::prev(waiting)->second;
      else
        f.delayed[l] = 1;
    }
    line("ext4_da_write_end", fmt::format("ino {} pos {} len {} copied {}", ino, at, n, n));
    f.size_bytes = std::max(f.size_bytes, at + n);
    done += n;
  }
  return true;
}

bool SynthFs::flush(Ino ino, bool by_flusher) {
  File& f = file(ino);
  const std::string task = task_;
  const std::uint32_t pid = pid_;
  if (by_flusher) run_as("kworker/u8:0", 77, cpu_);
  bool ok = true;
  while (!f.delayed.empty() && ok) {
    // Runs that touch are one: the flusher sees pages, not writes.
    Lblk lblk = f.delayed.begin()->first;
    std::uint32_t blocks = f.delayed.begin()->second;
    f.delayed.erase(f.delayed.begin());
    while (!f.delayed.empty() && f.delayed.begin()->first == lblk + blocks) {
      blocks += f.delayed.begin()->second;
      f.delayed.erase(f.delayed.begin());
    }
    while (blocks > 0) {
      const std::uint32_t got = map_run(ino, lblk, std::min(blocks, kWritebackMax),
                                        alloc::kHintData | alloc::kDelallocReserved | alloc::kUseReserved);
      if (got == 0) {
        ok = false;
        break;
      }
      line("ext4_da_update_reserve_space",
           fmt::format("ino {} mode 0{:o} i_blocks 0 used_blocks {} reserved_data_blocks {} quota_claim 1", ino, f.mode, got, f.reserved_blocks));
      allocator_.da_release(got, cpu_);
      f.reserved_blocks -= got;
      lblk += got;
      blocks -= got;
      if (f.reserved_blocks == 0 && !f.open) discard(ino);
    }
  }
  task_ = task;
  pid_ = pid;
  return ok;
}

void SynthFs::discard(Ino ino) {
  alloc::EventLog log;
  allocator_.discard_inode(ino, &log);
  log_lines(log);
}

void SynthFs::close(Ino ino) {
  File& f = file(ino);
  f.open = false;
  if (f.reserved_blocks == 0 && !f.map.empty()) discard(ino);
  if (f.unlinked) evict(ino);
}

void SynthFs::free_blocks_of(Ino ino, Blk block, std::uint32_t blocks, bool metadata) {
  line("ext4_free_blocks", fmt::format("ino {} mode 0{:o} block {} count {} flags {}", ino, file(ino).mode, block, blocks,
                                       metadata ? "METADATA|FORGET" : ""));
  alloc::FreeRequest how;
  how.ino = ino;
  how.block = block;
  how.count_blocks = blocks;
  how.flags = metadata ? alloc::kFreeMetadata | alloc::kFreeForget : 0U;
  how.tid = tid_;
  how.cpu = cpu_;
  alloc::EventLog log;
  if (auto r = allocator_.free(how, &log); r) log_lines(log);
}

/// Frees every block of the file from `from` on, last extent first.
void SynthFs::cut(Ino ino, Lblk from) {
  File& f = file(ino);
  while (!f.map.empty()) {
    auto it = std::prev(f.map.end());
    const auto [lblk, run] = *it;
    if (lblk + run.blocks <= from) break;
    const std::uint32_t keep = lblk < from ? from - lblk : 0;
    if (run.block != 0) free_blocks_of(ino, run.block + keep, run.blocks - keep, false);
    if (keep == 0)
      f.map.erase(it);
    else
      it->second.blocks = keep;
  }
  fit_tree(ino, 0);
}

void SynthFs::truncate(Ino ino, std::uint64_t size_bytes) {
  File& f = file(ino);
  const std::uint64_t bs = geometry_.block_bytes;
  const auto from = static_cast<Lblk>((size_bytes + bs - 1) / bs);
  line("ext4_begin_ordered_truncate", fmt::format("ino {} new_size {}", ino, size_bytes));
  std::uint32_t dropped = 0;
  for (auto it = f.delayed.begin(); it != f.delayed.end();) {
    const std::uint32_t keep = it->first < from ? std::min(it->second, from - it->first) : 0;
    dropped += it->second - keep;
    it->second = keep;
    it = keep == 0 ? f.delayed.erase(it) : std::next(it);
  }
  if (dropped != 0) {
    line("ext4_da_release_space", fmt::format("ino {} mode 0{:o} i_blocks 0 freed_blocks {} reserved_data_blocks {}", ino, f.mode, dropped,
                                              f.reserved_blocks));
    allocator_.da_release(dropped, cpu_);
    f.reserved_blocks -= dropped;
  }
  f.size_bytes = size_bytes;
  line("ext4_truncate_enter", fmt::format("ino {} blocks 0", ino));
  discard(ino);
  cut(ino, from);
  line("ext4_truncate_exit", fmt::format("ino {} blocks 0", ino));
}

void SynthFs::unlink(Ino ino) {
  File& f = file(ino);
  line("ext4_unlink_enter", fmt::format("ino {} size {} parent {}", ino, f.size_bytes, f.parent));
  f.unlinked = true;
  line("ext4_unlink_exit", fmt::format("ino {} ret 0", ino));
  if (!f.open) evict(ino);
}

void SynthFs::evict(Ino ino) {
  line("ext4_evict_inode", fmt::format("ino {} nlink 0", ino));
  truncate(ino, 0);
  discard(ino);
  line("ext4_free_inode", fmt::format("ino {} mode 0{:o} uid 0 gid 0 blocks 0", ino, file(ino).mode));
  inode_used_[ino] = false;
  files_.erase(ino);
}

void SynthFs::commit() {
  const std::string task = task_;
  const std::uint32_t pid = pid_;
  run_as("jbd2/synth-8", 66, cpu_);
  const std::string transaction = fmt::format("transaction {} sync 0", tid_);
  for (const char* event : {"jbd2_start_commit", "jbd2_commit_locking", "jbd2_commit_flushing", "jbd2_commit_logging"})
    line(event, transaction);
  line("jbd2_run_stats", fmt::format("tid {} wait 0 request_delay 0 running 0 locked 0 flushing 0 logging 0 handle_count 1 blocks 1 blocks_logged 1", tid_));
  line("jbd2_end_commit", transaction + " head 1");
  allocator_.commit(tid_);
  ++tid_;
  task_ = task;
  pid_ = pid;
}

std::uint64_t SynthFs::free_blocks() const {
  const std::int64_t n = allocator_.free_clusters_count() - allocator_.dirty_clusters_count();
  return n < 0 ? 0 : static_cast<std::uint64_t>(n);
}

}  // namespace e4::replay
