// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>

#include "base/assert.h"
#include "base/mutex.h"

// How the neighbours of the allocator (orphan tracking, inode generations,
// lazytime) touch shared memory. They are templates over a Sync, so that the
// very same code runs on real threads (NativeSync) and under a scheduler that
// walks through every interleaving (tests/support/interleave.h).
//
// Rule: a word that more than one thread can reach is only touched through
// Sync: load/store/exchange/compare_exchange/fetch_add for atomics, get/set for
// what a lock guards.
namespace e4::alloc {

/// Order in which the neighbours' locks nest; a thread only goes down. Checked at run time in debug builds.
enum class NeighbourRank : std::uint8_t {
  inode_hash,    // lazytime: the hash of in-core inodes
  inode,         // lazytime: state and times of one in-core inode
  raw_inode,     // lazytime: the bytes of one inode in its table block
  orphan_file,   // file-locked: counters and slots
  orphan_list,   // the chain
  generation,    // next generation number
};

namespace detail {
#ifdef E4_DEBUG
/// Ranks this thread holds, a bit each.
inline thread_local std::uint32_t held_neighbour_ranks = 0;
inline void neighbour_enter(NeighbourRank rank) {
  E4_ASSERT((held_neighbour_ranks >> static_cast<unsigned>(rank)) == 0);  // nothing held at this rank or below
  held_neighbour_ranks |= 1U << static_cast<unsigned>(rank);
}
inline void neighbour_leave(NeighbourRank rank) { held_neighbour_ranks &= ~(1U << static_cast<unsigned>(rank)); }
#else
inline void neighbour_enter(NeighbourRank) {}
inline void neighbour_leave(NeighbourRank) {}
#endif

inline void cpu_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}
}  // namespace detail

/// What a lock has seen; a snapshot.
struct LockTraffic {
  std::uint64_t acquired = 0;
  std::uint64_t contended = 0;   // found it held and had to wait
  std::uint64_t wait_turns = 0;  // turns of waiting (spin locks), 0 for sleeping locks
  std::uint64_t try_failed = 0;  // try_lock() found it held
};

/// Counters of a lock. All but try_failed are written by the holder alone, so
/// a relaxed load and store will do; atomics because stats() reads them any time.
class LockCounters {
 public:
  void took(std::uint64_t turns, bool contended) {
    add(acquired_, 1);
    if (contended) add(contended_, 1), add(wait_turns_, turns);
  }
  void missed() { try_failed_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] LockTraffic traffic() const {
    constexpr auto kRelaxed = std::memory_order_relaxed;
    return {acquired_.load(kRelaxed), contended_.load(kRelaxed), wait_turns_.load(kRelaxed), try_failed_.load(kRelaxed)};
  }

 private:
  static void add(std::atomic<std::uint64_t>& c, std::uint64_t n) {
    c.store(c.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  std::atomic<std::uint64_t> acquired_{0}, contended_{0}, wait_turns_{0}, try_failed_{0};
};

/// A spin lock that counts. After kSpins turns it gives the CPU away: in user
/// space the holder may have been preempted.
class E4_CAPABILITY("mutex") SpinLock {
 public:
  static constexpr std::uint32_t kSpins = 128;
  explicit SpinLock(NeighbourRank rank) : rank_(rank) {}
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

  void lock() E4_ACQUIRE() {
    detail::neighbour_enter(rank_);
    std::uint64_t turns = 0;
    while (held_.exchange(true, std::memory_order_acquire)) {
      do {
        if (++turns % kSpins == 0)
          std::this_thread::yield();
        else
          detail::cpu_pause();
      } while (held_.load(std::memory_order_relaxed));
    }
    counters_.took(turns, turns != 0);
  }
  bool try_lock() E4_TRY_ACQUIRE(true) {
    if (held_.load(std::memory_order_relaxed) || held_.exchange(true, std::memory_order_acquire)) {
      counters_.missed();
      return false;
    }
    detail::neighbour_enter(rank_);
    counters_.took(0, false);
    return true;
  }
  void unlock() E4_RELEASE() {
    detail::neighbour_leave(rank_);
    held_.store(false, std::memory_order_release);
  }
  [[nodiscard]] LockTraffic traffic() const { return counters_.traffic(); }

 private:
  std::atomic<bool> held_{false};
  const NeighbourRank rank_;
  LockCounters counters_;
};

/// A sleeping lock that counts.
class E4_CAPABILITY("mutex") SleepLock {
 public:
  explicit SleepLock(NeighbourRank rank) : rank_(rank) {}
  SleepLock(const SleepLock&) = delete;
  SleepLock& operator=(const SleepLock&) = delete;

  void lock() E4_ACQUIRE() {
    detail::neighbour_enter(rank_);
    const bool free = mutex_.try_lock();
    if (!free) mutex_.lock();
    counters_.took(0, !free);
  }
  void unlock() E4_RELEASE() {
    detail::neighbour_leave(rank_);
    mutex_.unlock();
  }
  [[nodiscard]] LockTraffic traffic() const { return counters_.traffic(); }

 private:
  std::mutex mutex_;
  const NeighbourRank rank_;
  LockCounters counters_;
};

/// Real threads. Words are naturally aligned and wider than nothing a CPU does in one go.
struct NativeSync {
  using Spin = SpinLock;
  using Sleep = SleepLock;

  template <class T>
  static T load(const T& word, std::memory_order order) {
    return std::atomic_ref<T>(const_cast<T&>(word)).load(order);
  }
  template <class T>
  static void store(T& word, T value, std::memory_order order) {
    std::atomic_ref<T>(word).store(value, order);
  }
  template <class T>
  static T exchange(T& word, T value, std::memory_order order) {
    return std::atomic_ref<T>(word).exchange(value, order);
  }
  /// Strong; on failure `expected` becomes what was found.
  template <class T>
  static bool compare_exchange(T& word, T& expected, T value, std::memory_order success, std::memory_order failure) {
    return std::atomic_ref<T>(word).compare_exchange_strong(expected, value, success, failure);
  }
  /// Returns the value before; wraps around.
  template <class T>
  static T fetch_add(T& word, T by, std::memory_order order) {
    return std::atomic_ref<T>(word).fetch_add(by, order);
  }
  /// A field its lock guards; the caller holds the lock.
  template <class T>
  static T get(const T& field) {
    return field;
  }
  template <class T>
  static void set(T& field, T value) {
    field = value;
  }
  static void yield() { std::this_thread::yield(); }
};

}  // namespace e4::alloc
