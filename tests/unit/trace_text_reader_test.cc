// SPDX-License-Identifier: GPL-2.0-only
#include "trace/text_reader.h"

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <fstream>
#include <string>
#include <vector>

#include "support/temp_dir.h"
#include "trace/reader.h"

namespace e4::trace {
namespace {

constexpr const char* kRequest =
    "dev 7,40 ino 13 flags HINT_DATA|DELALLOC_RESV len 5 lblk 7 goal 4294967296 lleft 6 lright 9 pleft 11 pright 12 ";

struct Read {
  std::vector<Event> events;
  std::vector<std::string> notes;
  std::uint64_t lost = 0;
};

Read read_file(const std::string& path, ReaderOptions options = {}) {
  auto reader = open_trace(path, std::move(options));
  Read out;
  EXPECT_TRUE(reader) << (reader ? "" : reader.error().message());
  if (!reader) return out;
  Event e;
  for (;;) {
    auto more = (*reader)->next(e);
    EXPECT_TRUE(more);
    if (!more || !*more) break;
    out.events.push_back(e);
  }
  for (const Note& n : (*reader)->notes().list()) out.notes.push_back((*reader)->notes().text(n));
  out.lost = (*reader)->notes().count(Trouble::lost);
  return out;
}

class TextTrace : public ::testing::Test {
 protected:
  std::string write(const std::string& text, const char* name = "trace.txt") {
    const std::string path = dir_ / name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  testing_support::TempDir dir_;
};

void expect_request(const Event& e, std::int32_t pid, unsigned cpu, std::uint64_t time_ns) {
  EXPECT_EQ(e.kind, Kind::request_blocks);
  EXPECT_EQ(e.pid, pid);
  EXPECT_EQ(e.cpu, cpu);
  EXPECT_EQ(e.time_ns, time_ns);
  EXPECT_EQ(e.dev, make_dev(7, 40));
  EXPECT_EQ(e.ino, 13U);
  EXPECT_EQ(e.req.flags, 0x420U);
  EXPECT_EQ(e.req.len, 5U);
  EXPECT_EQ(e.req.logical, 7U);
  EXPECT_EQ(e.req.goal, 4294967296U);
  EXPECT_EQ(e.req.lleft, 6U);
  EXPECT_EQ(e.req.pright, 12U);
}

TEST_F(TextTrace, EveryToolsHeadIsUnderstood) {
  const std::string t = std::string(": ext4_request_blocks: ") + kRequest + "\n";
  const auto r = read_file(write(
      "# tracer: nop\ncpus=2\n"
      "         python3-23222 [001]  1279.047471986" + t +                             // trace-cmd report -t
      "         python3-23222   [001] ...1.  1279.047471" + t +                        // trace, trace_pipe
      "   my [0] tool-23222   (  23000) [001] d..2.  1279.047471" + t +                // with tgid, a bracket in the name
      "kworker/u8:3-ev 23222 [001]  1279.047471: ext4:ext4_request_blocks: " + kRequest + "\n" +  // perf script
      "python3 23000/23222 [001]  1279.047471986: ext4:ext4_request_blocks: " + kRequest + "\n"));
  ASSERT_EQ(r.events.size(), 5U);
  EXPECT_TRUE(r.notes.empty()) << r.notes[0];
  expect_request(r.events[0], 23222, 1, 1279047471986);
  expect_request(r.events[1], 23222, 1, 1279047471000);
  expect_request(r.events[2], 23222, 1, 1279047471000);
  expect_request(r.events[3], 23222, 1, 1279047471000);
  expect_request(r.events[4], 23222, 1, 1279047471986);
}

TEST_F(TextTrace, OddTextsOfTheKernelAreParsed) {
  const auto r = read_file(write(
      "a-1 [000] 1.000001: ext4_da_reserve_space: dev 7,40 ino 14 mode 0100644 i_blocks 0 reserve_blocks 3reserved_data_blocks 9\n"
      "a-1 [000] 1.000002: ext4_mballoc_alloc: dev 7,40 inode 12 orig 1/0/40@0 goal 2/-1/256@5 result 1/78/40@0 blks 9 grps 1 cr 0x5 flags  tail 22 broken 32\n"
      "a-1 [000] 1.000003: ext4_mballoc_discard: dev 7,40 inode 0 extent 1/78/18 \n"
      "a-1 [000] 1.000004: ext4_discard_preallocations: dev 7,40 ino 14 len: 2\n"
      "a-1 [000] 1.000005: ext4_trim_extent: dev 7,40 group 1, start 96, len 32\n"
      "a-1 [000] 1.000006: ext4_ext_map_blocks_exit: dev 7,40 ino 13 flags CREATE|0x8000 lblk 0 pblk 9 len 1 mflags NM ret -28\n"
      "a-1 [000] 1.000007: print: 0xffffffff814aa241: phase: mounted\n"
      "a-1 [000] 1.000008: tracing_mark_write: phase: workload\n"
      "a-1 [000] 1.000009: sys_enter_ftruncate: fd: 0x00000003, length: 0x00002000\n"
      "a-1 [000] 1.000010: sys_enter_ftruncate: sys_ftruncate(fd: 3, length: 2000)\n"));
  ASSERT_EQ(r.events.size(), 10U);
  EXPECT_EQ(r.events[8].range.pos, 0x2000);
  EXPECT_EQ(r.events[9].range.pos, 0x2000);
  EXPECT_TRUE(r.notes.empty());
  EXPECT_EQ(r.events[0].da.blocks, 3);
  EXPECT_EQ(r.events[0].da.reserved, 9);
  EXPECT_EQ(r.events[1].alloc.goal.start, -1);
  EXPECT_EQ(r.events[1].alloc.cr, 5);
  EXPECT_EQ(r.events[1].alloc.flags, 0);
  EXPECT_EQ(r.events[1].alloc.buddy, 5) << "broken 32 is order 5";
  EXPECT_EQ(r.events[2].extent.start, 78);
  EXPECT_EQ(r.events[3].discard.len, 2U);
  EXPECT_EQ(r.events[4].extent.len, 32U);
  EXPECT_EQ(r.events[5].map.flags, 0x8001U);
  EXPECT_EQ(r.events[5].map.ret, -28);
  EXPECT_EQ(r.events[6].kind, Kind::mark);
  EXPECT_EQ(r.events[7].kind, Kind::mark);
}

TEST_F(TextTrace, LostUnknownMalformedAndForeignAreNamedWithTheirLine) {
  ReaderOptions options;
  options.devices = {make_dev(7, 40)};
  const auto r = read_file(write("# entries-in-buffer/entries-written: 90/100   #P:2\n"
                                 "CPU:1 [LOST 5 EVENTS]\n"
                                 "a-1 [000] 1.000001: ext4_new_thing: dev 7,40 ino 1\n"
                                 "a-1 [000] 1.000002: ext4_request_blocks: dev 7,40 ino x\n"
                                 "a-1 [000] 1.000003: ext4_evict_inode: dev 7,41 ino 5 nlink 1\n"
                                 "a-1 [000] 1.000003: ext4_evict_inode: dev 7,41 ino 6 nlink 1\n"
                                 "a-1 [000] 1.000004: sched_switch: whatever\n"
                                 "a-1 [000] 1.000005: ext4_evict_inode: dev 7,40 ino 7 nlink 1\n"
                                 "a-1 [000] 1.000006: ext4_request_bl"),
                           options);
  ASSERT_EQ(r.events.size(), 1U);
  EXPECT_EQ(r.events[0].ino, 7U);
  EXPECT_EQ(r.events[0].number, 8U) << "the line";
  EXPECT_EQ(r.lost, 15U);
  const std::string all = [&] { std::string s; for (const auto& n : r.notes) s += n + "\n"; return s; }();
  EXPECT_NE(all.find("1 events of unknown kind ext4_new_thing, first at line 3"), std::string::npos) << all;
  EXPECT_NE(all.find("1 malformed: ext4_request_blocks, first at line 4"), std::string::npos) << all;
  EXPECT_NE(all.find("2 events of other device 7:41 left out, first at line 5"), std::string::npos) << all;
  EXPECT_NE(all.find("sched_switch"), std::string::npos) << all;
  EXPECT_NE(all.find("cut off at line 9"), std::string::npos) << all;
}

TEST_F(TextTrace, CutAtEveryByteNeverFailsAndNeverInventsEvents) {
  std::string text;
  for (int i = 0; i < 3; ++i) text += std::string("a-1 [000] 1.00000") + std::to_string(i) + ": ext4_request_blocks: " + kRequest + "\n";
  for (std::size_t n = 0; n <= text.size(); ++n) {
    const auto r = read_file(write(text.substr(0, n)));
    EXPECT_LE(r.events.size(), 3U);
    for (const Event& e : r.events) EXPECT_EQ(e.ino, 13U);
  }
}

TEST_F(TextTrace, CompressedStreamsAreReadAndACutOneSaysSo) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += std::string("a-1 [000] 1.00") + std::to_string(1000 + i) + ": ext4_evict_inode: dev 7,40 ino 7 nlink 1\n";
  std::string z(ZSTD_compressBound(text.size()), '\0');
  z.resize(ZSTD_compress(z.data(), z.size(), text.data(), text.size(), 3));
  EXPECT_EQ(read_file(write(z)).events.size(), 5000U);
  const auto cut = read_file(write(z.substr(0, z.size() / 2)));
  EXPECT_LT(cut.events.size(), 5000U);
  ASSERT_FALSE(cut.notes.empty());
  EXPECT_NE(cut.notes[0].find("cut off"), std::string::npos);

  const std::string gz = dir_ / "t.gz";
  gzFile f = gzopen(gz.c_str(), "wb");
  gzwrite(f, text.data(), static_cast<unsigned>(text.size()));
  gzclose(f);
  EXPECT_EQ(read_file(gz).events.size(), 5000U);
}

TEST_F(TextTrace, WhatIsNoTraceDatIsAnErrorNotACrash) {
  std::string dat("\x17\x08\x44tracing", 10);
  dat += "6";
  dat += std::string(200, '\0');
  auto r = open_trace(write(dat, "trace.dat"));
  EXPECT_FALSE(r);
  auto perf = open_trace(write("PERFILE2xxxxxxxxxxxxxxxxx", "perf.data"));
  ASSERT_FALSE(perf);
  EXPECT_NE(perf.error().message().find("perf script"), std::string::npos);
}

}  // namespace
}  // namespace e4::trace
