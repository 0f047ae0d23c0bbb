// SPDX-License-Identifier: GPL-2.0-only
#include "trace/player.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "trace/text_reader.h"
#include "trace/translation.h"

namespace e4::trace {
namespace {

/// Events from lines "PID CPU event: text after the device".
class Lines final : public Reader {
 public:
  explicit Lines(const std::vector<std::string>& lines) : Reader({}) {
    std::uint64_t n = 0;
    for (const std::string& l : lines) {
      Event e{};
      const std::size_t s1 = l.find(' '), s2 = l.find(' ', s1 + 1), colon = l.find(": ");
      e.pid = std::stoi(l.substr(0, s1));
      e.cpu = static_cast<std::uint16_t>(std::stoi(l.substr(s1 + 1)));
      e.number = ++n;
      e.time_ns = n * 1000;
      const std::string name = l.substr(s2 + 1, colon - s2 - 1);
      EXPECT_TRUE(parse_text(name, "dev 7,1 " + l.substr(colon + 2), e)) << l;
      if (e.kind == Kind::truncate_call) e.range.pos = std::stoll(l.substr(colon + 2));
      events_.push_back(e);
    }
  }
  Result<bool> next(Event& event) override {
    if (events_.empty()) return false;
    event = events_.front();
    events_.pop_front();
    return true;
  }
  [[nodiscard]] std::string thread_name(std::int32_t) const override { return {}; }
  [[nodiscard]] std::string form() const override { return "lines"; }

 private:
  std::deque<Event> events_;
};

std::string request(Ino ino, const char* flags, unsigned len, unsigned lblk) {
  return "ext4_request_blocks: ino " + std::to_string(ino) + " flags " + flags + " len " + std::to_string(len) + " lblk " +
         std::to_string(lblk) + " goal 100 lleft 0 lright 0 pleft 0 pright 0";
}
std::string allocated(Ino ino, unsigned len, unsigned block) {
  return "ext4_allocate_blocks: ino " + std::to_string(ino) + " flags HINT_DATA len " + std::to_string(len) + " block " +
         std::to_string(block) + " lblk 0 goal 100 lleft 0 lright 0 pleft 0 pright 0";
}
constexpr const char* kDelayed = "HINT_DATA|DELALLOC_RESV|USE_RESV";
constexpr const char* kAlloc =
    "ext4_mballoc_alloc: inode 12 orig 0/0/1@0 goal 0/0/1@0 result 0/9/1@0 blks 1 grps 1 cr CR_GOAL_LEN_FAST flags  tail 0 broken 0";

/// Writes down what the player does.
class Log final : public Target {
 public:
  Result<void> decide(RequestRecord& r) override {
    lines.push_back((r.end == RequestRecord::End::refused ? "refused " : "decide ") + std::to_string(r.ready.ino) + " size " +
                    std::to_string(r.ready.i_size) + (r.ready.open_for_write ? " open" : " closed") + " cpu " +
                    std::to_string(r.ready.cpu));
    return {};
  }
  Result<void> free(const Freed& f) override {
    lines.push_back("free " + std::to_string(f.start) + "+" + std::to_string(f.len) + " tid " + std::to_string(f.tid) +
                    " flags " + std::to_string(f.flags));
    return {};
  }
  void commit(Tid tid) override { lines.push_back("commit " + std::to_string(tid)); }
  void discard_inode(Ino ino, std::uint32_t) override { lines.push_back("discard " + std::to_string(ino)); }
  Result<void> load_group(GroupNo g) override {
    lines.push_back("load " + std::to_string(g));
    return {};
  }
  void bitmap_cached(GroupNo g) override { lines.push_back("cached " + std::to_string(g)); }
  Result<void> prefetch(GroupNo, std::uint32_t) override { return {}; }
  void inode_allocated(Ino, std::uint32_t) override {}
  void reserve(std::int64_t, std::uint32_t) override {}
  void phase(std::string_view) override {}
  void saw(const Event&) override {}
  std::vector<std::string> lines;
};

std::vector<std::string> play(const std::vector<std::string>& lines, std::size_t limit = 1000) {
  Lines reader(lines);
  Lookahead ahead(reader, limit);
  Log log;
  PlayerFacts facts;
  facts.geometry.blocks_count = 100000;
  facts.inodes = [](Ino ino) -> std::optional<InodeStart> {
    if (ino == 11) return InodeStart{50000, true, true};
    return std::nullopt;
  };
  Player player(facts, ahead, log);
  Item item;
  for (;;) {
    auto more = ahead.next(item);
    EXPECT_TRUE(more);
    if (!more || !*more) break;
    EXPECT_TRUE(player.feed(item));
  }
  return log.lines;
}

using Strings = std::vector<std::string>;

TEST(Player, ARequestTakesItsTurnAtItsFirstAllocatorLine) {
  // Two requests in flight: the one whose mballoc line comes first goes first, with CPU and size of its request line.
  EXPECT_EQ(play({"1 0 " + request(12, "HINT_DATA", 1, 0), "2 1 " + request(13, "HINT_DATA", 1, 0),
                  std::string("2 1 ") + kAlloc, "2 1 " + allocated(13, 1, 9), std::string("1 0 ") + kAlloc,
                  "1 1 " + allocated(12, 1, 10)}),
            (Strings{"decide 13 size 0 open cpu 1", "decide 12 size 0 open cpu 0"}));
}

TEST(Player, ARefusedClaimIsDecidedAtItsLine) {
  EXPECT_EQ(play({"1 0 " + request(12, "HINT_DATA", 1, 0), "2 1 ext4_mballoc_free: inode 3 extent 0/5/1",
                  "1 0 ext4_ext_map_blocks_exit: ino 12 flags CREATE lblk 0 pblk 0 len 1 mflags  ret -28"}),
            (Strings{"refused 12 size 0 open cpu 0", "free 5+1 tid 1 flags 0"}));
}

TEST(Player, ARequestWithoutAnEndIsLeftOut) {
  EXPECT_EQ(play({"1 0 " + request(12, "HINT_DATA", 1, 0), std::string("1 0 ") + kAlloc}), (Strings{}));
}

TEST(Player, DelayedDataIsClosedWhenDiscardFollowsTheLastReservation) {
  const Strings head{"1 0 ext4_da_write_end: ino 12 pos 0 len 400000 copied 400000", "2 1 " + request(12, kDelayed, 98, 0),
                     std::string("2 1 ") + kAlloc, "2 1 " + allocated(12, 98, 9),
                     "2 1 ext4_da_update_reserve_space: ino 12 mode 0100644 i_blocks 0 used_blocks 98 reserved_data_blocks 98"};
  Strings closed = head, open = head;
  closed.push_back("2 1 ext4_discard_preallocations: ino 12 len: 0");
  open.push_back("2 1 ext4_writepages_result: ino 12");
  EXPECT_EQ(play(closed).at(0), "decide 12 size 400000 closed cpu 1");
  EXPECT_EQ(play(open).at(0), "decide 12 size 400000 open cpu 1");
  EXPECT_EQ(play(head).at(0), "decide 12 size 400000 open cpu 1") << "nothing follows: open";
}

TEST(Player, FreesBelongToTheTransactionThatRuns) {
  EXPECT_EQ(play({"1 0 ext4_free_blocks: ino 12 mode 0100644 block 5 count 2 flags METADATA|FORGET",
                  "1 0 ext4_mballoc_free: inode 12 extent 0/5/2", "9 1 jbd2_commit_flushing: transaction 7 sync 0",
                  "1 0 ext4_mballoc_free: inode 12 extent 0/9/1", "9 1 jbd2_end_commit: transaction 7 sync 0 head 1",
                  "9 1 jbd2_commit_flushing: transaction 8 sync 0", "9 1 jbd2_end_commit: transaction 8 sync 0 head 1"}),
            (Strings{"free 5+2 tid 1 flags 3", "free 9+1 tid 2 flags 3", "commit 1", "commit 2"}));
}

TEST(Player, OnlyATaskWithoutARequestLoadsGroups) {
  EXPECT_EQ(play({"1 0 ext4_mb_buddy_bitmap_load: group 3", "1 0 " + request(12, "HINT_DATA", 1, 0),
                  "1 0 ext4_read_block_bitmap_load: group 4 prefetch 1", "1 0 ext4_mb_buddy_bitmap_load: group 4",
                  std::string("1 0 ") + kAlloc, "1 0 " + allocated(12, 1, 9)}),
            (Strings{"load 3", "decide 12 size 0 open cpu 0", "cached 4"}));
}

struct SizeCase {
  const char* name;
  Strings lines;
  std::uint64_t size;  // of inode 11 (50000 bytes at the start) in the end
};

class SizeRules : public ::testing::TestWithParam<SizeCase> {};
TEST_P(SizeRules, Hold) {
  Lines reader(GetParam().lines);
  Sizes sizes(4096, 4096, true, [](Ino ino) { return ino == 11 ? std::optional(InodeStart{50000}) : std::nullopt; });
  Event e;
  for (;;) {
    auto more = reader.next(e);
    if (!more || !*more) break;
    sizes.feed(e);
  }
  EXPECT_EQ(sizes.size(11), GetParam().size);
}

INSTANTIATE_TEST_SUITE_P(
    Rule, SizeRules,
    ::testing::Values(
        SizeCase{"StartImage", {}, 50000},
        SizeCase{"NewInodeIsEmpty", {"1 0 ext4_allocate_inode: ino 11 dir 2 mode 0100644"}, 0},
        SizeCase{"WriteGrows", {"1 0 ext4_da_write_end: ino 11 pos 60000 len 4000 copied 3000"}, 63000},
        SizeCase{"WriteInsideKeeps", {"1 0 ext4_write_end: ino 11 pos 0 len 4000 copied 4000"}, 50000},
        SizeCase{"OrderedTruncate", {"1 0 ext4_begin_ordered_truncate: ino 11 new_size 123"}, 123},
        SizeCase{"JournalledTruncateIsSeenInRemoveSpace",
                 {"1 0 ext4_truncate_enter: ino 11 blocks 8", "1 0 ext4_ext_remove_space: ino 11 since 3 end 4294967294 depth 0"}, 3 * 4096},
        SizeCase{"PunchIsNoTruncate", {"1 0 ext4_ext_remove_space: ino 11 since 3 end 4294967294 depth 0"}, 50000},
        SizeCase{"FallocateGrowsChunkByChunk",
                 {"1 0 ext4_fallocate_enter: ino 11 offset 0 len 90000 mode ",
                  "1 0 ext4_ext_map_blocks_exit: ino 11 flags CREATE|UNWRIT lblk 10 pblk 5 len 5 mflags NMU ret 5"}, 61440},
        SizeCase{"FallocateEndsAtItsEnd",
                 {"1 0 ext4_fallocate_enter: ino 11 offset 0 len 90000 mode ", "1 0 ext4_fallocate_exit: ino 11 pos 0 blocks 22 ret 0"}, 90000},
        SizeCase{"FailedFallocateDoesNot",
                 {"1 0 ext4_fallocate_enter: ino 11 offset 0 len 90000 mode ", "1 0 ext4_fallocate_exit: ino 11 pos 0 blocks 22 ret -28"}, 50000},
        SizeCase{"KeepSizeKeeps",
                 {"1 0 ext4_fallocate_enter: ino 11 offset 0 len 90000 mode KEEP_SIZE", "1 0 ext4_fallocate_exit: ino 11 pos 0 blocks 22 ret 0"}, 50000},
        SizeCase{"ZeroRangeEndsWithTheNextCall",
                 {"1 0 ext4_zero_range: ino 11 offset 0 len 90000 mode ZERO_RANGE", "1 0 ext4_sync_file_enter: ino 11"}, 90000},
        SizeCase{"InsertGrowsWithTheNextEvent", {"1 0 ext4_insert_range: ino 11 offset 4096 len 8192", "1 0 ext4_discard_preallocations: ino 11 len: 0"}, 58192},
        SizeCase{"InsertWritesBackBeforeItGrows",
                 {"1 0 ext4_insert_range: ino 11 offset 4096 len 8192", "1 0 ext4_writepages: ino 11 nr_to_write 1 pages_skipped 0 range_start 0 range_end 1", "1 0 ext4_request_blocks: ino 11 flags  len 1 lblk 0 goal 0 lleft 0 lright 0 pleft 0 pright 0"}, 50000},
        SizeCase{"MisalignedInsertDoesNothing", {"1 0 ext4_insert_range: ino 11 offset 4097 len 8192", "1 0 ext4_sync_file_enter: ino 11"}, 50000},
        SizeCase{"InsertBeyondTheEndDoesNothing", {"1 0 ext4_insert_range: ino 11 offset 53248 len 8192", "1 0 ext4_sync_file_enter: ino 11"}, 50000},
        SizeCase{"CollapseShrinksAtTheEndOfTheCall", {"1 0 ext4_collapse_range: ino 11 offset 4096 len 8192", "1 0 ext4_writepages_result: ino 11"}, 50000},
        SizeCase{"CollapseShrinks", {"1 0 ext4_collapse_range: ino 11 offset 4096 len 8192", "1 0 ext4_sync_file_enter: ino 11"}, 41808},
        SizeCase{"ExtendingDirectWrite",
                 {"1 0 ext4_ext_map_blocks_exit: ino 11 flags CREATE lblk 20 pblk 5 len 4 mflags NM ret 4", "1 0 ext4_sync_file_enter: ino 11"}, 24 * 4096},
        SizeCase{"DirectWriteCountsOnlyAfterItsLoop",
                 {"1 0 ext4_ext_map_blocks_exit: ino 11 flags CREATE lblk 20 pblk 5 len 4 mflags NM ret 4", "1 0 ext4_ext_map_blocks_enter: ino 11 lblk 24 len 4 flags CREATE"}, 50000},
        SizeCase{"FlusherMapsWithoutGrowing",
                 {"1 0 ext4_writepages: ino 11 nr_to_write 1 pages_skipped 0 range_start 0 range_end 1", "1 0 ext4_ext_map_blocks_exit: ino 11 flags CREATE lblk 20 pblk 5 len 4 mflags NM ret 4", "1 0 ext4_writepages_result: ino 11"}, 50000},
        SizeCase{"AnMsyncAfterAGrowingTruncateTellsTheSize",
                 {"9 0 ext4_writepages: ino 11 nr_to_write 1 pages_skipped 0 range_start 50000 range_end 53247", "9 0 ext4_writepages_result: ino 11",
                  "1 0 ext4_writepages: ino 11 nr_to_write 1 pages_skipped 0 range_start 0 range_end 102399"}, 102400},
        SizeCase{"AnMsyncAloneDoesNot", {"1 0 ext4_writepages: ino 11 nr_to_write 1 pages_skipped 0 range_start 0 range_end 102399"}, 50000},
        SizeCase{"GrowingTruncateIsTheCallsLength", {"1 0 sys_enter_ftruncate: 300000", "1 0 ext4_mark_inode_dirty: ino 11 caller x"}, 300000},
        SizeCase{"ATruncateElsewhereIsNot", {"1 0 sys_enter_ftruncate: 300000", "1 0 sys_exit_ftruncate: 0", "1 0 ext4_mark_inode_dirty: ino 11 caller x"}, 50000},
        SizeCase{"DirtyingAloneKeeps", {"2 0 sys_enter_ftruncate: 300000", "1 0 ext4_mark_inode_dirty: ino 11 caller x"}, 50000},
        SizeCase{"UnlinkShowsTheTruth", {"1 0 ext4_unlink_enter: ino 11 size 777777 parent 2"}, 777777}),
    [](const auto& param) { return std::string(param.param.name); });

TEST(Translation, RangesAreCutAndForgotten) {
  Translation t;
  t.set(100, 50, 500);
  EXPECT_EQ(t.find(120), 520U);
  EXPECT_EQ(t.find(99), 99U);
  EXPECT_EQ(t.find(150), 150U);
  t.set(110, 10, 900);
  EXPECT_EQ(t.find(109), 509U);
  EXPECT_EQ(t.find(115), 905U);
  EXPECT_EQ(t.find(120), 520U);
  t.clear(105, 10);
  EXPECT_EQ(t.find(107), 107U);
  EXPECT_EQ(t.find(116), 906U);
  t.set(140, 4, Translation::kNowhere);
  EXPECT_FALSE(t.find(141));
  std::vector<std::pair<std::uint64_t, std::uint64_t>> runs;
  t.each(98, 50, [&](std::uint64_t ours, std::uint64_t len) { runs.emplace_back(ours, len); });
  EXPECT_EQ(runs, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{
                      {98, 2}, {500, 5}, {105, 10}, {905, 5}, {520, 20}, {544, 4}}));
}

}  // namespace
}  // namespace e4::trace
