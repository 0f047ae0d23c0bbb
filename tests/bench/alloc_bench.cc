// SPDX-License-Identifier: GPL-2.0-only
// Decisions a second of the block allocator: pairs of allocate and free, full criteria chain, requests of 8 KiB to
// 1 MiB (uniform in size), on a file system that is empty, aged to 95 % (files of those sizes made and removed at
// random), or shredded to 95 % (free runs of 1 to 64 blocks only, so that nothing large fits anywhere).
//   alloc [SECONDS A CELL] [THREADS ...]
#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "alloc/allocator.h"
#include "alloc/bits.h"
#include "base/random.h"
#include "tests/support/stress.h"

namespace {

using namespace e4;
using namespace e4::alloc;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kMinBlocks = 2, kMaxBlocks = 256;
enum class Fill { empty, aged, shredded };
/// powers: fallocate of 8 KiB << n; exact: fallocate of any length; delayed: writeback with normalization and preallocation.
/// fallocate2: the scalability test of that name; each thread grows a file of its own in 8 KiB steps to 1 MiB, then
/// frees it. The others take a new inode for every request, so that two threads meet at every stream goal.
enum class Kind { powers, exact, delayed, fallocate2 };

std::uint32_t blocks_of(e4::Random& random, Kind kind) {
  if (kind == Kind::powers) return kMinBlocks << random.below(8);
  return static_cast<std::uint32_t>(random.between(kMinBlocks, kMaxBlocks));
}

double cpu_seconds() {
  rusage u{};
  ::getrusage(RUSAGE_SELF, &u);
  const auto s = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; };
  return s(u.ru_utime) + s(u.ru_stime);
}

struct World {
  Geometry geo;
  MountOptions mount;
  std::unique_ptr<MemorySource> source;
  std::unique_ptr<Allocator> a;
};

Request request(Ino ino, std::uint32_t blocks, bool exact, std::uint32_t cpu) {
  Request r;
  r.ino = ino;
  r.len_clusters = blocks;
  r.goal = 32768;
  r.i_size = std::uint64_t{blocks} * 4096;
  r.flags = kHintData | (exact ? kHintNoPrealloc : kDelallocReserved | kUseReserved);
  r.cpu = cpu;
  return r;
}

std::unique_ptr<World> make(Fill fill, GroupNo groups, const Policy& policy, std::uint32_t cpus) {
  auto w = std::make_unique<World>();
  w->geo.blocks_count = Blk{groups} * 32768;
  w->mount.possible_cpus = cpus;
  w->source = std::make_unique<MemorySource>(w->geo);
  Random random(1);
  for (GroupNo g = 0; g < groups; ++g) {
    w->source->set_used(g, 0, g % 16 == 0 ? 600 : 2);
    if (fill != Fill::shredded) continue;
    w->source->set_used(g, 0, 32768);
    std::uint32_t free = 0;
    while (free < 32768 / 20) {
      const auto n = static_cast<std::uint32_t>(random.between(1, random.one_in(8) ? 64 : 8));
      const auto at = static_cast<std::uint32_t>(random.below(32768 - 64));
      w->source->set_free(g, at, n);
      free = bits::count_zero(w->source->words(g).data(), 0, 32768);
    }
  }
  w->a = std::move(*Allocator::create(w->geo, w->mount, Tunables::defaults(w->geo, w->mount), policy, *w->source));
  if (!w->a->load_all()) std::abort();
  if (fill == Fill::aged) {
    std::vector<Outcome> files;
    const std::int64_t target = static_cast<std::int64_t>(w->geo.blocks_count / 20);
    Outcome o;
    Ino ino = 12;
    for (int round = 0; round < 3; ++round) {
      while (w->a->free_clusters_count() > target) {
        if (w->a->allocate(request(ino++, static_cast<std::uint32_t>(random.between(kMinBlocks, kMaxBlocks)), true, 0), o) != Status::ok) break;
        files.push_back(o);
      }
      if (round == 2) break;
      for (std::size_t i = 0; i < files.size() / 8; ++i) {
        const std::size_t k = random.below(files.size());
        FreeRequest f;
        f.block = files[k].block;
        f.count_blocks = files[k].len;
        f.when = FreeRequest::When::at_once;
        if (!w->a->free(f)) std::abort();
        files[k] = files.back();
        files.pop_back();
      }
    }
  }
  return w;
}

std::uint64_t run_fallocate2(Allocator& a, std::uint32_t thread, double seconds) {
  const Ino ino = 12 + thread;
  std::vector<Outcome> pieces;
  std::uint64_t pairs = 0;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  Outcome o;
  while (Clock::now() < end) {
    for (Lblk at = 0; at < 256; at += 2, ++pairs) {
      Request r = request(ino, 2, true, thread);
      r.lblk = r.lleft = r.lright = at;
      r.i_size = std::uint64_t{at} * 4096;
      if (!pieces.empty()) {
        r.lleft = at - 1;
        r.pleft = pieces.back().block + pieces.back().len - 1;
        r.goal = r.pleft + 1;
      }
      if (a.allocate(r, o) == Status::ok) pieces.push_back(o);
    }
    a.discard_inode(ino);
    for (const Outcome& p : pieces) {
      FreeRequest f;
      f.ino = ino;
      f.block = p.block;
      f.count_blocks = p.len;
      f.when = FreeRequest::When::at_once;
      f.cpu = thread;
      if (!a.free(f)) std::abort();
    }
    pieces.clear();
  }
  return pairs;
}

/// One thread's stream until the time is over: keeps a ring of pieces and frees the oldest, or a random one.
std::uint64_t run(Allocator& a, std::uint32_t thread, Kind kind, double seconds) {
  if (kind == Kind::fallocate2) return run_fallocate2(a, thread, seconds);
  const bool exact = kind != Kind::delayed;
  struct Piece {
    Ino ino = 0;
    Blk block = 0;
    std::uint32_t len = 0;
  };
  std::vector<Piece> ring(256);
  Random random(thread + 7);
  Ino ino = 1000 + thread * 1000000;
  std::uint64_t pairs = 0;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  Outcome o;
  while (Clock::now() < end) {
    for (int i = 0; i < 512; ++i, ++pairs) {
      Piece& p = ring[random.below(ring.size())];
      if (p.len > 0) {
        if (!exact) a.discard_inode(p.ino);
        FreeRequest f;
        f.ino = p.ino;
        f.block = p.block;
        f.count_blocks = p.len;
        f.when = FreeRequest::When::at_once;
        f.cpu = thread;
        if (!a.free(f)) std::abort();
        p.len = 0;
      }
      const std::uint32_t blocks = blocks_of(random, kind);
      if (a.allocate(request(++ino, blocks, exact, thread), o) == Status::ok) p = {ino, o.block, o.len};
    }
  }
  for (const Piece& p : ring) {
    if (p.len == 0) continue;
    if (!exact) a.discard_inode(p.ino);
    FreeRequest f;
    f.block = p.block;
    f.count_blocks = p.len;
    f.when = FreeRequest::When::at_once;
    if (!a.free(f)) std::abort();
  }
  return pairs;
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 0.5;
  std::vector<unsigned> threads;
  for (int i = 2; i < argc; ++i) threads.push_back(static_cast<unsigned>(std::atoi(argv[i])));
  if (threads.empty()) threads = {1, 2, 4, 8, 16};
  const struct { const char* name; const char* settings; } policies[] = {
      {"linux-6.18", ""},
      {"test-first, split", "read-bit=test-first group-layout=split"},
      {"linux-6.15", "preset=linux-6.15"},
  };
  fmt::print("{:<10} {:<11} {:<18} {:>7} {:>12} {:>10} {:>10} {:>9} {:>9}\n", "image", "requests", "policy", "threads",
             "pairs/s", "ns/pair", "cpu ns", "contended", "skips");
  const std::string only = std::getenv("ONLY") ? std::getenv("ONLY") : "";
  for (const auto& [fill, fill_name] : {std::pair{Fill::empty, "empty"}, {Fill::aged, "aged"}, {Fill::shredded, "shredded"}}) {
    for (const auto& [kind, kind_name] : {std::pair{Kind::powers, "powers"}, {Kind::exact, "exact"}, {Kind::delayed, "delayed"},
                                         {Kind::fallocate2, "fallocate2"}}) {
      if (!only.empty() && only != std::string(fill_name) + "-" + kind_name) continue;
      for (const auto& p : policies) {
        Policy policy;
        std::string_view s = p.settings;
        while (!s.empty()) {
          const std::size_t at = std::min(s.find(' '), s.size());
          if (!policy.set(s.substr(0, at))) return 1;
          s.remove_prefix(std::min(s.size(), at + 1));
        }
        for (const unsigned n : threads) {
          auto w = make(fill, 256, policy, std::max(n, 2U));
          const Kind of_kind = kind;
          std::vector<std::uint64_t> done(n);
          const double cpu = cpu_seconds();
          const auto t0 = Clock::now();
          e4::testing_support::together(n, [&](unsigned t) { done[t] = run(*w->a, t, of_kind, seconds); });
          const double wall = std::chrono::duration<double>(Clock::now() - t0).count();
          std::uint64_t pairs = 0;
          for (const auto d : done) pairs += d;
          const double used = cpu_seconds() - cpu;
          const Stats st = w->a->stats();
          fmt::print("{:<10} {:<11} {:<18} {:>7} {:>12.0f} {:>10.1f} {:>10.1f} {:>9} {:>9}\n", fill_name, kind_name,
                     p.name, n, static_cast<double>(pairs) / wall, wall * 1e9 / static_cast<double>(pairs),
                     used * 1e9 / static_cast<double>(pairs), st.group_locks.contended, st.busy_skips);
          std::fflush(stdout);
          if (const auto ok = w->a->verify(); !ok) {
            fmt::print("verify: {}\n", ok.error().message());
            return 1;
          }
        }
      }
    }
  }
  return 0;
}
