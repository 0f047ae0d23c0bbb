// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <array>
#include <cstdint>

#include "alloc/policy.h"
#include "alloc/sync.h"

namespace e4::alloc {

/// i_generation of new inodes. Policies: locked (a counter under its own lock,
/// Linux before 4.15), atomic (proposed in 2017, never merged), random (4.15
/// and later: nothing shared, so numbers can repeat). next() from any thread.
///
/// Memory order: a generation orders nothing but itself, so the counter is
/// relaxed; atomicity alone makes numbers distinct.
template <class Sync>
class BasicGenerations {
 public:
  /// `seed`: first number (locked, atomic), or what the random numbers start from.
  BasicGenerations(Policy::InodeGeneration policy, std::uint64_t seed)
      : policy_(policy), next_(static_cast<std::uint32_t>(seed)), counter_(static_cast<std::uint32_t>(seed)) {
    for (std::size_t i = 0; i < states_.size(); ++i) states_[i].weyl = mix(seed + (i + 1) * kGolden);
  }

  /// `cpu`: of the calling thread; with random each keeps its own state.
  std::uint32_t next(std::uint32_t cpu) {
    switch (policy_) {
      case Policy::InodeGeneration::locked: {
        BasicLock hold(lock_);
        const std::uint32_t now = Sync::get(next_);
        Sync::set(next_, now + 1);
        return now;
      }
      case Policy::InodeGeneration::atomic:
        return Sync::fetch_add(counter_, 1U, std::memory_order_relaxed);
      case Policy::InodeGeneration::random:
        break;
    }
    // Two threads that claim the same CPU still get different states out of one addition.
    const std::uint64_t state = Sync::fetch_add(states_[cpu % states_.size()].weyl, kGolden, std::memory_order_relaxed);
    return static_cast<std::uint32_t>(mix(state) >> 32);
  }

  [[nodiscard]] LockTraffic lock_traffic() const { return lock_.traffic(); }
  template <class Visit>
  void visit_memory(Visit visit) E4_NO_THREAD_SAFETY_ANALYSIS {
    visit(&lock_, sizeof lock_);
    visit(&next_, sizeof next_);
    visit(&counter_, sizeof counter_);
  }

 private:
  static constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15ULL;
  static constexpr std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  struct alignas(64) State {
    std::uint64_t weyl = 0;  // atomic
  };

  const Policy::InodeGeneration policy_;
  typename Sync::Spin lock_{NeighbourRank::generation};
  std::uint32_t next_ E4_GUARDED_BY(lock_);
  alignas(64) std::uint32_t counter_;  // atomic
  std::array<State, 16> states_;
};

using Generations = BasicGenerations<NativeSync>;

}  // namespace e4::alloc
