// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "alloc/sync.h"
#include "base/assert.h"
#include "base/result.h"
#include "base/units.h"

// The orphan file in memory: its blocks as they stand on disk (slots of le32,
// 0 is free; the last 8 bytes are the tail and nobody's here), and beside each
// a count of free slots. Two ways to claim a slot: under one lock, as the first
// version of the kernel's patch did, and without (Linux 5.15 to 6.18).
namespace e4::alloc {

/// Blocks and counters; who may touch them when is up to the two classes below.
class SlotMemory {
 public:
  struct alignas(64) Block {
    std::uint32_t free = 0;   // slots nobody holds or has reserved
    std::uint32_t dirty = 0;  // 1: changed since take_dirty()
  };

  /// `block_bytes`: a multiple of 4, at least 12 (so tests can have blocks of one slot).
  SlotMemory(std::uint32_t blocks, std::uint32_t block_bytes)
      : block_bytes_(block_bytes),
        slots_((block_bytes - kTailBytes) / 4),
        words_(static_cast<std::uint32_t*>(::operator new(std::size_t{blocks} * block_bytes, std::align_val_t{64}))),
        blocks_(blocks) {
    std::memset(words_.get(), 0, std::size_t{blocks} * block_bytes);
    for (Block& b : blocks_) b.free = slots_;
  }

  [[nodiscard]] std::uint32_t blocks() const { return static_cast<std::uint32_t>(blocks_.size()); }
  [[nodiscard]] std::uint32_t slots() const { return slots_; }
  [[nodiscard]] std::uint32_t block_bytes() const { return block_bytes_; }
  Block& block(std::uint32_t b) { return blocks_[b]; }
  /// The slot as it stands in memory: little endian.
  std::uint32_t& slot(std::uint32_t b, std::uint32_t s) { return words_.get()[std::size_t{b} * (block_bytes_ / 4) + s]; }
  std::span<std::byte> bytes(std::uint32_t b) {
    return {reinterpret_cast<std::byte*>(words_.get()) + std::size_t{b} * block_bytes_, block_bytes_};
  }
  /// Host number to le32 and back.
  static std::uint32_t le(std::uint32_t v) {
    return std::endian::native == std::endian::little ? v : __builtin_bswap32(v);
  }
  template <class Visit>
  void visit_memory(Visit visit) {
    visit(words_.get(), std::size_t{blocks()} * block_bytes_);
    for (Block& b : blocks_) visit(&b, 2 * sizeof(std::uint32_t));
  }

 private:
  static constexpr std::uint32_t kTailBytes = 8;
  struct Free {
    void operator()(std::uint32_t* p) const { ::operator delete(p, std::align_val_t{64}); }
  };
  std::uint32_t block_bytes_, slots_;
  std::unique_ptr<std::uint32_t, Free> words_;
  std::vector<Block> blocks_;
};

/// What became of a claim.
struct SlotClaim {
  enum class Outcome : std::uint8_t {
    claimed,
    full,     // every block's counter was seen at 0
    crowded,  // a slot was reserved but others took what it looked at, four times round; goes to the list like full
    refused,  // no journal access to the block
  } outcome = Outcome::full;
  std::uint32_t index = 0;  // claimed: block * slots + slot
};

/// Asked before a block is changed: false when the journal refuses (kernel:
/// ext4_journal_get_write_access). Called from any thread, no lock held.
struct BlockAccess {
  bool (*allow)(void* context, std::uint32_t block) = nullptr;  // none: always allowed
  void* context = nullptr;
  [[nodiscard]] bool operator()(std::uint32_t block) const { return allow == nullptr || allow(context, block); }
};

/// What claims met with on their way; a snapshot.
struct SlotTraffic {
  std::uint64_t blocks_passed = 0;     // full blocks walked over
  std::uint64_t counter_retries = 0;   // a counter moved between look and decrement
  std::uint64_t slot_retries = 0;      // compare-and-swap lost: somebody took the slot
  std::uint64_t laps = 0;              // once round a block without a slot
  std::uint64_t crowded = 0;           // gave up after four laps
  std::uint64_t leaked = 0;            // file-locked: counters left down by refused access
};

/// Counters and slots under one spin lock; blocks are filled from the first on.
template <class Sync>
class LockedSlots {
 public:
  LockedSlots(std::uint32_t blocks, std::uint32_t block_bytes) : slots_((block_bytes - 8) / 4), memory_(blocks, block_bytes) {}

  SlotClaim claim(Ino ino, std::uint32_t /*cpu*/, const BlockAccess& access) {
    std::uint32_t b = 0;
    {
      BasicLock hold(lock_);
      while (b < memory_.blocks() && Sync::get(memory_.block(b).free) == 0) ++b;
      traffic_.blocks_passed += b;
      if (b == memory_.blocks()) return {SlotClaim::Outcome::full, 0};
      Sync::set(memory_.block(b).free, Sync::get(memory_.block(b).free) - 1);
    }
    if (!access(b)) {
      // The first version never gave the counter back: that slot is lost until the next mount.
      BasicLock hold(lock_);
      Sync::set(leaked_, Sync::get(leaked_) + 1);
      return {SlotClaim::Outcome::refused, 0};
    }
    BasicLock hold(lock_);
    std::uint32_t s = 0;
    while (s < slots_ && Sync::get(memory_.slot(b, s)) != 0) ++s;
    E4_ASSERT(s < slots_);  // the counter said so, and both change under the lock
    Sync::set(memory_.slot(b, s), SlotMemory::le(ino));
    Sync::set(memory_.block(b).dirty, 1U);
    return {SlotClaim::Outcome::claimed, b * slots_ + s};
  }

  /// `index` is in range.
  bool release(std::uint32_t index, const BlockAccess& access) {
    const std::uint32_t b = index / slots_;
    if (!access(b)) return false;
    BasicLock hold(lock_);
    Sync::set(memory_.slot(b, index % slots_), 0U);
    Sync::set(memory_.block(b).free, Sync::get(memory_.block(b).free) + 1);
    Sync::set(memory_.block(b).dirty, 1U);
    return true;
  }

  Ino slot(std::uint32_t index) {
    BasicLock hold(lock_);
    return SlotMemory::le(Sync::get(memory_.slot(index / slots_, index % slots_)));
  }
  std::uint32_t free_slots(std::uint32_t b) {
    BasicLock hold(lock_);
    return Sync::get(memory_.block(b).free);
  }
  /// Clears the mark and returns it; copy_block() after sees at least the changes it stood for.
  bool take_dirty(std::uint32_t b) {
    BasicLock hold(lock_);
    const bool was = Sync::get(memory_.block(b).dirty) != 0;
    Sync::set(memory_.block(b).dirty, 0U);
    return was;
  }
  void copy_block(std::uint32_t b, std::span<std::byte> out) {
    BasicLock hold(lock_);
    for (std::uint32_t s = 0; s < slots_; ++s) {
      const std::uint32_t v = Sync::get(memory_.slot(b, s));
      std::memcpy(out.data() + std::size_t{s} * 4, &v, 4);
    }
  }
  void load_block(std::uint32_t b, std::span<const std::byte> in) {
    BasicLock hold(lock_);
    std::memcpy(memory_.bytes(b).data(), in.data(), in.size());
    std::uint32_t free = 0;
    for (std::uint32_t s = 0; s < slots_; ++s) free += memory_.slot(b, s) == 0 ? 1 : 0;
    memory_.block(b) = {free, 0};
  }
  /// Both halves at one moment, for verify(): free by counter, free by slots.
  std::pair<std::uint32_t, std::uint32_t> count(std::uint32_t b) {
    BasicLock hold(lock_);
    std::uint32_t free = 0;
    for (std::uint32_t s = 0; s < slots_; ++s) free += memory_.slot(b, s) == 0 ? 1 : 0;
    return {memory_.block(b).free, free};
  }
  [[nodiscard]] SlotTraffic traffic() {
    BasicLock hold(lock_);
    SlotTraffic t = traffic_;
    t.leaked = leaked_;
    return t;
  }
  [[nodiscard]] LockTraffic lock_traffic() const { return lock_.traffic(); }
  template <class Visit>
  void visit_memory(Visit visit) E4_NO_THREAD_SAFETY_ANALYSIS {
    visit(&lock_, sizeof lock_);
    visit(&leaked_, sizeof leaked_);
    memory_.visit_memory(visit);
  }

 private:
  const std::uint32_t slots_;
  typename Sync::Spin lock_{NeighbourRank::orphan_file};
  SlotMemory memory_ E4_GUARDED_BY(lock_);
  SlotTraffic traffic_ E4_GUARDED_BY(lock_);  // statistics; `leaked` stands below
  std::uint64_t leaked_ E4_GUARDED_BY(lock_) = 0;
};

/// Counters and slots as atomics. Invariant: a counter never exceeds the free
/// slots of its block (it is lowered before a slot is taken and raised after one
/// is freed), so whoever has lowered it will find a slot, unless others keep
/// taking the one it looks at.
///
/// Memory order. Raising a counter releases and lowering it acquires: whoever
/// gets a reservation also sees the slot that was zeroed for it. A slot is taken
/// with acquire-release and zeroed with release, so that what the last owner did
/// under it is over before the next owner starts. The dirty mark is released
/// after the slot changed and acquired by take_dirty(): a storer that saw the
/// mark sees the slot; one that did not will find the mark next time. Looking at
/// counters and slots before the compare-and-swap is a hint: relaxed.
template <class Sync>
class LocklessSlots {
 public:
  LocklessSlots(std::uint32_t blocks, std::uint32_t block_bytes) : memory_(blocks, block_bytes) {}

  static constexpr std::uint32_t kLaps = 3;
  static constexpr std::uint32_t kCpuStride = 13;  // CPUs start at different blocks; see start_block()

  /// Where a CPU starts to look. Every CPU starts at block 0 when the number of blocks is a multiple of 13.
  [[nodiscard]] std::uint32_t start_block(std::uint32_t cpu) const {
    return static_cast<std::uint32_t>(std::uint64_t{cpu} * kCpuStride % memory_.blocks());
  }

  SlotClaim claim(Ino ino, std::uint32_t cpu, const BlockAccess& access) {
    const std::uint32_t blocks = memory_.blocks(), start = start_block(cpu);
    Counters& counters = counters_[cpu % kLines];
    std::uint32_t b = start;
    while (!reserve(b, counters)) {
      bump(counters.blocks_passed);
      if (++b == blocks) b = 0;
      if (b == start) return {SlotClaim::Outcome::full, 0};
    }
    if (!access(b)) {
      unreserve(b);
      return {SlotClaim::Outcome::refused, 0};
    }
    std::uint32_t s = 0, laps = 0;
    for (;;) {
      while (Sync::load(memory_.slot(b, s), std::memory_order_relaxed) != 0) {
        if (++s < memory_.slots()) continue;
        s = 0;
        bump(counters.laps);
        // The kernel looks at the laps only after a lost exchange; with a block full of garbage it would circle for ever.
        if (++laps > kLaps) {
          bump(counters.crowded);
          unreserve(b);
          return {SlotClaim::Outcome::crowded, 0};
        }
        Sync::yield();
      }
      std::uint32_t expected = 0;
      if (Sync::compare_exchange(memory_.slot(b, s), expected, SlotMemory::le(ino), std::memory_order_acq_rel,
                                 std::memory_order_relaxed))
        break;
      bump(counters.slot_retries);
    }
    mark_dirty(b);
    return {SlotClaim::Outcome::claimed, b * memory_.slots() + s};
  }

  bool release(std::uint32_t index, const BlockAccess& access) {
    const std::uint32_t b = index / memory_.slots();
    if (!access(b)) return false;
    Sync::store(memory_.slot(b, index % memory_.slots()), 0U, std::memory_order_release);
    unreserve(b);
    mark_dirty(b);
    return true;
  }

  Ino slot(std::uint32_t index) {
    return SlotMemory::le(
        Sync::load(memory_.slot(index / memory_.slots(), index % memory_.slots()), std::memory_order_acquire));
  }
  std::uint32_t free_slots(std::uint32_t b) { return Sync::load(memory_.block(b).free, std::memory_order_relaxed); }
  bool take_dirty(std::uint32_t b) { return Sync::exchange(memory_.block(b).dirty, 0U, std::memory_order_acquire) != 0; }
  /// Slot by slot: each is some value it had meanwhile; the tail is not copied.
  void copy_block(std::uint32_t b, std::span<std::byte> out) {
    for (std::uint32_t s = 0; s < memory_.slots(); ++s) {
      const std::uint32_t v = Sync::load(memory_.slot(b, s), std::memory_order_acquire);
      std::memcpy(out.data() + std::size_t{s} * 4, &v, 4);
    }
  }
  /// Before any thread claims.
  void load_block(std::uint32_t b, std::span<const std::byte> in) {
    std::uint32_t free = 0;
    for (std::uint32_t s = 0; s < memory_.slots(); ++s) {
      std::uint32_t v = 0;
      std::memcpy(&v, in.data() + std::size_t{s} * 4, 4);
      Sync::store(memory_.slot(b, s), v, std::memory_order_relaxed);
      free += v == 0 ? 1 : 0;
    }
    Sync::store(memory_.block(b).free, free, std::memory_order_release);
    Sync::store(memory_.block(b).dirty, 0U, std::memory_order_release);
  }
  /// Only when no claim or release is on its way: free by counter, free by slots.
  std::pair<std::uint32_t, std::uint32_t> count(std::uint32_t b) {
    std::uint32_t free = 0;
    for (std::uint32_t s = 0; s < memory_.slots(); ++s)
      free += Sync::load(memory_.slot(b, s), std::memory_order_acquire) == 0 ? 1 : 0;
    return {Sync::load(memory_.block(b).free, std::memory_order_acquire), free};
  }
  [[nodiscard]] SlotTraffic traffic() const {
    SlotTraffic t;
    for (const Counters& c : counters_) {
      t.blocks_passed += c.blocks_passed.load(std::memory_order_relaxed);
      t.counter_retries += c.counter_retries.load(std::memory_order_relaxed);
      t.slot_retries += c.slot_retries.load(std::memory_order_relaxed);
      t.laps += c.laps.load(std::memory_order_relaxed);
      t.crowded += c.crowded.load(std::memory_order_relaxed);
    }
    return t;
  }
  [[nodiscard]] LockTraffic lock_traffic() const { return {}; }
  template <class Visit>
  void visit_memory(Visit visit) {
    memory_.visit_memory(visit);
  }

 private:
  static constexpr std::size_t kLines = 16;
  /// Statistics, a cache line for each few CPUs; only rare events are counted.
  struct alignas(64) Counters {
    std::atomic<std::uint64_t> blocks_passed{0}, counter_retries{0}, slot_retries{0}, laps{0}, crowded{0};
  };
  static void bump(std::atomic<std::uint64_t>& c) { c.fetch_add(1, std::memory_order_relaxed); }

  bool reserve(std::uint32_t b, Counters& counters) {
    std::uint32_t& free = memory_.block(b).free;
    std::uint32_t now = Sync::load(free, std::memory_order_relaxed);
    while (now != 0) {
      if (Sync::compare_exchange(free, now, now - 1, std::memory_order_acquire, std::memory_order_relaxed)) return true;
      bump(counters.counter_retries);
    }
    return false;
  }
  void unreserve(std::uint32_t b) { Sync::fetch_add(memory_.block(b).free, 1U, std::memory_order_release); }
  void mark_dirty(std::uint32_t b) { Sync::store(memory_.block(b).dirty, 1U, std::memory_order_release); }

  SlotMemory memory_;  // atomics; nothing guards it
  Counters counters_[kLines];
};

}  // namespace e4::alloc
