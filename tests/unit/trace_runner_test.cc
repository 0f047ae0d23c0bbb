// SPDX-License-Identifier: GPL-2.0-only
#include <gtest/gtest.h>

#include <map>

#include "alloc/bitmap_source.h"
#include "base/random.h"
#include "trace/runner.h"

namespace e4::trace {
namespace {

alloc::Geometry small_geometry() {
  alloc::Geometry g;
  g.block_bytes = 4096;
  g.blocks_count = 32 * 32768ULL;
  g.inodes_per_group = 1024;
  return g;
}

struct Fixture {
  explicit Fixture(unsigned cpus) : source(small_geometry()) {
    mount.possible_cpus = cpus;
    auto a = alloc::Allocator::create(small_geometry(), mount, alloc::Tunables::defaults(small_geometry(), mount), {}, source);
    if (!a) throw std::runtime_error(a.error().message());
    allocator = std::move(*a);
  }
  alloc::MountOptions mount;
  alloc::MemorySource source;
  std::unique_ptr<alloc::Allocator> allocator;
};

/// A script as a recording would give it: an allocator of its own plays the kernel.
Script make_script(std::uint64_t seed, int steps, std::uint64_t& free_at_end) {
  Fixture kernel(2);
  Random rng(seed);
  Script s;
  struct File {
    Lblk next = 0;
    Blk last = 0;
    std::vector<std::pair<Blk, std::uint32_t>> got;
  };
  std::map<Ino, File> files;
  Tid tid = 1;
  std::uint64_t time = 1000;
  s.first_ns = time;
  for (int i = 0; i < steps; ++i) {
    time += 100;
    Op op;
    op.time_ns = time;
    op.cpu = static_cast<std::uint16_t>(rng.below(2));
    op.ino = static_cast<Ino>(12 + rng.below(40));
    File& f = files[op.ino];
    if (rng.one_in(40)) {
      op.kind = Op::Kind::commit;
      op.ino = 0;
      op.value = tid;
      kernel.allocator->commit(tid++);
    } else if (rng.one_in(5) && !f.got.empty()) {
      const auto [block, len] = f.got.back();
      f.got.pop_back();
      Op discard = op;  // every path of ext4 that frees a file's blocks drops its preallocations first
      discard.kind = Op::Kind::discard_inode;
      s.ops.push_back(discard);
      kernel.allocator->discard_inode(op.ino);
      op.kind = Op::Kind::free;
      op.value = block / 32768;
      op.start = static_cast<std::uint32_t>(block % 32768);
      op.len = len;
      op.tid = tid;
      alloc::FreeRequest how;
      how.tid = tid;
      how.ino = op.ino;
      EXPECT_TRUE(kernel.allocator->free_clusters(static_cast<GroupNo>(op.value), op.start, len, how));
    } else if (rng.one_in(12)) {
      op.kind = Op::Kind::discard_inode;
      kernel.allocator->discard_inode(op.ino);
    } else {
      Script::Request r;
      r.ask.ino = op.ino;
      r.ask.cpu = op.cpu;
      r.ask.flags = alloc::kHintData | (rng.one_in(2) ? 0U : std::uint32_t{alloc::kHintNoPrealloc});
      r.ask.len_clusters = static_cast<std::uint32_t>(rng.between(1, 64));
      r.ask.lblk = r.ask.lleft = r.ask.lright = f.next;
      r.ask.goal = f.last != 0 ? f.last + 1 : 32768;
      if (f.last != 0) {
        r.ask.lleft = f.next - 1;
        r.ask.pleft = f.last;
      }
      r.ask.i_size = (std::uint64_t{f.next} + r.ask.len_clusters) * 4096;
      alloc::Outcome o;
      EXPECT_EQ(kernel.allocator->allocate(r.ask, o), alloc::Status::ok);
      r.kernel_block = o.block;
      r.kernel_len = o.len;
      f.got.emplace_back(o.block, o.len);
      f.next += o.len;
      f.last = o.block + o.len - 1;
      op.value = s.requests.size();
      s.requests.push_back(r);
    }
    s.ops.push_back(op);
  }
  s.last_ns = time;
  kernel.allocator->commit(tid);
  for (auto& [ino, f] : files) kernel.allocator->discard_inode(ino);
  free_at_end = static_cast<std::uint64_t>(kernel.allocator->free_clusters_count());
  return s;
}

TEST(Runner, OneThreadMakesTheRecordedDecisions) {
  std::uint64_t free_clusters = 0;
  const Script s = make_script(7, 4000, free_clusters);
  Fixture ours(2);
  auto r = run_script(s, *ours.allocator, {.threads = 1});
  ASSERT_TRUE(r) << r.error().message();
  EXPECT_EQ(r->free_errors, 0U);
  EXPECT_EQ(static_cast<std::uint64_t>(ours.allocator->free_clusters_count()), free_clusters);
  EXPECT_EQ(r->decisions, s.requests.size());
  std::uint64_t by = 0, sliced = 0;
  for (const auto n : r->decisions_by) by += n;
  for (const auto& t : r->timeline) sliced += t.decisions;
  EXPECT_EQ(by, r->decisions);
  EXPECT_EQ(sliced, r->decisions);
  EXPECT_EQ(r->latency.samples(), r->decisions);
  EXPECT_TRUE(ours.allocator->verify());
}

TEST(Runner, ManyThreadsLoseAndInventNothing) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed)
    for (const unsigned threads : {2U, 5U}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " threads " << threads);
      std::uint64_t free_clusters = 0;
      const Script s = make_script(seed, 6000, free_clusters);
      Fixture ours(threads);
      auto r = run_script(s, *ours.allocator, {.threads = threads, .mapping = seed % 2 != 0 ? Mapping::inode : Mapping::cpu});
      ASSERT_TRUE(r) << r.error().message();
      EXPECT_EQ(r->free_errors, 0U);
      EXPECT_EQ(static_cast<std::uint64_t>(ours.allocator->free_clusters_count()), free_clusters)
          << "the same blocks in use, wherever they lie";
      const auto ok = ours.allocator->verify();
      EXPECT_TRUE(ok) << ok.error().message();
    }
}

TEST(Runner, FilesAtTheEndOwnWhatTheScriptLeftThem) {
  std::uint64_t free_clusters = 0;
  const Script s = make_script(3, 5000, free_clusters);
  std::map<Ino, std::uint64_t> want;
  for (const Op& op : s.ops) {
    if (op.kind == Op::Kind::request) want[op.ino] += s.requests[op.value].kernel_len;
    if (op.kind == Op::Kind::free) want[op.ino] -= op.len;
  }
  Fixture ours(3);
  auto r = run_script(s, *ours.allocator, {.threads = 3});
  ASSERT_TRUE(r);
  for (const auto& [ino, blocks] : want) {
    const auto it = r->files.find(ino);
    EXPECT_EQ(it == r->files.end() ? 0 : it->second.blocks, blocks) << "inode " << ino;
  }
}

TEST(LatencyHistogram, PercentilesAreWithinOneStep) {
  LatencyHistogram h;
  for (std::uint64_t i = 1; i <= 100000; ++i) h.add(i);
  EXPECT_NEAR(h.percentile(50), 50000, 50000 * 0.07);
  EXPECT_NEAR(h.percentile(99), 99000, 99000 * 0.07);
  EXPECT_EQ(LatencyHistogram().percentile(50), 0);
}

}  // namespace
}  // namespace e4::trace
