// SPDX-License-Identifier: GPL-2.0-only
// Orphan tracking against a naive model: any sequence of adds and removes, each
// answer and the whole state compared after every step; failures shrink.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "alloc/orphan_tracker.h"

namespace e4::alloc {
namespace {

using Tracking = Policy::OrphanTracking;
using Added = OrphanTracker::Added;

constexpr std::uint32_t kInodes = 24;

struct Step {
  std::uint32_t inode, cpu;
};
std::ostream& operator<<(std::ostream& out, const Step& s) { return out << "inode " << s.inode << " cpu " << s.cpu; }

/// Slots as a plain array and the list as a plain vector, head first.
struct Model {
  Tracking policy;
  std::uint32_t blocks, slots;
  std::vector<Ino> file = std::vector<Ino>(std::size_t{blocks} * slots);
  std::vector<Ino> list{};

  Added add(Ino ino, std::uint32_t cpu) {
    if (std::count(file.begin(), file.end(), ino) + std::count(list.begin(), list.end(), ino) != 0) return Added::already;
    if (policy != Tracking::list) {
      const std::uint32_t start = policy == Tracking::file_lockless ? cpu * 13 % blocks : 0;
      for (std::uint32_t i = 0; i < blocks; ++i) {
        const auto first = file.begin() + (start + i) % blocks * slots;
        const auto free = std::find(first, first + slots, 0U);
        if (free == first + slots) continue;
        *free = ino;
        return Added::in_file;
      }
    }
    list.insert(list.begin(), ino);
    return Added::in_list;
  }
  void remove(Ino ino) {
    std::replace(file.begin(), file.end(), ino, 0U);
    list.erase(std::remove(list.begin(), list.end(), ino), list.end());
  }
};

void check(Tracking policy) {
  const bool good = rc::check("tracker and model agree", [policy] {
    const auto blocks = *rc::gen::inRange(1U, 5U), slots = *rc::gen::inRange(1U, 5U);
    const auto steps = *rc::gen::container<std::vector<Step>>(rc::gen::apply(
        [](std::uint32_t inode, std::uint32_t cpu) { return Step{inode, cpu}; }, rc::gen::inRange(0U, kInodes),
        rc::gen::inRange(0U, 8U)));
    OrphanTracker::Options o;
    o.policy = policy;
    o.file_blocks = blocks;
    o.block_bytes = slots * 4 + 8;
    o.inodes_count = 1000;
    OrphanTracker tracker(o);
    Model model{policy, blocks, slots};
    std::deque<OrphanInode> inodes;
    for (Ino i = 0; i < kInodes; ++i) inodes.emplace_back(100 + i);
    for (const Step& s : steps) {
      OrphanInode& inode = inodes[s.inode];
      // Every second touch of an inode takes it away again; cpu 7 adds twice.
      if (inode.own.state == OrphanInode::State::untracked || s.cpu == 7) {
        RC_ASSERT(tracker.add(inode, s.cpu) == model.add(inode.ino, s.cpu));
      } else {
        RC_ASSERT(tracker.remove(inode));
        model.remove(inode.ino);
      }
      if (policy != Tracking::list)
        for (std::uint32_t i = 0; i < blocks * slots; ++i) RC_ASSERT(tracker.slot(i) == model.file[i]);
      const auto links = tracker.chain().links();
      RC_ASSERT(links.size() == model.list.size());
      RC_ASSERT(tracker.last_orphan() == (model.list.empty() ? 0 : model.list[0]));
      for (std::size_t i = 0; i < links.size(); ++i) {
        RC_ASSERT(links[i].ino == model.list[i]);
        RC_ASSERT(links[i].i_dtime == (i + 1 < links.size() ? model.list[i + 1] : 0));
      }
      RC_ASSERT(tracker.verify().has_value());
    }
  });
  EXPECT_TRUE(good) << "the seed stands above";
}

TEST(OrphanModel, ListAgreesWithTheModel) { check(Tracking::list); }
TEST(OrphanModel, FileLockedAgreesWithTheModel) { check(Tracking::file_locked); }
TEST(OrphanModel, FileLocklessAgreesWithTheModel) { check(Tracking::file_lockless); }

}  // namespace
}  // namespace e4::alloc
