// SPDX-License-Identifier: GPL-2.0-only
#include <gtest/gtest.h>

#include "tests/support/alloc_recipes.h"

namespace e4::test {
namespace {

alloc::Outcome stream_request(std::optional<GroupNo> group) {
  auto b = small_recipe();
  alloc::Request q;
  q.ino = 14;
  q.len_clusters = 18;
  q.goal = 32768;
  q.flags = alloc::kHintData;
  q.i_size = 18 * 4096;
  q.stream_group = group;
  alloc::Outcome o;
  EXPECT_EQ(b->a->allocate(q, o), alloc::Status::ok);
  return o;
}

TEST(AllocStreamGroup, RememberedGroupIsTheAllocatorsOwnUnlessGiven) {
  EXPECT_EQ(stream_request(std::nullopt).goal.group, 0U);
  EXPECT_EQ(stream_request(std::nullopt).result.group, 1U);
  EXPECT_EQ(stream_request(3).goal.group, 3U);
  EXPECT_EQ(stream_request(3).goal.start, -1);
  EXPECT_EQ(stream_request(3).result.group, 3U);
}

}  // namespace
}  // namespace e4::test
