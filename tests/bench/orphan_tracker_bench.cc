// SPDX-License-Identifier: GPL-2.0-only
// Orphan tracking by policy and threads, after the kernel's stress-orphan
// (every thread truncates its own file byte by byte: track, work, untrack).
// All policies run in turn in every round; a cell is the median of the rounds.
//   orphan_tracker [ROUNDS] [MILLISECONDS A CELL]
#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "alloc/orphan_tracker.h"
#include "support/stress.h"

namespace {

using namespace e4::alloc;
using Clock = std::chrono::steady_clock;

struct Variant {
  const char* name;
  bool track;
  Policy::OrphanTracking policy;
};
constexpr std::array<Variant, 4> kVariants{{
    {"list", true, Policy::OrphanTracking::list},
    {"file-locked", true, Policy::OrphanTracking::file_locked},
    {"file-lockless", true, Policy::OrphanTracking::file_lockless},
    {"no tracking", false, Policy::OrphanTracking::list},
}};
constexpr std::array<unsigned, 5> kThreads{1, 2, 4, 8, 16};
constexpr std::uint32_t kFileBlocks = 32;  // of 4 KiB, the default of a small file system

struct Cell {
  double ops_s = 0;       // pairs of add and remove a wall second
  double cpu_ns = 0;      // CPU time a pair, all threads
  double locks = 0;       // locks all threads share that a pair takes
  double contended = 0;   // lock found held, per thousand pairs
  double wait_turns = 0;  // turns of waiting, per thousand pairs
  double retries = 0;     // counter or slot lost to another CPU, per thousand pairs
};

double cpu_seconds() {
  rusage u{};
  ::getrusage(RUSAGE_SELF, &u);
  const auto s = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; };
  return s(u.ru_utime) + s(u.ru_stime);
}

/// What a truncate does beside the tracking: a chain of multiplications nobody can shorten.
std::uint64_t work(std::uint64_t x, unsigned turns) {
  for (unsigned i = 0; i < turns; ++i) x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x;
}

Cell run(const Variant& v, unsigned threads, unsigned turns, std::chrono::milliseconds span) {
  OrphanTracker::Options o;
  o.policy = v.policy;
  o.file_blocks = kFileBlocks;
  o.inodes_count = 1U << 20;
  OrphanTracker tracker(o);
  struct alignas(64) Own {
    OrphanInode inode;
    std::uint64_t pairs = 0, sink = 0;
  };
  const auto own = std::make_unique<Own[]>(threads);
  std::atomic<bool> stop{false};
  const double cpu_before = cpu_seconds();
  const auto start = Clock::now();
  std::jthread timer([&] {
    std::this_thread::sleep_for(span);
    stop.store(true, std::memory_order_relaxed);
  });
  e4::testing_support::together(threads, [&](unsigned t) {
    Own& me = own[t];
    me.inode.ino = 100 + t;
    std::uint64_t x = t + 1;
    while (!stop.load(std::memory_order_relaxed)) {
      for (int i = 0; i < 16; ++i) {
        if (v.track) tracker.add(me.inode, t);
        x = work(x, turns);
        if (v.track) tracker.remove(me.inode);
      }
      me.pairs += 16;
    }
    me.sink = x;
  });
  const double wall = std::chrono::duration<double>(Clock::now() - start).count();
  const double cpu = cpu_seconds() - cpu_before;
  std::uint64_t pairs = 0;
  for (unsigned t = 0; t < threads; ++t) pairs += own[t].pairs;
  const OrphanStats s = tracker.stats();
  if (const auto verdict = tracker.verify(); !verdict || !tracker.file_empty()) {
    fmt::print(stderr, "orphan_tracker: {} left something behind\n", v.name);
    std::exit(1);
  }
  const double n = static_cast<double>(std::max<std::uint64_t>(pairs, 1));
  return {n / wall, cpu / n * 1e9, static_cast<double>(s.list_lock.acquired + s.file_lock.acquired) / n,
          static_cast<double>(s.list_lock.contended + s.file_lock.contended) / n * 1000,
          static_cast<double>(s.list_lock.wait_turns + s.file_lock.wait_turns) / n * 1000,
          static_cast<double>(s.slots.counter_retries + s.slots.slot_retries) / n * 1000};
}

double median(std::vector<Cell>& cells, double Cell::*field) {
  std::sort(cells.begin(), cells.end(), [field](const Cell& a, const Cell& b) { return a.*field < b.*field; });
  return cells[cells.size() / 2].*field;
}

void table(const char* what, unsigned turns, int rounds, std::chrono::milliseconds span) {
  std::array<std::array<std::vector<Cell>, kVariants.size()>, kThreads.size()> cells;
  for (int r = 0; r < rounds; ++r)
    for (std::size_t n = 0; n < kThreads.size(); ++n)
      for (std::size_t v = 0; v < kVariants.size(); ++v)
        cells[n][v].push_back(run(kVariants[v], kThreads[n], turns, span));
  fmt::print("{}\n{:>7} {:<14} {:>9} {:>8} {:>9} {:>9} {:>6} {:>10} {:>10} {:>8}\n", what, "threads", "policy", "Mpairs/s",
             "x list", "x 1 thr", "CPU ns", "locks", "contended", "turns", "retries");
  std::array<double, kVariants.size()> alone{};
  for (std::size_t n = 0; n < kThreads.size(); ++n) {
    const double list = median(cells[n][0], &Cell::ops_s);
    for (std::size_t v = 0; v < kVariants.size(); ++v) {
      auto& c = cells[n][v];
      const double ops = median(c, &Cell::ops_s);
      if (n == 0) alone[v] = ops;
      fmt::print("{:>7} {:<14} {:>9.2f} {:>8.2f} {:>9.2f} {:>9.0f} {:>6.1f} {:>10.2f} {:>10.1f} {:>8.2f}\n", kThreads[n],
                 kVariants[v].name, ops / 1e6, ops / list, ops / alone[v], median(c, &Cell::cpu_ns),
                 median(c, &Cell::locks), median(c, &Cell::contended), median(c, &Cell::wait_turns), median(c, &Cell::retries));
    }
  }
  fmt::print("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = std::max(1, argc > 1 ? std::atoi(argv[1]) : 5);
  const std::chrono::milliseconds span(std::max(1, argc > 2 ? std::atoi(argv[2]) : 60));
  fmt::print("orphan tracking on {} CPUs, orphan file of {} blocks; medians of {} rounds of {} ms a cell\n"
             "locks: shared locks taken by a pair of add and remove; contended, turns, retries: per 1000 pairs\n\n",
             std::thread::hardware_concurrency(), kFileBlocks, rounds, span.count());
  table("bare: add and remove, nothing between", 0, rounds, span);
  table("with about a microsecond of work between", 600, rounds, span);
  return 0;
}
