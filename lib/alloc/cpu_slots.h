// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "alloc/stats.h"

namespace e4::alloc {

/// A signed total kept as a rough global number plus a remainder for each CPU
/// (kernel: percpu_counter). rough() costs one load and is off by at most
/// error_bound(); sum() is exact when nobody adds meanwhile, and retried while
/// a remainder moves.
class CpuCounter {
 public:
  static constexpr std::int64_t kBatch = 512;

  /// A remainder of `batch` or more moves to the global number.
  explicit CpuCounter(std::int64_t batch = kBatch) : batch_(batch) {}

  /// `slot` is the caller's CPU's remainder.
  void add(std::atomic<std::int64_t>& slot, std::int64_t delta) {
    const std::int64_t now = slot.fetch_add(delta, std::memory_order_relaxed) + delta;
    if (now >= batch_ || now <= -batch_) [[unlikely]] {
      started_.fetch_add(1, std::memory_order_acq_rel);
      global_.fetch_add(slot.exchange(0, std::memory_order_acq_rel), std::memory_order_acq_rel);
      finished_.fetch_add(1, std::memory_order_acq_rel);
    }
  }
  [[nodiscard]] std::int64_t rough() const { return global_.load(std::memory_order_relaxed); }
  template <class Slots>
  [[nodiscard]] std::int64_t sum(const Slots& slots) const {
    std::int64_t total = 0;
    for (int attempt = 0; attempt < 64; ++attempt) {
      const auto finished = finished_.load(std::memory_order_acquire);
      total = global_.load(std::memory_order_acquire);
      slots([&total](const std::atomic<std::int64_t>& s) { total += s.load(std::memory_order_acquire); });
      if (started_.load(std::memory_order_acquire) == finished) break;
    }
    return total;
  }
  void set(std::int64_t value) { global_.store(value, std::memory_order_relaxed); }

 private:
  const std::int64_t batch_;
  std::atomic<std::int64_t> global_{0};
  std::atomic<std::uint64_t> started_{0}, finished_{0};
};

/// A statistic bumped by plain load and store: two threads that claim to be
/// the same CPU may lose a count, which a statistic can bear.
class Tally {
 public:
  void add(std::uint64_t n = 1) { v_.store(v_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t get() const { return v_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> v_{0};
};

/// What one CPU counts, on its own cache lines.
struct alignas(64) CpuSlot {
  std::atomic<std::int64_t> free_clusters{0};
  std::atomic<std::int64_t> dirty_clusters{0};
  Tally requests, successes, claim_refused, no_space, allocated, freed, goal_hits, lost_chunks, prealloc_hits,
      preallocs_made, preallocs_discarded, preallocated, discarded, busy_skips;
  struct Pass {
    Tally hits, considered, scanned;
  } passes[5];
};

}  // namespace e4::alloc
