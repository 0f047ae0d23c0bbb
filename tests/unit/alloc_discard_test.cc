// SPDX-License-Identifier: GPL-2.0-only
#include <gtest/gtest.h>

#include "alloc/allocator.h"

namespace e4::alloc {
namespace {

// A trace with lost events frees blocks of a file whose preallocations it
// never showed discarded. Nothing may be given back twice.
TEST(Discard, ClustersFreedInsideAPreallocationComeBackOnce) {
  for (const bool at_once : {false, true}) {
    SCOPED_TRACE(at_once);
    Geometry g;
    g.blocks_count = 8 * 32768ULL;
    MountOptions mount;
    MemorySource source(g);
    auto a = Allocator::create(g, mount, Tunables::defaults(g, mount), {}, source);
    ASSERT_TRUE(a);
    Request q;
    q.ino = 12;
    q.flags = kHintData;
    q.len_clusters = 20;
    q.goal = 32768;
    q.i_size = 20 * 4096;
    Outcome o;
    ASSERT_EQ((*a)->allocate(q, o), Status::ok);
    ASSERT_EQ(o.new_pa.kind, PaKind::inode);
    FreeRequest how;
    how.ino = 12;
    how.block = o.block + 4;
    how.count_blocks = 8;
    how.tid = 1;
    how.when = at_once ? FreeRequest::When::at_once : FreeRequest::When::at_commit;
    ASSERT_TRUE((*a)->free(how));
    (*a)->discard_inode(12);
    (*a)->commit(1);
    const auto ok = (*a)->verify();
    EXPECT_TRUE(ok) << ok.error().message();
    EXPECT_EQ((*a)->free_clusters_count(), 8 * 32768 - 12);
  }
}

}  // namespace
}  // namespace e4::alloc
