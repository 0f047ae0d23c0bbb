// SPDX-License-Identifier: GPL-2.0-only
#include "trace/runner.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <bit>
#include <chrono>
#include <memory>
#include <thread>

namespace e4::trace {
namespace {

std::uint64_t now_ns() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1000000000U + static_cast<std::uint64_t>(t.tv_nsec);
}

double thread_cpu_s() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

std::uint64_t waits(const alloc::Stats& s) {
  std::uint64_t n = s.busy_skips;
  for (const auto* l : {&s.group_locks, &s.order_set_locks, &s.freed_list_lock, &s.locality_locks, &s.inode_locks})
    n += l->contended + l->try_failed;
  return n;
}

/// Where a run's own blocks went: kept small while the clock runs, made into files afterwards.
struct Placed {
  std::uint32_t op = 0;
  FreeRun::Chunk chunk;
};

struct Worker {
  explicit Worker(alloc::Allocator& allocator) : free_run(allocator) {}
  FreeRun free_run;
  std::vector<std::uint32_t> ops;
  RunResult part;
  std::vector<Placed> placed;
  std::vector<FreeRun::Chunk> chunks;  // of one request
  double cpu_s = 0;
};

class Run {
 public:
  Run(const Script& script, alloc::Allocator& allocator, const RunOptions& options)
      : script_(script), allocator_(allocator), options_(options) {}

  Result<RunResult> go();

 private:
  void share_out();
  void work(Worker& w, unsigned index);
  void request(Worker& w, const Op& op, std::uint32_t at, unsigned index);
  [[nodiscard]] std::size_t slice_of(std::uint64_t time_ns) const;
  void find_files(RunResult& result);

  const Script& script_;
  alloc::Allocator& allocator_;
  const RunOptions& options_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<std::atomic<unsigned>[]> passed_;  // threads that went by each commit
  std::vector<std::uint32_t> commit_number_;         // of each op that is one
};

void Run::share_out() {
  std::unordered_map<Ino, unsigned> home;
  const auto n = options_.threads;
  std::uint32_t commits = 0;
  commit_number_.resize(script_.ops.size());
  for (std::uint32_t i = 0; i < script_.ops.size(); ++i) {
    const Op& op = script_.ops[i];
    if (op.kind == Op::Kind::commit) {
      commit_number_[i] = commits++;
      for (auto& w : workers_) w->ops.push_back(i);
      continue;
    }
    unsigned thread = op.cpu % n;
    if (op.ino != 0) {
      const auto mixed = static_cast<unsigned>((op.ino * 0x9E3779B97F4A7C15ULL) >> 32);
      thread = home.emplace(op.ino, options_.mapping == Mapping::cpu ? op.cpu % n : mixed % n).first->second;
    }
    workers_[thread]->ops.push_back(i);
  }
  passed_ = std::make_unique<std::atomic<unsigned>[]>(commits);
}

std::size_t Run::slice_of(std::uint64_t time_ns) const {
  const std::uint64_t span = std::max<std::uint64_t>(1, script_.last_ns - script_.first_ns + 1);
  const std::uint64_t at = time_ns < script_.first_ns ? 0 : time_ns - script_.first_ns;
  return std::min<std::uint64_t>(options_.slices - 1, at * options_.slices / span);
}

void Run::request(Worker& w, const Op& op, std::uint32_t at, unsigned index) {
  const Script::Request& r = script_.requests[op.value];
  alloc::Request q = r.ask;
  if (options_.threads > 1) q.cpu = index;
  w.free_run.translate(q);
  alloc::Outcome o;
  const bool timed = options_.latency_every != 0 && w.part.decisions % options_.latency_every == 0;
  const std::uint64_t begin = timed ? now_ns() : 0;
  const alloc::Status status =
      w.free_run.take_ahead(q, r.kernel_len, o) ? alloc::Status::ok : allocator_.allocate(q, o);
  if (timed) w.part.latency.add(now_ns() - begin);
  ++w.part.decisions;
  if (status == alloc::Status::claim_refused) ++w.part.refused;
  if (status == alloc::Status::no_space) ++w.part.no_space;
  const std::size_t by = o.from_prealloc ? 7 : o.cr == 0 && o.groups == 0 ? 6 : std::min<std::size_t>(o.cr, 5);
  ++w.part.decisions_by[by];
  w.part.groups_by[by] += o.groups;
  RunSlice& slice = w.part.timeline[slice_of(op.time_ns)];
  ++slice.decisions;
  slice.groups_scanned += o.groups;
  w.chunks.clear();
  w.free_run.adopt(q, o, r.kernel_block, r.kernel_len, &w.chunks);
  if ((q.flags & alloc::kHintData) != 0)
    for (const auto& c : w.chunks) w.placed.push_back({at, c});
}

void Run::work(Worker& w, unsigned index) {
  const double cpu_before = thread_cpu_s();
  std::size_t slice = 0;
  std::uint64_t waits_before = index == 0 ? waits(allocator_.stats()) : 0;
  for (const std::uint32_t i : w.ops) {
    const Op& op = script_.ops[i];
    if (index == 0) {  // one thread reads the lock counters as the timeline turns
      if (const std::size_t now = slice_of(op.time_ns); now != slice) {
        const std::uint64_t all = waits(allocator_.stats());
        w.part.timeline[slice].lock_waits += all - waits_before;
        waits_before = all;
        slice = now;
      }
    }
    ++w.part.operations;
    switch (op.kind) {
      case Op::Kind::request: request(w, op, i, index); break;
      case Op::Kind::free: {
        alloc::FreeRequest how;
        how.ino = op.ino;
        how.flags = op.flags;
        how.tid = op.tid;
        how.cpu = options_.threads > 1 ? index : op.cpu;
        w.free_run.free(static_cast<GroupNo>(op.value), op.start, op.len, how);
        ++w.part.frees;
        break;
      }
      case Op::Kind::commit:
        if (passed_[commit_number_[i]].fetch_add(1, std::memory_order_acq_rel) + 1 == options_.threads)
          allocator_.commit(static_cast<Tid>(op.value));
        break;
      case Op::Kind::discard_inode: allocator_.discard_inode(op.ino); break;
      case Op::Kind::reserve: {
        const auto clusters = static_cast<std::int64_t>(op.value);
        if (clusters >= 0)
          allocator_.da_reserve(static_cast<std::uint64_t>(clusters), op.cpu);
        else
          allocator_.da_release(static_cast<std::uint64_t>(-clusters), op.cpu);
        break;
      }
      case Op::Kind::load_group: (void)allocator_.load_group(static_cast<GroupNo>(op.value)); break;
      case Op::Kind::bitmap_cached: allocator_.note_bitmap_cached(static_cast<GroupNo>(op.value)); break;
      case Op::Kind::prefetch: (void)allocator_.prefetch_batch(static_cast<GroupNo>(op.value), op.start, false); break;
      case Op::Kind::inode_allocated: allocator_.note_inode_allocated(static_cast<GroupNo>(op.value)); break;
    }
  }
  if (index == 0) w.part.timeline[slice].lock_waits += waits(allocator_.stats()) - waits_before;
  w.cpu_s = thread_cpu_s() - cpu_before;
}

/// Final layout of every file: the chunks it got, less what was freed by the
/// kernel's names, which each worker's events tell in order.
void Run::find_files(RunResult& result) {
  const alloc::Geometry& g = allocator_.geometry();
  for (const auto& w : workers_) {
    struct Kept {
      Lblk lblk;
      Blk block;
      std::uint32_t blocks;
    };
    // Keyed by the kernel's block, the name frees use.
    std::unordered_map<Ino, std::map<Blk, Kept>> files;
    std::size_t next = 0;
    for (const std::uint32_t i : w->ops) {
      const Op& op = script_.ops[i];
      if (op.kind == Op::Kind::request) {
        const Script::Request& r = script_.requests[op.value];
        for (; next < w->placed.size() && w->placed[next].op == i; ++next) {
          const auto& c = w->placed[next].chunk;
          const Blk kernel = r.kernel_block + (c.lblk - r.ask.lblk);
          files[op.ino][kernel] = {c.lblk, c.block, c.len_clusters << g.cluster_bits};
        }
      } else if (op.kind == Op::Kind::free) {
        const auto file = files.find(op.ino);
        if (file == files.end()) continue;
        const Blk from = g.block_of(static_cast<GroupNo>(op.value), op.start);
        const Blk to = from + (Blk{op.len} << g.cluster_bits);
        auto& map = file->second;
        auto it = map.lower_bound(from);
        if (it != map.begin() && std::prev(it)->first + std::prev(it)->second.blocks > from) --it;
        while (it != map.end() && it->first < to) {
          const auto [start, k] = *it;
          it = map.erase(it);
          if (start < from) map[start] = {k.lblk, k.block, static_cast<std::uint32_t>(from - start)};
          if (start + k.blocks > to) {
            const auto cut = static_cast<std::uint32_t>(to - start);
            it = map.emplace(to, Kept{k.lblk + cut, k.block + cut, k.blocks - cut}).first;
            ++it;
          }
        }
      }
    }
    for (const auto& [ino, map] : files) {
      if (map.empty()) continue;
      std::vector<Kept> kept;
      for (const auto& [kernel, k] : map) kept.push_back(k);
      std::sort(kept.begin(), kept.end(), [](const Kept& a, const Kept& b) { return a.lblk < b.lblk; });
      RunFile& f = result.files[ino];
      const Kept* before = nullptr;
      for (const Kept& k : kept) {
        f.blocks += k.blocks;
        if (before == nullptr || before->lblk + before->blocks != k.lblk || before->block + before->blocks != k.block) {
          ++f.extents;
          const auto group = [&](Blk b) { return (b - g.first_data_block) / g.blocks_per_group; };
          if (group(k.block) == group(kept.front().block)) ++f.in_first_group;
        }
        before = &k;
      }
    }
  }
}

Result<RunResult> Run::go() {
  for (unsigned i = 0; i < options_.threads; ++i) {
    workers_.push_back(std::make_unique<Worker>(allocator_));
    workers_.back()->part.timeline.resize(options_.slices);
  }
  share_out();
  for (auto& w : workers_) w->placed.reserve(w->ops.size());
  const alloc::Stats before = allocator_.stats();
  std::chrono::steady_clock::time_point begin, end;
  if (options_.threads == 1) {
    begin = std::chrono::steady_clock::now();
    work(*workers_[0], 0);
    end = std::chrono::steady_clock::now();
  } else {
    std::barrier start(options_.threads + 1);
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < options_.threads; ++i)
      threads.emplace_back([&, i] {
        start.arrive_and_wait();
        work(*workers_[i], i);
      });
    start.arrive_and_wait();
    begin = std::chrono::steady_clock::now();
    threads.clear();  // joins
    end = std::chrono::steady_clock::now();
  }
  RunResult r;
  r.timeline.resize(options_.slices);
  r.wall_s = std::chrono::duration<double>(end - begin).count();
  for (const auto& w : workers_) {
    const RunResult& p = w->part;
    r.cpu_s += w->cpu_s;
    r.operations += p.operations;
    r.decisions += p.decisions;
    r.frees += p.frees;
    r.refused += p.refused;
    r.no_space += p.no_space;
    r.free_errors += w->free_run.free_errors();
    r.latency.merge(p.latency);
    for (std::size_t i = 0; i < r.decisions_by.size(); ++i) {
      r.decisions_by[i] += p.decisions_by[i];
      r.groups_by[i] += p.groups_by[i];
    }
    for (std::size_t i = 0; i < r.timeline.size(); ++i) {
      r.timeline[i].decisions += p.timeline[i].decisions;
      r.timeline[i].groups_scanned += p.timeline[i].groups_scanned;
      r.timeline[i].lock_waits += p.timeline[i].lock_waits;
    }
  }
  r.stats = allocator_.stats();
  r.stats.groups_loaded -= before.groups_loaded;
  r.stats.load_ns -= before.load_ns;
  find_files(r);
  return r;
}

}  // namespace

void LatencyHistogram::add(std::uint64_t ns) {
  std::size_t at = ns;
  if (ns >= kSteps) {
    const auto top = static_cast<unsigned>(std::bit_width(ns)) - 1;  // ns in [2^top, 2^(top+1))
    at = (top - 3) * kSteps + ((ns >> (top - 4)) & (kSteps - 1));
  }
  ++counts_[std::min(at, counts_.size() - 1)];
  ++samples_;
}

void LatencyHistogram::merge(const LatencyHistogram& o) {
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += o.counts_[i];
  samples_ += o.samples_;
}

double LatencyHistogram::percentile(double percent) const {
  if (samples_ == 0) return 0;
  const double wanted = static_cast<double>(samples_) * percent / 100;
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (counts_[i] == 0 || static_cast<double>(seen) < wanted) continue;
    if (i < kSteps) return static_cast<double>(i);
    const std::size_t top = i / kSteps + 3, step = i % kSteps;
    return static_cast<double>((kSteps + step) << (top - 4));
  }
  return 0;
}

Result<RunResult> run_script(const Script& script, alloc::Allocator& allocator, const RunOptions& options) {
  if (options.threads == 0 || options.threads > 1024) return make_error(ErrorKind::usage, "threads: 1 to 1024");
  if (options.slices == 0) return make_error(ErrorKind::usage, "at least one slice of time");
  if (script.ops.size() > UINT32_MAX) return make_error(ErrorKind::usage, "more than 4 G operations");
  return Run(script, allocator, options).go();
}

}  // namespace e4::trace
