// SPDX-License-Identifier: GPL-2.0-only
// Numbers of a damaged recording: whatever they are, no crash, no endless search, and the books stay right.
#include <gtest/gtest.h>

#include "base/random.h"
#include "tests/support/alloc_recipes.h"

namespace e4::test {
namespace {

/// Small, near a limit, or anything.
std::uint64_t odd(Random& r, std::uint64_t near) {
  switch (r.below(5)) {
    case 0: return r.below(20);
    case 1: return near + r.below(9) - 4;
    case 2: return r.next();
    case 3: return 0xFFFFFFFFULL - r.below(5);
    default: return r.below(near + 1);
  }
}

TEST(AllocHostile, GarbageRequestsKeepTheBooksRight) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random r(seed);
    alloc::Geometry g;
    g.block_bytes = 1024;
    g.cluster_bits = r.one_in(3) ? 2 : 0;
    g.clusters_per_group = static_cast<std::uint32_t>(8 * r.between(10, 1024));
    g.blocks_per_group = g.clusters_per_group << g.cluster_bits;
    g.first_data_block = g.cluster_bits ? 0 : 1;
    g.blocks_count = g.first_data_block + g.blocks_per_group * r.between(1, 9) - r.below(g.blocks_per_group - 1);
    g.log_groups_per_flex = static_cast<std::uint32_t>(r.below(6));
    alloc::MountOptions m;
    m.possible_cpus = static_cast<std::uint32_t>(r.between(0, 3));
    m.stripe_blocks = static_cast<std::uint32_t>(odd(r, 32));
    m.optimize_scan = r.one_in(2);
    m.reserved_clusters = odd(r, 100);
    m.root_blocks = r.one_in(2) ? 0 : odd(r, 100);
    if (r.one_in(2)) {
      m.root_blocks = 0;
      m.reserved_clusters = 0;
    }
    Bench b(g, m);
    if (r.one_in(2)) {
      ASSERT_TRUE(b.policy.set("preset=linux-6.15"));
    }
    b.start();
    alloc::Allocator& a = *b.a;
    alloc::Tunables t = a.tunables();
    t.mb_group_prealloc = static_cast<std::uint32_t>(odd(r, 512));
    t.mb_stream_req = static_cast<std::uint32_t>(odd(r, 16));
    t.mb_max_to_scan = static_cast<std::uint32_t>(odd(r, 200));
    t.mb_min_to_scan = static_cast<std::uint32_t>(odd(r, 10));
    t.mb_order2_req = static_cast<std::uint32_t>(odd(r, 2));
    t.mb_max_linear_groups = static_cast<std::uint32_t>(odd(r, 4));
    t.mb_best_avail_max_trim_order = static_cast<std::uint32_t>(odd(r, 3));
    t.mb_prefetch = static_cast<std::uint32_t>(odd(r, 32));
    t.mb_prefetch_limit = static_cast<std::uint32_t>(odd(r, 32));
    a.set_tunables(t);
    alloc::EventLog log;
    for (int step = 0; step < 300; ++step) {
      alloc::Request rq;
      rq.ino = static_cast<Ino>(odd(r, 20));
      rq.len_clusters = static_cast<std::uint32_t>(odd(r, 300));
      rq.lblk = static_cast<Lblk>(odd(r, 4000));
      rq.goal = odd(r, g.blocks_count);
      rq.lleft = static_cast<Lblk>(odd(r, rq.lblk));
      rq.lright = static_cast<Lblk>(odd(r, rq.lblk));
      rq.pleft = r.one_in(2) ? 0 : odd(r, g.blocks_count);
      rq.pright = r.one_in(2) ? 0 : odd(r, g.blocks_count);
      rq.flags = static_cast<std::uint32_t>(r.one_in(2) ? r.next() : MiniFile::kWriteback);
      rq.cpu = static_cast<std::uint32_t>(odd(r, 4));
      rq.i_size = odd(r, 1 << 22);
      rq.open_for_write = r.one_in(2);
      rq.extent_mapped = !r.one_in(4);
      log.clear();
      alloc::Outcome out;
      const std::uint64_t what = r.below(8);
      // ext4 drops a file's preallocations before it frees its blocks; whose these are nobody knows here.
      if (what < 2) a.discard_all();
      switch (what) {
        case 0: {
          alloc::FreeRequest f;
          f.block = odd(r, g.blocks_count);
          f.count_blocks = odd(r, 40);
          f.flags = static_cast<std::uint32_t>(r.next()) & ~std::uint32_t{alloc::kFreeRereserve};
          f.tid = static_cast<Tid>(odd(r, 3));
          (void)a.free(f, &log).has_value();
          break;
        }
        case 1: {
          alloc::FreeRequest f;
          f.tid = static_cast<Tid>(odd(r, 3));
          (void)a.free_clusters(static_cast<GroupNo>(odd(r, 9)), static_cast<std::uint32_t>(odd(r, g.clusters_per_group)),
                                static_cast<std::uint32_t>(odd(r, 40)), f, &log)
              .has_value();
          break;
        }
        case 2: {
          alloc::Imposed c;
          c.block = odd(r, g.blocks_count);
          c.len = static_cast<std::uint32_t>(odd(r, 40));
          c.from_prealloc = r.one_in(2);
          c.group = static_cast<GroupNo>(odd(r, 3));
          c.start = static_cast<std::uint32_t>(odd(r, g.clusters_per_group));
          c.chunk_len = r.one_in(2) ? 0 : static_cast<std::uint32_t>(odd(r, 60));
          c.stream = r.one_in(2);
          (void)a.impose(rq, c).has_value();
          break;
        }
        case 3:
          (void)a.impose_release(static_cast<GroupNo>(odd(r, 9)), static_cast<std::uint32_t>(odd(r, g.clusters_per_group)),
                                 static_cast<std::uint32_t>(odd(r, 40)))
              .has_value();
          break;
        case 4: a.commit(static_cast<Tid>(odd(r, 3)), &log); break;
        case 5:
          a.discard_inode(rq.ino, &log);
          (void)a.prefetch_batch(static_cast<GroupNo>(odd(r, 9)), static_cast<std::uint32_t>(odd(r, 9)), r.one_in(2)).has_value();
          a.note_inode_allocated(static_cast<GroupNo>(odd(r, 9)));
          break;
        default:
          if (a.allocate(rq, out, &log) == alloc::Status::ok && r.one_in(4)) a.undo(rq, out);
          break;
      }
      (void)a.take_error();
      ASSERT_LT(log.size(), 20000U);
    }
    const auto ok = a.verify();
    ASSERT_TRUE(ok) << ok.error().message();
  }
}

}  // namespace
}  // namespace e4::test
