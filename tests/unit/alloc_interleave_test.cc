// SPDX-License-Identifier: GPL-2.0-only
// Small cases of everything lock-free, through every interleaving; and the
// same with a flaw put in, which has to be found.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <set>

#include "alloc/generation.h"
#include "alloc/orphan_tracker.h"
#include "alloc/stream_goal.h"
#include "base/endian.h"
#include "support/interleave.h"

namespace e4::alloc {
namespace {

using testing_support::Interleave;
using testing_support::ModelLock;
using testing_support::ModelSync;
using Tracking = Policy::OrphanTracking;

/// Compare-and-swap taken apart into a look and a plain store.
struct SplitCas : ModelSync {
  template <class T>
  static bool compare_exchange(T& word, T& expected, T value, std::memory_order success, std::memory_order) {
    const T found = load(word, success);
    if (found != expected) {
      expected = found;
      return false;
    }
    store(word, value, success);
    return true;
  }
};
/// A counter raised by load and store.
struct SplitAdd : ModelSync {
  template <class T>
  static T fetch_add(T& word, T by, std::memory_order order) {
    const T found = load(word, order);
    store(word, static_cast<T>(found + by), order);
    return found;
  }
};
/// A lock that does not lock.
struct NoLock : ModelSync {
  class E4_CAPABILITY("mutex") Open {
   public:
    explicit Open(NeighbourRank) {}
    void lock() E4_ACQUIRE() {}
    void unlock() E4_RELEASE() {}
    [[nodiscard]] LockTraffic traffic() const { return {}; }
  };
  using Spin = Open;
  using Sleep = Open;
};

/// A tracker, some inodes, and what must hold at every step.
template <class Sync>
class World {
 public:
  static constexpr unsigned kThreads = 3, kInodes = 6;
  using Tracker = BasicOrphanTracker<Sync>;

  /// `taken`: slots of each block that somebody holds for good.
  World(Tracking policy, std::uint32_t blocks, std::uint32_t slots, std::uint32_t taken = 0) : blocks_(blocks), slots_(slots) {
    typename Tracker::Options o;
    o.policy = policy;
    o.file_blocks = blocks;
    o.block_bytes = slots * 4 + 8;
    o.inodes_count = 1000;
    o.access = {[](void* p, std::uint32_t) { return !static_cast<World*>(p)->refuse_; }, this};
    tracker = std::make_unique<Tracker>(o);
    for (std::uint32_t b = 0; b < blocks; ++b) {
      std::vector<std::byte> block(o.block_bytes);
      for (std::uint32_t s = 0; s < taken; ++s) store<le32>(block.data(), std::size_t{s} * 4, 900 + b * slots + s);
      tracker->load_block(b, block);
    }
    for (unsigned i = 0; i < kInodes; ++i) inodes.emplace_back(100 + i);
    explorer.each_step([this](unsigned t, bool finished) { return check_step(t, finished); });
    explorer.at_end([this] { return check_end(); });
  }

  Interleave::Operation add(unsigned t, unsigned i) { return add_on_cpu(t, i, t); }
  Interleave::Operation add_on_cpu(unsigned t, unsigned i, unsigned cpu) {
    claim_inode(t, i);
    return [this, cpu, i] { tracker->add(inodes[i], cpu); };
  }
  Interleave::Operation remove(unsigned t, unsigned i) {
    claim_inode(t, i);
    return [this, i] { tracker->remove(inodes[i]); };
  }
  /// Journal access says no.
  Interleave::Operation add_refused(unsigned t, unsigned i) {
    claim_inode(t, i);
    return [this, t, i] {
      refuse_ = true;
      struct Again {
        bool& refuse;
        ~Again() { refuse = false; }
      } again{refuse_};
      tracker->add(inodes[i], t);
    };
  }
  /// Blocks written out beside it all, into `disk`.
  Interleave::Operation store_dirty(unsigned t) {
    if (disk.empty()) {
      disk.assign(blocks_, std::vector<std::byte>(slots_ * 4 + 8));
      for (std::uint32_t b = 0; b < blocks_; ++b) {
        tracker->copy_block(b, disk[b]);
        explorer.own(t, disk[b].data(), disk[b].size());
      }
    }
    return [this] {
      for (std::uint32_t b = 0; b < blocks_; ++b)
        if (tracker->take_dirty(b)) tracker->copy_block(b, disk[b]);
    };
  }

  Interleave::Report run() {
    tracker->visit_memory([this](void* p, std::size_t n) { explorer.shared(p, n); });
    for (OrphanInode& i : inodes) explorer.shared(&i.link, sizeof i.link);
    explorer.shared(&monitor_, sizeof monitor_);
    note_zero_counters();
    remember_slots();
    Interleave::Report r = explorer.run();
    testing::Test::RecordProperty("states", std::to_string(r.states));
    testing::Test::RecordProperty("schedule ends", std::to_string(r.ends));
    return r;
  }

  std::unique_ptr<Tracker> tracker;
  std::deque<OrphanInode> inodes;
  std::vector<std::vector<std::byte>> disk;
  Interleave explorer;
  std::set<std::string> outcomes;  // how the inodes stood at the ends: "FLU..." file, list, untracked

 private:
  static constexpr std::size_t kMaxSlots = 8;
  void claim_inode(unsigned t, unsigned i) {
    if (owner_.emplace(i, t).second) explorer.own(t, &inodes[i].own, sizeof inodes[i].own);
  }
  void note_zero_counters() {
    for (std::uint32_t b = 0; b < blocks_; ++b)
      if (tracker->uses_file() && tracker->free_slots(b) == 0)
        for (auto& seen : monitor_.zero_seen) seen |= 1U << b;
  }
  void remember_slots() {
    for (std::uint32_t s = 0; s < tracker->file_blocks() * slots_; ++s) monitor_.slots[s] = tracker->slot(s);
  }

  std::string check_step(unsigned t, bool finished) {
    for (std::uint32_t s = 0; s < tracker->file_blocks() * slots_; ++s) {
      const Ino now = tracker->slot(s), before = monitor_.slots[s];
      if (before != 0 && now != 0 && now != before) return "slot " + std::to_string(s) + " was claimed while taken";
    }
    remember_slots();
    note_zero_counters();
    for (const OrphanInode& i : inodes)
      if (i.own.state == OrphanInode::State::in_file && tracker->slot(i.own.index) != i.ino)
        return "inode " + std::to_string(i.ino) + " lost its slot";
    if (!finished) return {};
    for (const auto& [index, owner] : owner_) {
      if (owner != t) continue;
      const OrphanInode& i = inodes[index];
      const bool listed = i.own.state == OrphanInode::State::in_list;
      const std::uint32_t bit = 1U << (i.ino - 100);
      // Full is legal only if every block was without a free slot at some moment while the claim ran.
      if (listed && (monitor_.listed & bit) == 0 && monitor_.zero_seen[t] != (1U << tracker->file_blocks()) - 1)
        return "inode " + std::to_string(i.ino) + " went to the list though a slot was free";
      monitor_.listed = listed ? monitor_.listed | bit : monitor_.listed & ~bit;
    }
    monitor_.zero_seen[t] = 0;
    note_zero_counters();
    return {};
  }

  std::string check_end() {
    if (const auto verdict = tracker->verify(); !verdict) return verdict.error().message();
    std::set<Ino> held;
    for (const auto& link : tracker->chain().links()) held.insert(link.ino);
    for (std::uint32_t s = 0; s < tracker->file_blocks() * slots_; ++s)
      if (const Ino ino = tracker->slot(s); ino != 0 && ino < 900) held.insert(ino);
    std::string outcome;
    for (const OrphanInode& i : inodes) {
      const bool tracked = i.own.state != OrphanInode::State::untracked;
      if (tracked != (held.count(i.ino) != 0)) return "inode " + std::to_string(i.ino) + " was lost or left behind";
      outcome += tracked ? (i.own.state == OrphanInode::State::in_file ? 'F' : 'L') : 'U';
    }
    outcomes.insert(outcome);
    for (std::uint32_t b = 0; b < disk.size(); ++b) {
      std::vector<std::byte> now(disk[b]);
      if (!tracker->take_dirty(b)) {
        tracker->copy_block(b, now);
        if (now != disk[b]) return "block " + std::to_string(b) + " changed without a mark";
      }
    }
    return {};
  }

  const std::uint32_t blocks_, slots_;
  bool refuse_ = false;
  std::map<unsigned, unsigned> owner_;  // inode to thread
  struct Monitor {
    std::array<std::uint32_t, kThreads> zero_seen{};  // blocks seen with counter 0 since the operation began
    std::array<Ino, kMaxSlots> slots{};
    std::uint32_t listed = 0;
  } monitor_;
};

// The sanitizers are slow and look for something else: there each thread claims and releases once.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kShort = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
constexpr bool kShort = true;
#else
constexpr bool kShort = false;
#endif
#else
constexpr bool kShort = false;
#endif

void expect_proved(const Interleave::Report& r, std::uint64_t at_least_states) {
  EXPECT_EQ(r.failure, "");
  EXPECT_TRUE(r.complete) << r.states << " states";
  EXPECT_GT(r.states, kShort ? 100 : at_least_states) << "too few states to mean anything";
}

class InterleavedOrphans : public testing::TestWithParam<Tracking> {};
INSTANTIATE_TEST_SUITE_P(Both, InterleavedOrphans, testing::Values(Tracking::file_locked, Tracking::file_lockless),
                         [](const auto& p) { return p.param == Tracking::file_locked ? "locked" : "lockless"; });

TEST_P(InterleavedOrphans, ClaimReleaseClaimByThreeThreadsNeverSharesOrLosesASlot) {
  World<ModelSync> w(GetParam(), 2, 2);
  for (unsigned t = 0; t < 3; ++t) {
    w.explorer.thread(kShort ? std::vector{w.add(t, t), w.remove(t, t)}
                             : std::vector{w.add(t, t), w.remove(t, t), w.add(t, t)});
  }
  expect_proved(w.run(), 10000);
  EXPECT_EQ(w.outcomes, std::set<std::string>{kShort ? "UUUUUU" : "FFFUUU"}) << "three inodes always fit into four slots";
}

TEST_P(InterleavedOrphans, OverflowGoesToTheListOnlyWhenFull) {
  World<ModelSync> w(GetParam(), kShort ? 1 : 2, 2);
  w.explorer.thread(kShort ? std::vector{w.add(0, 0)} : std::vector{w.add(0, 0), w.add(0, 3), w.remove(0, 0)});
  w.explorer.thread(kShort ? std::vector{w.add(1, 1)} : std::vector{w.add(1, 1), w.add(1, 4)});
  w.explorer.thread({w.add(2, 2), w.remove(2, 2)});
  expect_proved(w.run(), 10000);
  EXPECT_GT(w.outcomes.size(), 1U) << "with and without overflow";
}

TEST_P(InterleavedOrphans, ThreeThreadsForTwoFreeSlots) {
  World<ModelSync> w(GetParam(), 2, 2, 1);
  w.explorer.thread({w.add(0, 0), w.remove(0, 0)});
  w.explorer.thread(kShort ? std::vector{w.add(1, 1)} : std::vector{w.add(1, 1), w.remove(1, 1), w.add(1, 1)});
  w.explorer.thread(kShort ? std::vector{w.add(2, 2)} : std::vector{w.add(2, 2), w.remove(2, 2), w.add(2, 2)});
  expect_proved(w.run(), 10000);
  EXPECT_GE(w.outcomes.size(), 3U) << "either of the two that stay may end up on the list, or none";
}

TEST_P(InterleavedOrphans, RefusedAccessBesideClaims) {
  World<ModelSync> w(GetParam(), 2, 2, 1);
  w.explorer.thread(kShort ? std::vector{w.add_refused(0, 0)} : std::vector{w.add_refused(0, 0), w.add(0, 0)});
  w.explorer.thread({w.add(1, 1), w.remove(1, 1)});
  w.explorer.thread(kShort ? std::vector{w.add(2, 2)} : std::vector{w.add(2, 2), w.remove(2, 2), w.add(2, 2)});
  expect_proved(w.run(), 1000);
}

TEST_P(InterleavedOrphans, AStorerBesideThemMissesNoChange) {
  World<ModelSync> w(GetParam(), 2, 2);
  w.explorer.thread({w.add(0, 0), w.remove(0, 0)});
  w.explorer.thread({w.add_on_cpu(1, 1, 2), w.remove(1, 1)});  // both start at block 0
  w.explorer.thread({w.store_dirty(2), w.store_dirty(2)});
  expect_proved(w.run(), 1000);
}

TEST(InterleavedList, ChainStaysWholeUnderEveryInterleaving) {
  World<ModelSync> w(Tracking::list, 0, 0);
  w.explorer.thread({w.add(0, 0), w.add(0, 3), w.remove(0, 0)});
  w.explorer.thread({w.add(1, 1), w.add(1, 4), w.remove(1, 1)});
  w.explorer.thread({w.add(2, 2), w.remove(2, 2)});
  expect_proved(w.run(), 1000);
  EXPECT_EQ(w.outcomes, std::set<std::string>{"UUULLU"});
}

/// Three threads take two numbers each; every schedule must give six different ones.
template <class Sync>
Interleave::Report number_inodes(Policy::InodeGeneration policy) {
  BasicGenerations<Sync> generations(policy, 1);
  std::array<std::uint32_t, 6> got{};
  Interleave explorer;
  generations.visit_memory([&](void* p, std::size_t n) { explorer.shared(p, n); });
  for (unsigned t = 0; t < 3; ++t) {
    explorer.own(t, &got[2 * t], 2 * sizeof got[0]);
    explorer.thread({[&, t] { got[2 * t] = generations.next(t); }, [&, t] { got[2 * t + 1] = generations.next(t); }});
  }
  explorer.at_end([&] {
    const std::set<std::uint32_t> all(got.begin(), got.end());
    return all.size() == 6 && *all.begin() == 1 && *all.rbegin() == 6 ? std::string() : std::string("a number was given twice");
  });
  return explorer.run();
}

TEST(InterleavedGenerations, NumbersAreDistinctUnderEveryInterleaving) {
  for (const auto policy : {Policy::InodeGeneration::locked, Policy::InodeGeneration::atomic}) {
    const auto r = number_inodes<ModelSync>(policy);
    EXPECT_EQ(r.failure, "");
    EXPECT_TRUE(r.complete);
    EXPECT_GE(r.ends, 90U);  // 6! / (2! 2! 2!) orders of the six numbers
  }
}

/// Three threads take clusters out of two groups, each from the remembered group on. `Goals` is the real thing; the
/// groups are two numbers under a lock each. What a read of the hint returns may be out of date.
Interleave::Report follow_streams(Policy::StreamGoal how, std::set<std::string>& outcomes) {
  constexpr unsigned kGroups = 2, kEach = 2, kThreads = 3, kTakes = 5;
  struct Group {
    ModelLock lock;
    std::uint32_t free = kEach;
  };
  std::array<Group, kGroups> groups;
  ModelLock freed_lock;
  BasicStreamGoals<ModelSync, ModelLock> goals(how, 2, 8, freed_lock);
  std::array<std::uint32_t, kTakes> got{};  // 1 + group, 100: no space
  Interleave explorer;
  explorer.shared(&groups, sizeof groups);
  explorer.shared(&freed_lock, sizeof freed_lock);
  goals.visit_memory([&](void* p, std::size_t n) {
    explorer.shared(p, n);
    if (how != Policy::StreamGoal::locked && n == sizeof(GroupNo)) explorer.hint(p);
  });
  const auto take = [&](unsigned ino, std::uint32_t& result) {
    return [&, ino] {
      const GroupNo start = goals.get(ino).group % kGroups;
      for (unsigned i = 0; i < kGroups; ++i) {
        const GroupNo g = (start + i) % kGroups;
        BasicLock hold(groups[g].lock);
        const std::uint32_t free = ModelSync::get(groups[g].free);
        if (free == 0) continue;
        ModelSync::set(groups[g].free, free - 1);
        result = 1 + g;
        break;
      }
      if (result == 0)
        result = 100;
      else
        goals.set(ino, result - 1, 0);
    };
  };
  for (unsigned t = 0; t < kThreads; ++t) {
    std::vector<Interleave::Operation> takes;
    for (unsigned i = t; i < kTakes; i += kThreads) {
      explorer.own(t, &got[i], sizeof got[i]);
      takes.push_back(take(t, got[i]));
    }
    explorer.thread(std::move(takes));
  }
  explorer.at_end([&]() -> std::string {
    unsigned none = 0, taken[kGroups] = {};
    std::string outcome;
    for (const std::uint32_t r : got) {
      outcome += r == 100 ? 'x' : static_cast<char>('a' + r - 1);
      if (r == 100)
        ++none;
      else
        ++taken[r - 1];
    }
    outcomes.insert(outcome);
    if (none != kTakes - kGroups * kEach) return "no space was said " + std::to_string(none) + " times: " + outcome;
    for (const unsigned n : taken)
      if (n != kEach) return "a cluster was lost or taken twice: " + outcome;
    for (std::uint32_t s = 0; s < goals.count(); ++s)
      if (goals.at(s) >= kGroups) return "a goal points nowhere";
    return {};
  });
  return explorer.run();
}

TEST(InterleavedHint, ARememberedGroupHoweverOldLosesNoClusterAndHidesNone) {
  for (const auto how : {Policy::StreamGoal::locked, Policy::StreamGoal::relaxed, Policy::StreamGoal::multi}) {
    SCOPED_TRACE(static_cast<int>(how));
    std::set<std::string> outcomes;
    const auto r = follow_streams(how, outcomes);
    expect_proved(r, 500);
    EXPECT_GT(outcomes.size(), 4U);
  }
}

TEST(InterleavedHint, StaleReadsAreExplored) {
  // Message passing through two hint words: with relaxed order the second may be read as it was before.
  std::uint32_t data = 0, flag = 0;
  std::array<std::uint32_t, 2> saw{};
  std::set<std::pair<std::uint32_t, std::uint32_t>> seen;
  Interleave explorer;
  explorer.shared(&data, sizeof data), explorer.shared(&flag, sizeof flag);
  explorer.hint(&data), explorer.hint(&flag);
  explorer.own(1, &saw, sizeof saw);
  explorer.thread({[&] {
    ModelSync::store(data, 1U, std::memory_order_relaxed);
    ModelSync::store(flag, 1U, std::memory_order_relaxed);
  }});
  explorer.thread({[&] {
    saw[0] = ModelSync::load(flag, std::memory_order_relaxed);
    saw[1] = ModelSync::load(data, std::memory_order_relaxed);
  }});
  explorer.at_end([&] {
    seen.insert({saw[0], saw[1]});
    return std::string();
  });
  EXPECT_TRUE(explorer.run().complete);
  EXPECT_EQ(seen.size(), 4U) << "flag seen and data not is one of the four";
}

// --- the same with a flaw ------------------------------------------------------------------------

TEST(InterleavedFlaw, StoreInsteadOfCompareAndSwapIsFound) {
  World<SplitCas> w(Tracking::file_lockless, 2, 2);
  for (unsigned t = 0; t < 3; ++t) w.explorer.thread({w.add(t, t), w.remove(t, t)});
  const auto r = w.run();
  EXPECT_FALSE(r.complete);
  EXPECT_NE(r.failure.find("schedule:"), std::string::npos) << "a flaw must be found, with the way to it";
}

TEST(InterleavedFlaw, CounterRaisedInTwoStepsIsFound) {
  World<SplitAdd> w(Tracking::file_lockless, 1, 2);
  for (unsigned t = 0; t < 3; ++t) w.explorer.thread({w.add(t, t), w.remove(t, t)});
  const auto r = w.run();
  EXPECT_NE(r.failure.find("free slots"), std::string::npos) << r.failure;
}

TEST(InterleavedFlaw, GenerationsWithoutLockOrAtomicAreFound) {
  EXPECT_NE(number_inodes<NoLock>(Policy::InodeGeneration::locked).failure, "");
  EXPECT_NE(number_inodes<SplitAdd>(Policy::InodeGeneration::atomic).failure, "");
}

TEST(InterleavedFlaw, FileLockThatDoesNotLockIsFound) {
  World<NoLock> w(Tracking::file_locked, 2, 2);
  for (unsigned t = 0; t < 2; ++t) w.explorer.thread({w.add(t, t), w.remove(t, t)});
  EXPECT_NE(w.run().failure, "");
}

TEST(InterleavedFlaw, ListLockThatDoesNotLockIsFound) {
  World<NoLock> w(Tracking::list, 0, 0);
  for (unsigned t = 0; t < 2; ++t) w.explorer.thread({w.add(t, t), w.remove(t, t)});
  EXPECT_NE(w.run().failure, "");
}

}  // namespace
}  // namespace e4::alloc
