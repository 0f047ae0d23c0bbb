// SPDX-License-Identifier: GPL-2.0-only
// One test a row of the table of when orphan_present and needs_recovery change
// (Linux 6.18), against a target in memory.
#include "space/life_cycle.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace e4::space {
namespace {

using Phase = LifeCycle::Phase;
using Shutdown = LifeCycle::Shutdown;

struct FakeTarget : LifeTarget {
  LifeSuper disk{.has_journal = true, .orphan_file = true};
  unsigned slots = 0, stuck = 0;  // occupied; those no clean-up can deal with
  Ino list = 0;
  bool damaged = false;
  std::string steps;  // what was asked of it, in order: r read, W write super, J replay, L load file, C clean up, F flush

  Result<LifeSuper> read_super() override {
    steps += 'r';
    list = disk.last_orphan;
    return disk;
  }
  Result<void> write_super(const LifeSuper& super) override {
    steps += 'W';
    disk = super;
    return {};
  }
  Result<void> replay_journal() override {
    steps += 'J';
    return {};
  }
  Result<void> load_orphan_file() override {
    steps += 'L';
    if (damaged) return make_error(ErrorKind::corrupt, "bad magic");
    return {};
  }
  Result<void> clean_up() override {
    steps += 'C';
    slots = stuck;
    list = 0;
    return {};
  }
  Result<void> flush() override {
    steps += 'F';
    return {};
  }
  bool orphan_file_empty() override { return slots == 0; }
  Ino last_orphan() override { return list; }
  void drop_list() override { list = 0; }
  void release() override {}
};

class LifeTable : public testing::Test {
 protected:
  FakeTarget t;
  LifeCycle life{t};

  void flags(bool recover, bool present, const char* when = "") {
    EXPECT_EQ(t.disk.recover, recover) << "needs_recovery " << when;
    EXPECT_EQ(t.disk.orphan_present, present) << "orphan_present " << when;
  }
  void ok(Result<void> r) { ASSERT_TRUE(r) << r.error().message(); }
  void refused(const Result<void>& r, ErrorKind kind) {
    ASSERT_FALSE(r);
    EXPECT_EQ(r.error().kind, kind) << r.error().message();
  }
  void left_behind(bool recover, bool present, unsigned slots) {
    t.disk.recover = recover;
    t.disk.orphan_present = present;
    t.slots = slots;
  }
};

TEST_F(LifeTable, RwMountWithJournalSetsBothBeforeTheFileIsRead) {
  ok(life.mount({}));
  flags(true, true);
  EXPECT_EQ(t.steps, "rWL");
}

TEST_F(LifeTable, RwMountSetsPresentOnlyWithAnOrphanFile) {
  t.disk.orphan_file = false;
  ok(life.mount({}));
  flags(true, false);
}

TEST_F(LifeTable, RwMountThatFailsLeavesTheFlags) {
  t.damaged = true;
  refused(life.mount({}), ErrorKind::corrupt);
  flags(true, true);
  EXPECT_TRUE(t.disk.error);
  EXPECT_EQ(life.phase(), Phase::unmounted);
}

TEST_F(LifeTable, DamagedOrphanFileFailsReadOnlyMountsToo) {
  t.damaged = true;
  refused(life.mount({.read_only = true}), ErrorKind::corrupt);
  refused(life.mount({.read_only = true, .noload = true}), ErrorKind::corrupt);
  refused(life.mount({.read_only = true, .device_read_only = true, .noload = true}), ErrorKind::corrupt);
  flags(false, false);
}

TEST_F(LifeTable, RwMountWithoutJournalSetsNeither) {
  t.disk.has_journal = false;
  ok(life.mount({}));
  flags(false, false);
  EXPECT_FALSE(t.disk.valid) << "not clean while mounted";
  EXPECT_FALSE(life.journaled());
  ok(life.freeze());
  ok(life.thaw());
  flags(false, false);
  ok(life.unmount());
  EXPECT_TRUE(t.disk.valid);
}

TEST_F(LifeTable, UnmountClearsPresentEvenWithSlotsOccupied) {
  ok(life.mount({}));
  t.slots = 3;
  ok(life.unmount());
  flags(false, false);
}

TEST_F(LifeTable, UnmountAfterShutdownWritesNothing) {
  for (const auto how : {Shutdown::log_flush, Shutdown::no_log_flush}) {
    ok(life.mount({}));
    ok(life.shutdown(how));
    t.steps.clear();
    ok(life.unmount());
    flags(true, true);
    EXPECT_EQ(t.steps, "");
  }
}

TEST_F(LifeTable, ShutdownThatFreezesLeavesPresentWithOrphans) {
  ok(life.mount({}));
  t.slots = 2;
  ok(life.shutdown(Shutdown::freeze));
  flags(false, true);
  ok(life.unmount());
  flags(false, true);
}

TEST_F(LifeTable, UnmountWithAbortedJournalWritesNothing) {
  ok(life.mount({}));
  ok(life.abort_journal());
  refused(life.freeze(), ErrorKind::io);
  ok(life.unmount());
  flags(true, true);
}

TEST_F(LifeTable, RoMountOfACleanOneWritesNothing) {
  ok(life.mount({.read_only = true}));
  EXPECT_EQ(t.steps, "rL");
  ok(life.unmount());
  EXPECT_EQ(t.steps, "rL");
}

TEST_F(LifeTable, RoMountOnAWritableDeviceRecoversAndClearsBoth) {
  left_behind(true, true, 5);
  ok(life.mount({.read_only = true}));
  flags(false, false);
  EXPECT_EQ(t.slots, 0U);
  EXPECT_EQ(t.steps, "rJrLCWW");
}

TEST_F(LifeTable, RoMountWithOnlyPresentSetProcessesOrphans) {
  left_behind(false, true, 5);
  ok(life.mount({.read_only = true}));
  flags(false, false);
  EXPECT_EQ(t.slots, 0U);
}

TEST_F(LifeTable, RoMountProcessesTheListOfAnOldFileSystem) {
  t.disk.orphan_file = false;
  t.disk.last_orphan = 13;
  ok(life.mount({.read_only = true}));
  EXPECT_EQ(t.disk.last_orphan, 0U);
}

TEST_F(LifeTable, PresentClearProvesNothingTheFileIsProcessedAllTheSame) {
  left_behind(false, false, 4);
  ok(life.mount({}));
  EXPECT_EQ(t.slots, 0U);
}

TEST_F(LifeTable, RoDeviceWithRecoverSetIsRefused) {
  left_behind(true, true, 1);
  refused(life.mount({.read_only = true, .device_read_only = true}), ErrorKind::io);
  refused(life.mount({.device_read_only = true}), ErrorKind::io);
  flags(true, true);
}

TEST_F(LifeTable, RoDeviceWithOnlyPresentSetMountsAndSkips) {
  left_behind(false, true, 1);
  ok(life.mount({.read_only = true, .device_read_only = true}));
  EXPECT_EQ(t.steps, "rL");
  EXPECT_EQ(life.take_messages().size(), 1U);
  refused(life.remount_rw(), ErrorKind::io);
}

TEST_F(LifeTable, RoNoloadProcessesOrphansAndKeepsTheFlags) {
  left_behind(true, true, 2);
  ok(life.mount({.read_only = true, .noload = true}));
  flags(true, true);
  EXPECT_EQ(t.slots, 0U);
  EXPECT_EQ(t.steps.find('J'), std::string::npos);
  ok(life.unmount());
  flags(true, true);
}

TEST_F(LifeTable, RwNoloadIsRefusedWithRecoverAndClearsPresentAtUnmountWithout) {
  left_behind(true, true, 1);
  refused(life.mount({.noload = true}), ErrorKind::usage);
  left_behind(false, true, 1);
  ok(life.mount({.noload = true}));
  flags(false, true);
  EXPECT_EQ(t.slots, 0U);
  ok(life.unmount());
  flags(false, false);
}

TEST_F(LifeTable, RemountRoClearsBothWhenEverySlotIsFree) {
  ok(life.mount({}));
  ok(life.remount_ro(0));
  flags(false, false);
  EXPECT_EQ(life.phase(), Phase::read_only);
}

TEST_F(LifeTable, RemountRoWithOccupiedSlotsIsAFileSystemErrorAndClearsNothing) {
  ok(life.mount({}));
  t.slots = 1;
  ok(life.remount_ro(0));
  flags(true, true);
  EXPECT_TRUE(t.disk.error);
  const auto messages = life.take_messages();
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_NE(messages[0].find("orphan file not empty"), std::string::npos);
  EXPECT_EQ(life.phase(), Phase::read_only);
  ok(life.unmount());
  flags(true, true, "a read-only unmount writes nothing");
}

TEST_F(LifeTable, RemountRoWithNamelessFilesOpenIsRefusedFirst) {
  ok(life.mount({}));
  t.slots = 1;
  refused(life.remount_ro(1), ErrorKind::busy);
  EXPECT_EQ(life.phase(), Phase::read_write);
  EXPECT_FALSE(t.disk.error);
}

TEST_F(LifeTable, RemountRwSetsBoth) {
  ok(life.mount({.read_only = true}));
  flags(false, false);
  ok(life.remount_rw());
  flags(true, true);
}

TEST_F(LifeTable, RemountRwIsRefusedWithUnprocessedOrphans) {
  left_behind(false, false, 0);
  ok(life.mount({.read_only = true}));
  t.slots = 1;
  refused(life.remount_rw(), ErrorKind::busy);
  t.slots = 0;
  t.list = 14;
  refused(life.remount_rw(), ErrorKind::busy);
  flags(false, false);
  EXPECT_EQ(life.phase(), Phase::read_only);
}

TEST_F(LifeTable, RemountAfterShutdownIsRefused) {
  ok(life.mount({}));
  ok(life.shutdown(Shutdown::no_log_flush));
  refused(life.remount_ro(0), ErrorKind::io);
  refused(life.freeze(), ErrorKind::io);
  flags(true, true);
}

TEST_F(LifeTable, FreezeClearsPresentOnlyWhenEverySlotIsFree) {
  ok(life.mount({}));
  ok(life.freeze());
  flags(false, false);
  ok(life.thaw());
  flags(true, true);
  t.slots = 1;
  ok(life.freeze());
  flags(false, true, "the snapshot case: orphans without a journal to replay");
  refused(life.freeze(), ErrorKind::busy);
  refused(life.unmount(), ErrorKind::busy);
  ok(life.thaw());
  flags(true, true);
}

TEST_F(LifeTable, ThawSetsPresentOnlyWithAnOrphanFileAndNothingAfterShutdown) {
  t.disk.orphan_file = false;
  ok(life.mount({}));
  ok(life.freeze());
  ok(life.thaw());
  flags(true, false);
  ok(life.freeze());
  ok(life.shutdown(Shutdown::no_log_flush));
  ok(life.thaw());
  flags(false, false);
}

TEST_F(LifeTable, FreezeOfAReadOnlyOneWritesNothing) {
  ok(life.mount({.read_only = true}));
  t.steps.clear();
  ok(life.freeze());
  ok(life.thaw());
  EXPECT_EQ(t.steps, "");
}

TEST_F(LifeTable, ErrorBitSkipsTheCleanUpDropsTheListKeepsTheSlots) {
  left_behind(false, true, 3);
  t.disk.error = true;
  t.disk.last_orphan = 15;
  ok(life.mount({}));
  flags(true, true);
  EXPECT_EQ(t.slots, 3U);
  EXPECT_EQ(t.steps.find('C'), std::string::npos);
  ok(life.unmount());
  flags(false, false, "with slots still occupied");
  EXPECT_EQ(t.disk.last_orphan, 0U);
  EXPECT_TRUE(t.disk.error);
}

TEST_F(LifeTable, ErrorBitOnAReadOnlyMountKeepsTheListAndFailsWithOccupiedSlots) {
  t.disk.error = true;
  t.disk.last_orphan = 15;
  ok(life.mount({.read_only = true}));
  EXPECT_EQ(t.disk.last_orphan, 15U);
  refused(life.remount_rw(), ErrorKind::busy);
  ok(life.unmount());
  left_behind(false, true, 3);
  refused(life.mount({.read_only = true}), ErrorKind::corrupt);
  flags(false, true);
}

TEST_F(LifeTable, UnknownRoCompatMountsOnlyReadOnlyAndSkipsTheCleanUp) {
  t.disk.unknown_ro_compat = true;
  refused(life.mount({}), ErrorKind::incompatible);
  ok(life.mount({.read_only = true}));
  refused(life.remount_rw(), ErrorKind::incompatible);
  ok(life.unmount());
  left_behind(false, true, 1);
  refused(life.mount({.read_only = true}), ErrorKind::corrupt);
  EXPECT_EQ(t.steps.find('C'), std::string::npos);
  EXPECT_EQ(t.slots, 1U);
}

TEST_F(LifeTable, EntriesNobodyCanDealWithStayForEver) {
  left_behind(true, true, 4);
  t.stuck = 1;
  ok(life.mount({}));
  EXPECT_EQ(t.slots, 1U);
  ok(life.freeze());
  flags(false, true);
  ok(life.thaw());
  ok(life.unmount());
  flags(false, false);
}

TEST_F(LifeTable, CallsInTheWrongStateAreUsageErrors) {
  refused(life.unmount(), ErrorKind::usage);
  refused(life.thaw(), ErrorKind::usage);
  refused(life.freeze(), ErrorKind::usage);
  refused(life.remount_ro(0), ErrorKind::usage);
  refused(life.remount_rw(), ErrorKind::usage);
  ok(life.mount({}));
  refused(life.mount({}), ErrorKind::usage);
  refused(life.remount_rw(), ErrorKind::usage);
}

}  // namespace
}  // namespace e4::space
