// SPDX-License-Identifier: GPL-2.0-only
// Releases in batches, shared attributes, and mappings cut at every block.
#include "orphan/release.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "orphan/freeing.h"
#include "orphan/inode.h"
#include "orphan/mapping.h"
#include "orphan/xattr.h"
#include "tests/support/child.h"
#include "tests/support/orphan_image.h"
#include "tests/support/orphan_lab.h"

namespace e4::orphan {
namespace {

using testing_support::OrphanLab;
using testing_support::record_of;

TEST(OrphanRelease, SmallBatchesComeToWhatOneBatchComesTo) {
  const auto build = [](OrphanLab& lab) {
    std::vector<Ino> slots;
    for (int i = 0; i < 12; ++i) slots.push_back(lab.unnamed_file(3000U + 20000U * static_cast<unsigned>(i)));
    const Ino a = lab.unnamed_file(5000), b = lab.unnamed_file(50000), kept = lab.file("kept", 60000);
    lab.edit_inode(a, [&](auto raw) { set_dtime(raw, b); });
    lab.edit_inode(kept, [](auto raw) { set_size(raw, 10); });
    slots.push_back(kept);
    lab.put_slots(0, slots);
    lab.set_list_head(a);
  };
  const std::string how = "-b 1024 -t ext4 -O orphan_file,metadata_csum -U 12345678-9abc-def0-1234-56789abcdef0 "
                          "-E hash_seed=12345678-9abc-def0-1234-56789abcdef0";
  OrphanLab one(how), many(how);
  build(one);
  build(many);
  const auto all = one.recover();
  const auto parts = many.recover({}, 16);
  EXPECT_EQ(all.batches, 1U);
  EXPECT_GT(parts.batches, 2U);
  EXPECT_EQ(all.totals.erased, parts.totals.erased);
  EXPECT_EQ(all.totals.truncated, parts.totals.truncated);
  EXPECT_EQ(all.totals.freed_bytes, parts.totals.freed_bytes);
  EXPECT_EQ(one.fsck(), 0) << one.fsck_text;
  EXPECT_EQ(many.fsck(), 0) << many.fsck_text;
}

TEST(OrphanRelease, AnInterruptedReleaseIsGoneOnWithAndEndsClean) {
  for (unsigned stop = 1; stop < 4; ++stop) {
    OrphanLab lab("-b 1024 -t ext4 -O orphan_file,metadata_csum");
    std::vector<Ino> slots;
    for (int i = 0; i < 8; ++i) slots.push_back(lab.unnamed_file(30000));
    lab.put_slots(0, slots);
    std::uint64_t before = 0;
    lab.edit([&](Volume& v) {
      auto plan = classify(v);
      Releaser releaser(v, *plan, {.now = 1, .capacity_blocks = 16, .done = {}});
      for (unsigned i = 0; i < stop; ++i) ASSERT_TRUE(releaser.batch());
      before = releaser.totals().erased;
    });
    const auto rest = lab.recover();
    EXPECT_EQ(before + rest.totals.erased, 8U) << "slot and inode go together";
    EXPECT_EQ(rest.totals.dropped, 0U);
    EXPECT_EQ(lab.fsck(), 0) << lab.fsck_text;
  }
}

TEST(OrphanRelease, FileOverManyGroupsIsCutUpAndStaysTracked) {
  OrphanLab lab("-b 1024 -t ext4 -O orphan_file,metadata_csum -g 256 -J size=1", "32M");
  const Ino ino = lab.unnamed_file(20 << 20);
  lab.put_slots(0, {ino});
  bool part_seen = false;
  lab.edit([&](Volume& v) {
    auto plan = classify(v);
    ASSERT_TRUE(plan);
    ASSERT_EQ(record_of(*plan, ino).action, Action::erase);
    Releaser releaser(v, *plan, {.now = 1, .capacity_blocks = 30, .done = {}});
    ASSERT_TRUE(releaser.batch());
    part_seen = releaser.totals().erased == 0 && releaser.totals().freed_bytes > 0;
  });
  EXPECT_TRUE(part_seen);
  EXPECT_EQ(lab.classify().file.used_slots, 1U);
  const auto rest = lab.recover({}, 30);
  EXPECT_GT(rest.batches, 2U);
  EXPECT_EQ(rest.totals.erased, 1U);
  EXPECT_EQ(lab.fsck(), 0) << lab.fsck_text;
}

TEST(OrphanRelease, ResizeInodeDoesNotOwnTheBlockBehindTheReservedDescriptors) {
  // With 1 KiB blocks and clusters the resize inode mke2fs makes names 16642, the first block free for files.
  OrphanLab lab("-b 1024 -C 2048 -t ext4 -O bigalloc,orphan_file,metadata_csum", "128M");
  const Ino ino = lab.unnamed_file(20U << 20);  // fills the first group and goes on in the second
  lab.put_slots(0, {ino});
  const auto outcome = lab.recover();
  EXPECT_EQ(outcome.totals.erased, 1U);
  EXPECT_EQ(lab.fsck(), 0) << lab.fsck_text;
}

TEST(OrphanRelease, DeletionTimeNeverLooksLikeAnInodeNumber) {
  OrphanLab lab;
  const Ino ino = lab.unnamed_file(100);
  lab.put_slots(0, {ino});
  lab.edit([&](Volume& v) {
    auto plan = classify(v);
    ASSERT_TRUE(release_all(v, *plan, {.now = 5, .done = {}}));
    EXPECT_EQ(InodeView(*InodeTable(v).view(ino)).dtime(), v.geo().inodes_count);
  });
}

TEST(OrphanRelease, MillionsAreNotNeededToSeeListAndFileGoTogether) {
  testing_support::TempDir dir("/dev/shm");
  const std::string path = dir / "image";
  const auto made = testing_support::make_orphan_image(path, {.orphans = 3000, .block_bytes = 1024, .orphan_blocks = 2});
  ASSERT_TRUE(made) << made.error().message();
  auto device = image::open_file(path, {.writable = true});
  ASSERT_TRUE(device);
  image::Overlay overlay(**device, 1024);
  auto v = Volume::load(overlay);
  ASSERT_TRUE(v);
  auto plan = classify(*v);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->totals().in_file, 508U);
  EXPECT_EQ(plan->totals().listed, 2492U);
  const auto done = release_all(*v, *plan, {.now = 1'900'000'000, .done = {}});
  ASSERT_TRUE(done);
  EXPECT_EQ(done->erased, 3000U);
  EXPECT_EQ(done->freed_bytes, plan->totals().back_bytes);
  EXPECT_TRUE(classify(*v)->records.empty());
}

TEST(OrphanAttributes, SharedBlockIsFreedWithItsLastHolder) {
  OrphanLab lab("-b 1024 -I 128 -t ext4 -O orphan_file,metadata_csum");
  const Ino kept = lab.file("kept", 100);
  const Ino a = lab.unnamed_file(100), b = lab.unnamed_file(100);
  lab.debugfs({"ea_set <" + std::to_string(kept) + "> user.name value"});
  Blk block = 0;
  lab.edit([&](Volume& v) {
    block = InodeView(*InodeTable(v).view(kept)).file_acl();
    ASSERT_NE(block, 0U);
    set_xattr_refcount(v.geo(), block, *v.overlay().edit(block), 3);
    for (const Ino ino : {a, b}) {
      const auto raw = *InodeTable(v).edit(ino);
      set_file_acl(raw, block);
      set_held_bytes(v.geo(), raw, InodeView(raw).held_bytes(v.geo()) + 1024);
      seal_inode(v.geo(), ino, raw);
    }
  });
  lab.put_slots(0, {a, b});
  EXPECT_EQ(lab.recover().totals.erased, 2U);
  lab.edit([&](Volume& v) { EXPECT_EQ(XattrBlock(*v.overlay().view(block)).refcount(), 1U); });
  EXPECT_EQ(lab.fsck(), 0) << lab.fsck_text;
  lab.debugfs({"unlink kept", "sif <" + std::to_string(kept) + "> links_count 0"});
  lab.put_slots(0, {kept});
  EXPECT_EQ(lab.recover().totals.erased, 1U);
  lab.edit([&](Volume& v) { EXPECT_FALSE(*v.cluster_in_use(block)); });
  EXPECT_EQ(lab.fsck(), 0) << lab.fsck_text;
}

TEST(OrphanRelease, InlineDataPastTheSizeIsZeroedWhereverItLies) {
  for (const std::uint64_t size : {70U, 30U, 0U}) {
    OrphanLab lab("-b 4096 -I 256 -t ext4 -O orphan_file,metadata_csum,inline_data");
    const Ino ino = lab.file("kept", 100);
    lab.edit_inode(ino, [&](auto raw) {
      ASSERT_TRUE(InodeView(raw).has_inline_data());
      set_size(raw, size);
    });
    lab.put_slots(0, {ino});
    const auto out = lab.recover();
    EXPECT_EQ(out.totals.truncated, 1U) << size;
    lab.edit([&](Volume& v) {
      const auto raw = *InodeTable(v).view(ino);
      std::vector<Attribute> attributes;
      ASSERT_TRUE(inode_attributes(InodeView(raw), attributes));
      const Attribute* data = find_inline_data(attributes);
      ASSERT_NE(data, nullptr);
      for (std::uint32_t i = 0; i < 60 + data->value_bytes; ++i) {
        const std::byte b = i < 60 ? raw[0x28 + i] : raw[data->value_offset + i - 60];
        EXPECT_EQ(b, i < size ? std::byte('a' + i % 23) : std::byte{0}) << size << " at " << i;
      }
    });
    EXPECT_EQ(lab.fsck(), 0) << size << lab.fsck_text;
    EXPECT_TRUE(lab.classify().records.empty());
  }
}

TEST(OrphanAttributes, ValueInodeGoesWithItsLastReference) {
  OrphanLab lab("-b 1024 -t ext4 -O orphan_file,metadata_csum,ea_inode");
  const Ino a = lab.file("a", 100), b = lab.file("b", 100);
  lab.debugfs({"ea_set a user.big " + std::string(1500, 'v')});
  const Ino value = b + 1;
  lab.edit([&](Volume& v) {
    const auto raw = *InodeTable(v).view(value);
    ASSERT_NE(InodeView(raw).flags() & kFlagEaInode, 0U);
    ASSERT_EQ(InodeView(raw).ea_refcount(), 1U);
    // The second file refers to it as well, as the kernel shares equal values.
    const std::vector<std::byte> from(InodeTable(v).view(a)->begin(), InodeTable(v).view(a)->end());
    const auto to = *InodeTable(v).edit(b);
    std::copy(from.begin() + 128, from.end(), to.begin() + 128);
    seal_inode(v.geo(), b, to);
    const auto shared = *InodeTable(v).edit(value);
    set_ea_refcount(shared, 2);
    seal_inode(v.geo(), value, shared);
  });
  testing_support::run_child({"e2fsck", "-fy", lab.image()});  // debugfs does not charge the value to i_blocks
  ASSERT_EQ(lab.fsck(), 0) << lab.fsck_text;
  lab.debugfs({"unlink a", "sif <" + std::to_string(a) + "> links_count 0"});
  lab.put_slots(0, {a});
  const auto first = lab.recover();
  EXPECT_EQ(first.totals.erased, 1U);
  EXPECT_EQ(first.totals.ea_inodes, 0U);
  lab.edit([&](Volume& v) { EXPECT_EQ(InodeView(*InodeTable(v).view(value)).ea_refcount(), 1U); });
  EXPECT_EQ(lab.fsck(), 0) << lab.fsck_text;
  lab.debugfs({"unlink b", "sif <" + std::to_string(b) + "> links_count 0"});
  lab.put_slots(0, {b});
  const auto last = lab.recover();
  EXPECT_EQ(last.totals.ea_inodes, 1U);
  EXPECT_EQ(record_of(last.plan, b).back_bytes, last.totals.freed_bytes);
  lab.edit([&](Volume& v) { EXPECT_FALSE(*v.inode_in_use(value)); });
  EXPECT_EQ(lab.fsck(), 0) << lab.fsck_text;
}

/// Every end a file can be cut at: what stays and what goes is the whole, nothing twice.
void cut_everywhere(const std::string& format, std::size_t bytes) {
  OrphanLab lab(format);
  const Ino ino = lab.file("f", bytes);
  Random rng(42);
  lab.edit([&](Volume& v) {
    const auto view = InodeTable(v).view(ino);
    const std::vector<std::byte> raw(view->begin(), view->end());
    Mapping whole;
    ASSERT_TRUE(walk_mapping(v, ino, InodeView(raw), whole));
    ASSERT_TRUE(whole.ok()) << whole.problem;
    const std::uint64_t blocks = end_block(v.geo(), bytes);
    for (int round = 0; round < 60; ++round) {
      image::Overlay layer(v.overlay(), v.geo().block_bytes);
      auto copy = Volume::load(layer);
      ASSERT_TRUE(copy);
      const std::uint64_t end = rng.next() % (blocks + 2);
      std::vector<std::byte> inode = raw;
      const auto measured = measure_cut(*copy, ino, inode, end);
      ASSERT_TRUE(measured);
      EXPECT_EQ(layer.dirty_count(), 0U);
      const auto cut = cut_mapping(*copy, ino, inode, end);
      ASSERT_TRUE(cut);
      EXPECT_EQ(cut->meta, measured->meta);
      Mapping rest;
      ASSERT_TRUE(walk_mapping(*copy, ino, InodeView(inode), rest));
      ASSERT_TRUE(rest.ok()) << rest.problem << " end " << end;
      std::uint64_t kept = 0, gone = 0;
      for (const Run& r : rest.runs) {
        EXPECT_LE(r.logical + r.blocks, end);
        kept += r.blocks;
      }
      for (const Run& r : cut->runs) {
        EXPECT_GE(r.logical, end);
        gone += r.blocks;
      }
      EXPECT_EQ(kept, std::min(end, blocks));
      EXPECT_EQ(kept + gone, blocks);
      EXPECT_EQ(rest.meta.size() + cut->meta.size(), whole.meta.size()) << "end " << end;
    }
  });
}

TEST(OrphanCut, BlockMapCutAnywhereLosesNothing) { cut_everywhere("-b 1024 -t ext3 -O orphan_file", 1 << 20); }
TEST(OrphanCut, ExtentsCutAnywhereLoseNothing) { cut_everywhere("-b 1024 -t ext4 -O orphan_file,metadata_csum", 1 << 20); }

}  // namespace
}  // namespace e4::orphan
