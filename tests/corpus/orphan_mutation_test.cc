// SPDX-License-Identifier: GPL-2.0-only
// Crash images with bytes changed where orphans are decided: superblock,
// descriptors, bitmaps, inodes, orphan blocks. However they lie, no block that
// a linked inode maps is written or given back, and a second look finds
// nothing left to do.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "base/crc32c.h"
#include "base/random.h"
#include "image/container.h"
#include "journal/recovery.h"
#include "orphan/inode.h"
#include "orphan/mapping.h"
#include "orphan/ownership.h"
#include "orphan/release.h"

namespace e4::orphan {
namespace {

std::string corpus() {
  const char* env = std::getenv("E4_CORPUS");
  return env != nullptr ? env : "../shared/corpus";
}

/// What linked inodes map; sole proof here is a plain set.
Result<std::set<Blk>> held_by_linked(Volume& v, const std::set<Ino>& but) {
  std::set<Blk> held;
  const auto visit = [&](Ino ino, std::span<const std::byte> raw, bool bit) -> Result<void> {
    const InodeView inode(raw);
    // Attribute inodes have a link as long as they are referred to, and go with the last reference.
    if (!bit || inode.links() == 0 || (inode.flags() & kFlagEaInode) != 0 || ino < v.geo().first_ino || but.contains(ino)) return {};
    Mapping m;
    E4_TRY(walk_mapping(v, ino, inode, m));
    for (const Run& r : m.runs)
      for (std::uint32_t i = 0; i < std::min(r.blocks, 4096U); ++i) held.insert(r.physical + i);
    held.insert(m.meta.begin(), m.meta.end());
    return {};
  };
  E4_TRY(for_each_inode(v, visit, [](const std::string&) {}));
  return held;
}

class Mutations {
 public:
  Mutations(image::Device& recovered, std::uint32_t block_bytes, std::uint64_t seed)
      : recovered_(recovered), block_bytes_(block_bytes), rng_(seed) {}

  Result<void> round() {
    image::Overlay image(recovered_, block_bytes_);
    E4_TRY(damage(image));
    image::Overlay work(image, block_bytes_);
    auto volume = Volume::load(work);
    if (!volume) return {};
    auto plan = E4_TRY(classify(*volume));
    std::set<Ino> cut = {volume->orphan_file_inum(), volume->geo().usr_quota_inum, volume->geo().grp_quota_inum,
                         volume->geo().prj_quota_inum};
    for (const Record& r : plan.records)
      if (r.action == Action::truncate) cut.insert(r.ino);
    const auto held = E4_TRY(held_by_linked(*volume, cut));
    std::set<Blk> used;
    for (const Blk b : held)
      if (const auto bit = volume->cluster_in_use(b); bit && *bit) used.insert(b);
    const std::uint64_t promised = plan.totals().back_bytes;
    const auto done = E4_TRY(release_all(*volume, plan, {.now = 1'900'000'000, .done = {}}));
    EXPECT_EQ(done.freed_bytes, promised);
    for (const Blk b : used) {
      const auto bit = volume->cluster_in_use(b);
      EXPECT_TRUE(!bit || *bit) << "block " << b << " was given back";
    }
    for (const Blk b : work.dirty_blocks()) {
      if (!held.contains(b)) continue;
      // A tree block of the table, or of an attribute, may be claimed by a lying map; then its content decides.
      EXPECT_TRUE(metadata(*volume, b) || plan.file.repairable()) << "block " << b << " of a linked inode was written";
    }
    const Plan again = E4_TRY(classify(*volume));
    for (const Record& r : again.records) EXPECT_EQ(r.action, Action::leave) << "inode " << r.ino;
    return {};
  }

 private:
  static bool metadata(const Volume& v, Blk b) {
    if (b <= v.geo().first_data_block + v.geo().groups_count) return true;
    for (GroupNo g = 0; g < v.geo().groups_count; ++g) {
      const GroupDesc& d = v.group(g);
      if (b == d.block_bitmap || b == d.inode_bitmap || (b >= d.inode_table && b < d.inode_table + v.geo().itable_blocks)) return true;
    }
    return false;
  }

  /// One to four changes; half of them sealed again, so that a checksum does not stop everything.
  Result<void> damage(image::Overlay& image) {
    auto v = E4_TRY(Volume::load(image));
    const auto file = E4_TRY(inspect_orphan_file(v));
    for (std::uint64_t n = 1 + rng_.next() % 4; n > 0; --n) {
      switch (rng_.next() % 5) {
        case 0: {  // superblock fields of this trade
          static constexpr std::uint16_t kAt[] = {0x5C, 0x60, 0x64, 0x280, 0xE8, 0xE0, 0x240, 0x54, 0x3A, 0x270};
          std::byte raw[1024];
          E4_TRY(image.read(1024, raw));
          const std::size_t at = kAt[rng_.next() % std::size(kAt)] + rng_.next() % 4;
          raw[at] ^= std::byte(1U << rng_.next() % 8);
          if (v.geo().metadata_csum()) store<le32>(raw, 0x3FC, crc32c(~0U, raw, 0x3FC));
          E4_TRY(image.write(1024, raw));
          break;
        }
        case 1: {  // an inode, sealed or not
          const Ino ino = 1 + static_cast<Ino>(rng_.next() % std::min<std::uint32_t>(v.geo().inodes_count, 120));
          const auto raw = E4_TRY(InodeTable(v).edit(ino));
          static constexpr std::uint8_t kAt[] = {0, 4, 0x14, 0x1A, 0x20, 0x28, 0x2A, 0x34, 0x38, 0x3C, 0x3E, 0x40, 0x44, 0x68, 0x64, 0x80};
          raw[std::min<std::size_t>(kAt[rng_.next() % std::size(kAt)] + rng_.next() % 2, raw.size() - 1)] = std::byte(rng_.next() & 0xFF);
          if (rng_.next() % 4 != 0) seal_inode(v.geo(), ino, raw);
          break;
        }
        case 2: {  // a slot
          if (file.blocks.empty()) break;
          const auto& b = file.blocks[rng_.next() % file.blocks.size()];
          const auto raw = E4_TRY(image.edit(b.physical));
          set_slot(raw, static_cast<std::uint32_t>(rng_.next() % 8), static_cast<Ino>(rng_.next() % 200));
          if (rng_.next() % 2 != 0)
            seal_orphan_block(raw, inode_csum_seed(v.geo().csum_seed, file.ino, file.generation), b.physical, v.geo().metadata_csum());
          break;
        }
        case 3: {  // an inode's map pointed at another's
          const Ino from = 11 + static_cast<Ino>(rng_.next() % 100), to = 11 + static_cast<Ino>(rng_.next() % 100);
          const auto view = E4_TRY(InodeTable(v).view(from));
          const std::vector<std::byte> copy(view.begin(), view.end());
          const auto raw = E4_TRY(InodeTable(v).edit(to));
          std::copy_n(copy.begin() + 0x20, 72, raw.begin() + 0x20);
          seal_inode(v.geo(), to, raw);
          break;
        }
        default: {  // a bitmap or descriptor byte
          const GroupDesc& d = v.group(0);
          const Blk b = rng_.next() % 3 == 0 ? v.geo().first_data_block + 1 : rng_.next() % 2 == 0 ? d.block_bitmap : d.inode_bitmap;
          E4_TRY(image.edit(b))[rng_.next() % 256] ^= std::byte(1U << rng_.next() % 8);
          break;
        }
      }
    }
    return {};
  }

  image::Device& recovered_;
  std::uint32_t block_bytes_;
  Random rng_;
};

class CorpusOrphanMutations : public ::testing::TestWithParam<const char*> {};

TEST_P(CorpusOrphanMutations, NeverHarmALinkedFileAndSettleAtOnce) {
  const std::string path = corpus() + "/crash/" + GetParam() + "/image.zst";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no corpus at " << corpus();
  auto device = image::open_container(path);
  ASSERT_TRUE(device) << device.error().message();
  std::byte raw[1024];
  ASSERT_TRUE((*device)->read(1024, raw));
  const std::uint32_t block_bytes = 1024U << load<le32>(raw, 0x18);
  image::Overlay recovered(**device, block_bytes);
  {
    auto fs = image::Filsys::open(**device, {.ignore_checksums = true});
    ASSERT_TRUE(fs);
    const auto plan = journal::plan_recovery(**device, *fs);
    ASSERT_TRUE(plan && journal::apply(*plan, recovered));
  }
  const char* rounds = std::getenv("E4_MUTATIONS");
  const std::uint64_t n = rounds != nullptr ? std::strtoull(rounds, nullptr, 10) : 60;
  for (std::uint64_t seed = 1; seed <= n; ++seed) {
    const auto done = Mutations(recovered, block_bytes, seed).round();
    ASSERT_TRUE(done) << "seed " << seed << ": " << done.error().message();
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

std::string image_name(const ::testing::TestParamInfo<const char*>& i) {
  std::string name = i.param;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
}
INSTANTIATE_TEST_SUITE_P(Crash, CorpusOrphanMutations,
                         ::testing::Values("c01-of-4k-csum", "c06-legacy-1k-nocsum", "c09-bigalloc", "c11-ea-inode",
                                           "c14-indirect-4k", "c16-truncate-in-progress", "c30-quota-4k"),
                         image_name);

}  // namespace
}  // namespace e4::orphan
