// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <ostream>

#include "alloc/allocator.h"
#include "tests/support/mini_file.h"

namespace e4::alloc {
inline std::ostream& operator<<(std::ostream& o, const Position& p) {
  return o << p.group << '/' << p.start << '/' << p.len << '@' << p.lblk;
}
inline std::ostream& operator<<(std::ostream& o, const GroupCounters& c) {
  o << c.free << '/' << c.frags << ' ' << c.first << " [";
  for (auto n : c.counters) o << ' ' << n;
  return o << " ]";
}
}  // namespace e4::alloc

namespace e4::test {

/// An allocator over bitmaps in memory.
struct Bench {
  Bench(const alloc::Geometry& g, const alloc::MountOptions& m, const alloc::Policy& p = {})
      : geometry(g), mount(m), policy(p), source(g) {}
  void start() {
    tunables = alloc::Tunables::defaults(geometry, mount);
    auto made = alloc::Allocator::create(geometry, mount, tunables, policy, source);
    ASSERT_TRUE(made) << made.error().message();
    a = std::move(*made);
  }
  alloc::GroupCounters counters(GroupNo g) const { return a->group_counters(g); }

  alloc::Geometry geometry;
  alloc::MountOptions mount;
  alloc::Policy policy;
  alloc::Tunables tunables;
  alloc::MemorySource source;
  std::unique_ptr<alloc::Allocator> a;
};

/// "free/frags first [counters]" of mb_groups.
inline alloc::GroupCounters line(std::uint32_t free, std::uint32_t frags, std::uint32_t first,
                                 std::initializer_list<std::uint32_t> counters) {
  alloc::GroupCounters c;
  c.free = free;
  c.frags = frags;
  c.first = first;
  std::size_t i = 0;
  for (const auto n : counters) c.counters[i++] = n;
  return c;
}
inline alloc::Position pos(GroupNo g, std::int32_t s, std::uint32_t len, Lblk lblk = 0) { return {g, s, len, lblk}; }

/// Recipe "small" of the facts: 512 MiB, four groups, rotational, two CPUs, every group loaded.
inline std::unique_ptr<Bench> small_recipe() {
  alloc::Geometry g;
  g.blocks_count = 4 * 32768;
  g.inodes_per_group = 256;
  alloc::MountOptions m;
  m.rotational = true;
  m.possible_cpus = 2;
  auto b = std::make_unique<Bench>(g, m);
  b->source.set_used(0, 0, 79);
  b->source.set_used(1, 0, 2);
  b->source.set_used(2, 0, 1024);
  b->source.set_used(3, 0, 2);
  b->start();
  EXPECT_TRUE(b->a->load_all());
  return b;
}

}  // namespace e4::test
