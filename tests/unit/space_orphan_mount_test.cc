// SPDX-License-Identifier: GPL-2.0-only
// Tracking over real images: what threads tracked is what recovery finds.
#include "space/orphan_mount.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>

#include "base/crc32c.h"
#include "base/endian.h"
#include "base/random.h"
#include "orphan/classify.h"
#include "orphan/inode.h"
#include "orphan/orphan_file.h"
#include "orphan/orphan_list.h"
#include "support/child.h"
#include "support/run_mkfs.h"
#include "support/stress.h"
#include "support/temp_dir.h"

namespace e4::space {
namespace {

using Tracking = alloc::Policy::OrphanTracking;

/// A fresh image with an orphan file of two blocks under an overlay.
class Image {
 public:
  explicit Image(const std::vector<std::string>& options = {"-b", "1024"}, bool orphan_file = true) {
    std::vector<std::string> args{"-F", "-q"};
    if (orphan_file) args.insert(args.end(), {"-O", "orphan_file", "-E", "orphan_file_size=2"});
    args.insert(args.end(), options.begin(), options.end());
    args.insert(args.end(), {path(), "16M"});
    const auto made = testing_support::run_mkfs(args);
    EXPECT_EQ(made.status, 0) << made.err;
    auto opened = image::open_file(path(), {.writable = true});
    EXPECT_TRUE(opened);
    device_ = std::move(*opened);
    const bool small = std::find(options.begin(), options.end(), "1024") != options.end();
    overlay_ = std::make_unique<image::Overlay>(*device_, small ? 1024 : 4096);
  }
  image::Overlay& overlay() { return *overlay_; }
  [[nodiscard]] std::string path() const { return dir_ / "img"; }

  /// Allocated, empty, nameless regular files, as unlink leaves them while they are open.
  std::deque<alloc::OrphanInode> nameless(unsigned count) {
    std::deque<alloc::OrphanInode> inodes;
    orphan::Volume volume = *orphan::Volume::load(*overlay_);
    orphan::InodeTable table(volume);
    for (unsigned i = 0; i < count; ++i) {
      const auto ino = volume.allocate_inode(0);
      EXPECT_TRUE(ino);
      const std::span<std::byte> raw = *table.edit(*ino);
      std::fill(raw.begin(), raw.end(), std::byte{0});
      store<le16>(raw.data(), 0x00, 0x8180);
      store<le32>(raw.data(), 0x20, orphan::kFlagExtents);
      store<le16>(raw.data(), 0x80, 32);
      orphan::clear_mapping(raw);
      orphan::seal_inode(volume.geo(), *ino, raw);
      inodes.emplace_back(*ino);
    }
    EXPECT_TRUE(volume.seal());
    return inodes;
  }

  /// Everything to the file, so that other programs see it.
  void write_out() {
    for (const Blk b : overlay_->dirty_blocks()) {
      const auto data = *overlay_->view(b);
      EXPECT_TRUE(device_->write(b * overlay_->block_bytes(), data));
    }
    EXPECT_TRUE(device_->flush());
    overlay_->discard();
  }
  /// Bits of the superblock: needs_recovery, orphan_present.
  std::pair<bool, bool> flags() {
    std::byte s[1024];
    EXPECT_TRUE(overlay_->read(1024, s));
    return {(load<le32>(s, 0x60) & 4) != 0, (load<le32>(s, 0x64) & 0x10000) != 0};
  }

 private:
  testing_support::TempDir dir_;
  std::unique_ptr<image::Device> device_;
  std::unique_ptr<image::Overlay> overlay_;
};

void ok(const Result<void>& r) { ASSERT_TRUE(r) << r.error().message(); }

/// Inodes that file and list of the image name; block checksums and links must be right.
std::multiset<Ino> on_disk(image::Overlay& overlay, bool& sound) {
  orphan::Volume volume = *orphan::Volume::load(overlay);
  const auto report = *orphan::inspect_orphan_file(volume);
  const auto list = *orphan::read_orphan_list(volume);
  sound = report.faults == 0 && list.end == orphan::ListReport::End::clean;
  std::multiset<Ino> inodes(list.inodes.begin(), list.inodes.end());
  for (const auto& b : report.blocks) {
    const auto block = *overlay.view(b.physical);
    const orphan::OrphanBlock look(block);
    for (std::uint32_t s = 0; s < look.slots(); ++s)
      if (look.slot(s) != 0) inodes.insert(look.slot(s));
  }
  return inodes;
}

const std::function<Result<void>()> kEmptyLog = [] { return Result<void>(); };

class OrphanMountKinds : public testing::TestWithParam<std::tuple<Tracking, bool, bool>> {
 protected:
  [[nodiscard]] Tracking policy() const { return std::get<0>(GetParam()); }
  [[nodiscard]] std::vector<std::string> options() const {
    std::vector<std::string> o{"-b", std::get<1>(GetParam()) ? "1024" : "4096", "-N", "4096"};
    if (!std::get<2>(GetParam())) o.insert(o.end(), {"-O", "^metadata_csum"});
    return o;
  }
};
INSTANTIATE_TEST_SUITE_P(Images, OrphanMountKinds,
                         testing::Combine(testing::Values(Tracking::list, Tracking::file_locked, Tracking::file_lockless),
                                          testing::Bool(), testing::Bool()));

TEST_P(OrphanMountKinds, ACrashImageIsRecoveredToNothing) {
  Image image(options());
  auto inodes = image.nameless(600);
  OrphanMount fs(image.overlay(), {.policy = policy(), .now = 1800000000, .replay_journal = kEmptyLog});
  ok(fs.life().mount({}));
  ASSERT_NE(fs.tracker(), nullptr);
  for (auto& i : inodes) fs.tracker()->add(i, i.ino % 4);
  for (std::size_t i = 0; i < inodes.size(); i += 3) fs.tracker()->remove(inodes[i]);  // from file and list
  ok(fs.flush());
  std::multiset<Ino> expected;
  for (const auto& i : inodes)
    if (i.own.state != alloc::OrphanInode::State::untracked) expected.insert(i.ino);
  bool sound = false;
  EXPECT_EQ(on_disk(image.overlay(), sound), expected);
  EXPECT_TRUE(sound);
  EXPECT_EQ(image.flags(), std::pair(true, true)) << "cut off here";

  // The next mount of the same bytes, by another machine.
  image.write_out();
  OrphanMount next(image.overlay(), {.policy = policy(), .now = 1800000000, .replay_journal = kEmptyLog});
  ok(next.life().mount({.read_only = true}));
  EXPECT_EQ(next.cleaned().erased, expected.size());
  EXPECT_EQ(image.flags(), std::pair(false, false));
  EXPECT_TRUE(on_disk(image.overlay(), sound).empty());
  EXPECT_TRUE(sound);
  ok(next.life().remount_rw());
  ok(next.life().unmount());
}

TEST(OrphanMount, SixHundredOnTwoSmallBlocksOverflowAsOnTheLiveKernel) {
  Image image({"-b", "1024", "-N", "2048"});
  auto inodes = image.nameless(600);
  OrphanMount fs(image.overlay(), {.replay_journal = kEmptyLog});
  ok(fs.life().mount({}));
  for (auto& i : inodes) fs.tracker()->add(i, 0);
  ok(fs.flush());
  orphan::Volume volume = *orphan::Volume::load(image.overlay());
  EXPECT_EQ(orphan::inspect_orphan_file(volume)->used_slots, 508U);
  const auto list = *orphan::read_orphan_list(volume);
  ASSERT_EQ(list.inodes.size(), 92U);
  EXPECT_EQ(list.inodes[0], inodes.back().ino) << "the head is the newest";
}

TEST(OrphanMount, ThreadsTrackWhileTheDiskFollows) {
  for (const auto policy : {Tracking::list, Tracking::file_locked, Tracking::file_lockless}) {
    Image image({"-b", "1024", "-N", "2048"});
    auto inodes = image.nameless(800);
    OrphanMount fs(image.overlay(), {.policy = policy, .replay_journal = kEmptyLog});
    ok(fs.life().mount({}));
    for (int round = 0; round < 3; ++round) {
      testing_support::together(4, [&](unsigned t) {
        Random random(static_cast<std::uint64_t>(round) * 4 + t);
        for (int turn = 0; turn < 2000; ++turn) {
          auto& i = inodes[t * 200 + random.below(200)];
          if (i.own.state == alloc::OrphanInode::State::untracked)
            fs.tracker()->add(i, t);
          else if (random.one_in(3))
            fs.tracker()->remove(i);
        }
      });
      ok(fs.flush());
      ok(fs.tracker()->verify());
      std::multiset<Ino> expected;
      for (const auto& i : inodes)
        if (i.own.state != alloc::OrphanInode::State::untracked) expected.insert(i.ino);
      bool sound = false;
      EXPECT_EQ(on_disk(image.overlay(), sound), expected);
      EXPECT_TRUE(sound);
    }
    for (auto& i : inodes) fs.tracker()->remove(i);
    ok(fs.life().unmount());
    bool sound = false;
    EXPECT_TRUE(on_disk(image.overlay(), sound).empty());
    EXPECT_EQ(image.flags(), std::pair(false, false));
  }
}

TEST(OrphanMount, E2fsckAgreesAfterUnmount) {
  Image image;
  if (testing_support::run_child({"e2fsck", "-V"}).status != 0) GTEST_SKIP() << "needs e2fsck";
  auto inodes = image.nameless(20);
  {
    OrphanMount fs(image.overlay(), {.replay_journal = kEmptyLog});
    ok(fs.life().mount({}));
    for (auto& i : inodes) fs.tracker()->add(i, 1);
    ok(fs.life().freeze());
    EXPECT_EQ(image.flags(), std::pair(false, true)) << "a snapshot now has orphans and no journal to replay";
  }
  OrphanMount next(image.overlay(), {.now = 1800000000});
  ok(next.life().mount({}));  // no log to replay
  EXPECT_EQ(next.cleaned().erased, 20U);
  EXPECT_EQ(image.flags(), std::pair(true, true));
  ok(next.life().unmount());
  image.write_out();
  EXPECT_EQ(testing_support::run_child({"e2fsck", "-fn", image.path()}).status, 0);
}

TEST(OrphanMount, DamagedBlockFailsTheMountAndLeavesTheFlags) {
  Image image;
  {
    orphan::Volume volume = *orphan::Volume::load(image.overlay());
    const auto report = *orphan::inspect_orphan_file(volume);
    (*image.overlay().edit(report.blocks.at(1).physical))[5] ^= std::byte{1};
  }
  OrphanMount fs(image.overlay(), {});
  const auto r = fs.life().mount({});
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().kind, ErrorKind::corrupt);
  EXPECT_EQ(image.flags(), std::pair(true, true));
  EXPECT_EQ(fs.tracker(), nullptr);
}

TEST(OrphanMount, WithoutAJournalNothingIsTracked) {
  Image image({"-b", "1024", "-O", "^has_journal,^orphan_file"}, false);
  OrphanMount fs(image.overlay(), {});
  ok(fs.life().mount({}));
  EXPECT_EQ(fs.tracker(), nullptr);
  ok(fs.life().unmount());
  EXPECT_EQ(image.flags(), std::pair(false, false));
}

TEST(OrphanMount, RecoveryWithoutSomebodyToReplayIsRefused) {
  Image image;
  OrphanMount fs(image.overlay(), {});
  ok(fs.life().mount({}));
  OrphanMount next(image.overlay(), {});
  const auto r = next.life().mount({});
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().kind, ErrorKind::incompatible);
}

TEST(OrphanMount, PolicyListLeavesTheFileAloneAndStillKnowsItIsNotEmpty) {
  Image image;
  auto inodes = image.nameless(2);
  {
    OrphanMount fs(image.overlay(), {.replay_journal = kEmptyLog});
    ok(fs.life().mount({}));
    for (auto& i : inodes) fs.tracker()->add(i, 0);
    ok(fs.life().freeze());
  }
  {  // an error bit keeps the slots as they are
    auto block = (*image.overlay().edit(1)).subspan(0, 1024);
    store<le16>(block.data(), 0x3A, 2);
    store<le32>(block.data(), 0x3FC, crc32c(~0U, block.data(), 0x3FC));
  }
  OrphanMount next(image.overlay(), {.policy = Tracking::list});
  ok(next.life().mount({}));
  ok(next.life().freeze());
  EXPECT_EQ(image.flags(), std::pair(false, true));
}

}  // namespace
}  // namespace e4::space
