// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <vector>

#include "alloc/bits.h"
#include "alloc/cpu_slots.h"
#include "alloc/inode_allocator.h"

// Private to the inode allocator.
namespace e4::alloc {

inline constexpr unsigned kInodeLocks = 128;

/// One group's inodes. Written under the group's lock; the counts are read without it by searches, as hints.
struct InodeAllocator::Record {
  std::atomic<std::uint32_t> free{0}, dirs{0}, unused{0};
  std::atomic<bool> uninit{false}, zeroed{false}, corrupt{false};
  bool dirty = false;
  std::unique_ptr<bits::Word[]> bits;
};

struct alignas(64) InodeAllocator::Lock {
  GroupSpin spin;
};

struct alignas(64) CpuTotals {
  std::atomic<std::int64_t> free{0}, dirs{0};
};

/// Sums that lag like the kernel's per-CPU counters.
struct InodeAllocator::Totals {
  static constexpr std::int64_t kKernelBatch = 32;
  explicit Totals(std::uint32_t cpus) : slots(cpus) {}
  CpuTotals& cpu(std::uint32_t n) { return slots[n % slots.size()]; }
  std::int64_t exact(const CpuCounter& counter, std::atomic<std::int64_t> CpuTotals::*member) const {
    return counter.sum([&](auto add) {
      for (const CpuTotals& t : slots) add(t.*member);
    });
  }
  CpuCounter free{kKernelBatch}, dirs{kKernelBatch};
  std::vector<CpuTotals> slots;
};

}  // namespace e4::alloc
