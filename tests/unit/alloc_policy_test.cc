// SPDX-License-Identifier: GPL-2.0-only
#include "alloc/policy.h"

#include <gtest/gtest.h>

#include "tests/support/alloc_recipes.h"

namespace e4::test {
namespace {

using alloc::Policy;

TEST(Policy, EveryListedValueCanBeSetAndIsThenTold) {
  for (const alloc::PolicyInfo& info : alloc::policy_list()) {
    ASSERT_GE(info.values.size(), 2U) << info.name;
    for (const alloc::PolicyValue& v : info.values) {
      Policy p;
      const auto set = p.set(std::string(info.name) + "=" + v.name);
      ASSERT_TRUE(set) << set.error().message();
      EXPECT_EQ(p.get(info.name), v.name);
      EXPECT_FALSE(std::string_view(v.since).empty());
      EXPECT_FALSE(std::string_view(v.what).empty());
    }
  }
}

TEST(Policy, PresetsAreKernels) {
  EXPECT_EQ(*Policy::preset("linux-6.18"), Policy{});
  for (const alloc::PresetInfo& p : alloc::preset_list()) {
    EXPECT_TRUE(Policy::preset(p.name)) << p.name;
    EXPECT_FALSE(std::string_view(p.source).empty());
  }
  const Policy old = *Policy::preset("linux-6.15");
  EXPECT_EQ(old.get("busy-groups"), "wait");
  EXPECT_EQ(old.get("order-sets"), "list");
  EXPECT_EQ(old.get("stream-goal"), "locked");
}

TEST(Policy, MistakesNameTheChoices) {
  Policy p;
  EXPECT_NE(p.set("busy-groups=sleep").error().message().find("wait, skip"), std::string::npos);
  EXPECT_NE(p.set("colour=red").error().message().find("busy-groups"), std::string::npos);
  EXPECT_NE(p.set("preset=linux-2.4").error().message().find("linux-6.18"), std::string::npos);
  EXPECT_FALSE(p.set("busy-groups"));
  EXPECT_EQ(p, Policy{});
}

// Before 6.17 the goal's group comes first, whatever the lists say, and a list is walked in the order groups joined it.
TEST(Policy, ListsServeTheGoalsGroupFirst) {
  for (const char* preset : {"linux-6.18", "linux-6.15"}) {
    alloc::Geometry g;
    g.blocks_count = 32 * 32768;
    alloc::MountOptions m;
    m.possible_cpus = 2;
    Bench b(g, m, *Policy::preset(preset));
    for (GroupNo i = 0; i < 32; ++i) b.source.set_used(i, 0, 32768);
    b.source.set_free(5, 1024, 64);    // exactly the order wanted
    b.source.set_free(9, 1024, 1024);  // the goal's group has more than enough
    b.start();
    ASSERT_TRUE(b.a->load_all());
    b.a->set_reserved_clusters(0);
    alloc::Request rq;
    rq.ino = 12;
    rq.len_clusters = 64;
    rq.goal = 9 * 32768 + 5;
    alloc::Outcome out;
    ASSERT_EQ(b.a->allocate(rq, out), alloc::Status::ok);
    EXPECT_EQ(out.result.group, 9U) << preset;
    rq.goal = 32768;
    ASSERT_EQ(b.a->allocate(rq, out), alloc::Status::ok);
    EXPECT_EQ(out.result.group, 5U) << preset;
  }
}

TEST(Policy, ScanChoosesTheWalkWhateverTheSize) {
  for (const auto& [setting, optimized] : {std::pair{"scan=linear", false}, {"scan=optimized", true}, {"scan=by-mount", false}}) {
    alloc::Geometry g;
    g.blocks_count = 4 * 32768;
    Policy p;
    ASSERT_TRUE(p.set(setting));
    Bench b(g, {}, p);
    b.start();
    EXPECT_EQ(b.a->optimized_scan(), optimized) << setting;
  }
}

}  // namespace
}  // namespace e4::test
