// SPDX-License-Identifier: GPL-2.0-only
// Random sequences of calls against the naive model; a failing sequence is shrunk to a short one.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "tests/support/alloc_recipes.h"
#include "tests/support/naive_space.h"

namespace e4::test {
namespace {

struct Step {
  std::uint8_t what;
  std::uint16_t a, b;
  std::uint8_t flags;
};
void show(const Step& s, std::ostream& o) {
  o << "{" << unsigned{s.what} << ", " << s.a << ", " << s.b << ", " << unsigned{s.flags} << "}";
}
[[maybe_unused]] std::ostream& operator<<(std::ostream& o, const Step& s) {
  show(s, o);
  return o;
}

rc::Gen<Step> step() {
  return rc::gen::build<Step>(rc::gen::set(&Step::what, rc::gen::inRange<std::uint8_t>(0, 100)),
                              rc::gen::set(&Step::a, rc::gen::arbitrary<std::uint16_t>()),
                              rc::gen::set(&Step::b, rc::gen::arbitrary<std::uint16_t>()),
                              rc::gen::set(&Step::flags, rc::gen::arbitrary<std::uint8_t>()));
}

struct Shape {
  std::uint32_t cluster_bits;
  std::uint32_t stripe;
  bool optimized;
  const char* policy;
};

/// Runs the steps; an assertion of rapidcheck tells what went wrong.
void run(const std::vector<Step>& steps, const Shape& shape) {
  alloc::Geometry g;
  g.block_bytes = 1024;
  g.cluster_bits = shape.cluster_bits;
  g.first_data_block = shape.cluster_bits ? 0 : 1;
  g.clusters_per_group = 1024;
  g.blocks_per_group = 1024U << shape.cluster_bits;
  g.blocks_count = g.first_data_block + 5 * Blk{g.blocks_per_group} - 304;  // a short last group, of whole clusters
  g.log_groups_per_flex = 2;
  alloc::MountOptions m;
  m.possible_cpus = 2;
  m.stripe_blocks = shape.stripe;
  m.optimize_scan = shape.optimized;
  m.reserved_clusters = 3;
  alloc::Policy policy;
  RC_ASSERT(policy.set(shape.policy).has_value());
  Bench b(g, m, policy);
  for (GroupNo i = 0; i < g.groups(); ++i) b.source.set_used(i, 0, 30 + i);
  b.source.set_uninit(3, true);
  b.start();
  alloc::Allocator& a = *b.a;
  RC_ASSERT(a.load_all().has_value());
  NaiveSpace model(a);
  bool agrees = true;
  std::vector<MiniFile> files;
  for (Ino ino = 12; ino < 17; ++ino) {
    MiniFile& f = files.emplace_back(a, ino);
    f.after_allocate = [&](const alloc::Outcome& o) { agrees = agrees && model.take(o.block, o.len); };
    f.before_free = [&](Blk block, std::uint64_t blocks) {
      agrees = agrees && model.give(block, static_cast<std::uint32_t>(blocks >> g.cluster_bits));
    };
  }
  for (const Step& s : steps) {
    MiniFile& f = files[s.flags % files.size()];
    f.cpu = s.flags >> 6;
    f.open = s.flags & 16;
    f.extent_mapped = s.flags & 32;
    f.i_size = std::uint64_t{s.b} * 512;
    const auto [lblk, blocks] = f.hole(s.b % 3000, 1 + s.a % (s.flags & 0x80 ? 400 : 20));
    const std::uint32_t flags = s.flags & 1 ? MiniFile::kFallocate : s.flags & 2 ? alloc::kHintData : s.flags & 4 ? MiniFile::kWriteback : 0U;
    if (s.what < 60) {
      // Whole clusters, so that the model can count in them.
      const std::uint32_t whole = std::max(1U, blocks >> g.cluster_bits) << g.cluster_bits;
      for (const alloc::Outcome& o : f.map(lblk, whole, flags)) {
        if (o.status == alloc::Status::ok) continue;
        RC_ASSERT(o.status == alloc::Status::claim_refused ||
                  a.free_clusters_count() == static_cast<std::int64_t>(a.pending_clusters()));
      }
    } else if (s.what < 66) {
      // Undone, a request is as if it had not been.
      alloc::Request rq = f.request(lblk, blocks, flags);
      if (s.flags & 8) rq.flags |= alloc::kHintTryGoal;
      alloc::Outcome out;
      const std::int64_t free = a.free_clusters_count();
      if (a.allocate(rq, out) == alloc::Status::ok) {
        RC_ASSERT(out.len >= 1U);
        RC_ASSERT(a.free_clusters_count() == free - out.len);
        a.undo(rq, out);
      }
      RC_ASSERT(a.free_clusters_count() == free);
    } else if (s.what < 88 && !f.extents().empty()) {
      a.discard_inode(f.ino());  // as every caller that frees a file's blocks does
      const auto [start, e] = *std::next(f.extents().begin(), static_cast<std::ptrdiff_t>(s.a % f.extents().size()));
      f.punch(start, e.len, s.b % 3, s.flags & 1 ? alloc::FreeRequest::When::at_commit : alloc::FreeRequest::When::at_once);
      RC_ASSERT(f.failed_frees == 0U);
      alloc::FreeRequest twice;
      twice.block = e.pblk;
      twice.count_blocks = e.len;
      RC_ASSERT(!a.free(twice).has_value());
    } else if (s.what < 94) {
      a.discard_inode(f.ino());
      RC_ASSERT(a.preallocations(f.ino()) == 0U);
    } else if (s.what < 97) {
      a.commit(s.b % 3);
    } else {
      const std::int64_t free = a.free_clusters_count();
      const alloc::Explanation e = a.explain(f.request(lblk, blocks, alloc::kHintData));
      RC_ASSERT(!e.text().empty());
      RC_ASSERT(a.free_clusters_count() == free);
    }
    RC_ASSERT(agrees);
    const auto ok = a.verify();
    if (!ok) RC_FAIL(ok.error().message());
  }
  const std::string difference = model.difference(a);
  if (!difference.empty()) RC_FAIL(difference);
}

void check(const Shape& shape) {
  const bool ok = rc::check([&] {
    const auto steps = *rc::gen::container<std::vector<Step>>(step());
    run(steps, shape);
  });
  EXPECT_TRUE(ok);
}

TEST(AllocProperty, EverySequenceAgreesWithTheModel) { check({0, 0, true, "preset=linux-6.18"}); }
TEST(AllocProperty, EverySequenceAgreesWithTheModelLinear) { check({0, 0, false, "preset=linux-6.18"}); }
TEST(AllocProperty, EverySequenceAgreesWithTheModelStriped) { check({0, 24, true, "group-layout=split"}); }
TEST(AllocProperty, EverySequenceAgreesWithTheModelBigalloc) { check({3, 0, true, "read-bit=test-first"}); }
TEST(AllocProperty, EverySequenceAgreesWithTheModelOldPolicies) { check({0, 0, true, "preset=linux-6.15"}); }

}  // namespace
}  // namespace e4::test
