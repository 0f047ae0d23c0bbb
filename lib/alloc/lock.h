// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <atomic>
#include <cstdint>

#include "alloc/stats.h"
#include "base/assert.h"
#include "base/mutex.h"

namespace e4::alloc {

/// Levels of the lock order (README.md): a thread takes them in rising order
/// and never two of one level. Checked at run time in debug builds.
enum class LockRank : std::uint8_t { locality = 1, load = 2, group = 3, container = 4, prealloc = 5 };

namespace detail {
#ifdef E4_DEBUG
void lock_order_enter(LockRank rank, bool waits);
void lock_order_leave(LockRank rank);
#else
inline void lock_order_enter(LockRank, bool) {}
inline void lock_order_leave(LockRank) {}
#endif
inline void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}
}  // namespace detail

/// A short lock: spins a little, then sleeps in the kernel, because in user
/// space the holder may have lost its CPU. Counts its own traffic; the count
/// of acquisitions is written by the holder only.
template <LockRank kRank>
class E4_CAPABILITY("mutex") RankedLock {
 public:
  RankedLock() = default;
  RankedLock(const RankedLock&) = delete;
  RankedLock& operator=(const RankedLock&) = delete;

  void lock() E4_ACQUIRE() {
    detail::lock_order_enter(kRank, true);
    int expected = 0;
    if (!state_.compare_exchange_strong(expected, 1, std::memory_order_acquire, std::memory_order_relaxed)) [[unlikely]]
      lock_slow();
    count();
  }
  bool try_lock() E4_TRY_ACQUIRE(true) {
    int expected = 0;
    if (state_.load(std::memory_order_relaxed) == 0 &&
        state_.compare_exchange_strong(expected, 1, std::memory_order_acquire, std::memory_order_relaxed)) {
      detail::lock_order_enter(kRank, false);
      count();
      return true;
    }
    try_failed_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  void unlock() E4_RELEASE() {
    detail::lock_order_leave(kRank);
    if (state_.exchange(0, std::memory_order_release) == 2) [[unlikely]]
      state_.notify_one();
  }
  /// Is anybody holding it now? A hint only.
  [[nodiscard]] bool is_locked() const { return state_.load(std::memory_order_relaxed) != 0; }

  void add_counts(LockCounts& to) const {
    to.acquired += acquired_.load(std::memory_order_relaxed);
    to.contended += contended_.load(std::memory_order_relaxed);
    to.try_failed += try_failed_.load(std::memory_order_relaxed);
  }

 private:
  void lock_slow() {
    contended_.fetch_add(1, std::memory_order_relaxed);
    for (int spin = 0; spin < 100; ++spin) {
      int expected = 0;
      if (state_.load(std::memory_order_relaxed) == 0 &&
          state_.compare_exchange_weak(expected, 1, std::memory_order_acquire, std::memory_order_relaxed))
        return;
      detail::cpu_relax();
    }
    // 2: locked, and somebody may sleep.
    while (state_.exchange(2, std::memory_order_acquire) != 0) state_.wait(2, std::memory_order_relaxed);
  }
  void count() {
    acquired_.store(acquired_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  std::atomic<int> state_{0};
  std::atomic<std::uint32_t> contended_{0};
  std::atomic<std::uint32_t> try_failed_{0};
  std::atomic<std::uint64_t> acquired_{0};
};

using LocalityLock = RankedLock<LockRank::locality>;
using LoadLock = RankedLock<LockRank::load>;
using GroupSpin = RankedLock<LockRank::group>;
using ContainerLock = RankedLock<LockRank::container>;
using PaLock = RankedLock<LockRank::prealloc>;

template <class M>
using Held = BasicLock<M>;

}  // namespace e4::alloc
