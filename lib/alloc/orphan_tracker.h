// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "alloc/orphan_chain.h"
#include "alloc/orphan_slots.h"
#include "alloc/policy.h"
#include "alloc/sync.h"

namespace e4::alloc {

struct OrphanStats {
  LockTraffic list_lock;
  LockTraffic file_lock;     // file-locked only
  SlotTraffic slots;         // file-locked and file-lockless
  std::uint64_t overflows = 0;  // went to the list because the file was full or crowded
  std::uint64_t dropped = 0;    // released with an index out of range
};

/// Which inodes are orphans: in the slots of the orphan file, or on the legacy
/// list when it is full (or with policy list, or without a file). Policies:
/// list, file_locked, file_lockless (Linux: before 5.15, the first version of
/// the patch, 5.15 to 6.18). Pure memory; space::OrphanMount has it over an
/// image.
///
/// Thread safety: add() and remove() from any thread, one thread at a time for
/// one inode; stats(), take_dirty(), copy_block() any time; load_block(),
/// adopt(), verify() and empty() only while no add or remove runs.
template <class Sync>
class BasicOrphanTracker {
 public:
  struct Options {
    Policy::OrphanTracking policy = Policy::OrphanTracking::file_lockless;
    std::uint32_t file_blocks = 0;  // of the orphan file; 0: there is none, everything goes to the list
    std::uint32_t block_bytes = 4096;
    std::uint32_t inodes_count = 0;  // s_inodes_count
    BlockAccess access;              // the journal's say before a block changes
  };
  enum class Added : std::uint8_t { in_file, in_list, already, refused };

  explicit BasicOrphanTracker(const Options& options)
      : options_(options),
        slots_per_block_(options.file_blocks == 0 ? 0 : (options.block_bytes - 8) / 4),
        chain_(options.inodes_count) {
    if (options.file_blocks == 0 || options.policy == Policy::OrphanTracking::list) return;
    if (options.policy == Policy::OrphanTracking::file_locked)
      locked_.emplace(options.file_blocks, options.block_bytes);
    else
      lockless_.emplace(options.file_blocks, options.block_bytes);
  }

  /// Starts tracking. `cpu`: of the calling thread; decides where the search for a slot begins.
  Added add(OrphanInode& inode, std::uint32_t cpu) {
    using State = OrphanInode::State;
    if (inode.own.state != State::untracked) return Added::already;
    if (uses_file()) {
      const SlotClaim claim =
          lockless_ ? lockless_->claim(inode.ino, cpu, options_.access) : locked_->claim(inode.ino, cpu, options_.access);
      switch (claim.outcome) {
        case SlotClaim::Outcome::claimed:
          inode.own = {State::in_file, claim.index};
          return Added::in_file;
        case SlotClaim::Outcome::refused:
          return Added::refused;
        case SlotClaim::Outcome::full:
        case SlotClaim::Outcome::crowded:
          overflows_.fetch_add(1, std::memory_order_relaxed);
          break;
      }
    }
    inode.own = {State::in_list, 0};
    chain_.add(inode);
    return Added::in_list;
  }

  /// Stops tracking; an untracked inode is left alone. `in_transaction` false: nothing may be written, so an entry
  /// of the file stays in its slot and only the inode forgets it. False when the journal refused; the inode forgets
  /// the slot all the same, as in the kernel.
  bool remove(OrphanInode& inode, bool in_transaction = true) {
    using State = OrphanInode::State;
    const OrphanInode::Own was = inode.own;
    if (was.state == State::untracked) return true;
    if (was.state == State::in_list) {
      chain_.remove(inode);
      inode.own = {};
      return true;
    }
    inode.own = {};
    if (!in_transaction) return true;
    if (!uses_file() || was.index / slots_per_block_ >= options_.file_blocks) {
      dropped_.fetch_add(1, std::memory_order_relaxed);
      return true;
    }
    return lockless_ ? lockless_->release(was.index, options_.access) : locked_->release(was.index, options_.access);
  }

  [[nodiscard]] bool uses_file() const { return lockless_ || locked_; }
  [[nodiscard]] std::uint32_t file_blocks() const { return uses_file() ? options_.file_blocks : 0; }
  [[nodiscard]] std::uint32_t slots_per_block() const { return slots_per_block_; }
  [[nodiscard]] Policy::OrphanTracking policy() const { return options_.policy; }
  [[nodiscard]] Ino last_orphan() { return chain_.last_orphan(); }
  OrphanChain<Sync>& chain() { return chain_; }

  /// The slots of block `b` as read from the image; counters follow. `block` has block_bytes bytes.
  void load_block(std::uint32_t b, std::span<const std::byte> block) {
    E4_ASSERT(b < file_blocks() && block.size() == options_.block_bytes);
    lockless_ ? lockless_->load_block(b, block) : locked_->load_block(b, block);
  }
  /// Whether block `b` changed since the last call.
  bool take_dirty(std::uint32_t b) { return lockless_ ? lockless_->take_dirty(b) : locked_->take_dirty(b); }
  /// Its slots, little endian, as they have to stand on disk; `out` has block_bytes bytes, the tail is the caller's.
  void copy_block(std::uint32_t b, std::span<std::byte> out) {
    E4_ASSERT(b < file_blocks() && out.size() == options_.block_bytes);
    lockless_ ? lockless_->copy_block(b, out.first(std::size_t{slots_per_block_} * 4))
              : locked_->copy_block(b, out.first(std::size_t{slots_per_block_} * 4));
  }
  [[nodiscard]] Ino slot(std::uint32_t index) { return lockless_ ? lockless_->slot(index) : locked_->slot(index); }
  [[nodiscard]] std::uint32_t free_slots(std::uint32_t b) {
    return lockless_ ? lockless_->free_slots(b) : locked_->free_slots(b);
  }
  /// Ties an inode to the slot that held its number when the image was loaded. False when the slot holds another.
  bool adopt(OrphanInode& inode, std::uint32_t index) {
    if (!uses_file() || index / slots_per_block_ >= options_.file_blocks || slot(index) != inode.ino) return false;
    inode.own = {OrphanInode::State::in_file, index};
    return true;
  }

  /// Every counter at its top: what the life cycle calls an empty orphan file.
  [[nodiscard]] bool file_empty() {
    for (std::uint32_t b = 0; b < file_blocks(); ++b)
      if (free_slots(b) != slots_per_block_) return false;
    return true;
  }

  /// No number in two slots, none both in the file and on the list, counters equal to free slots, the chain whole.
  /// Error (corrupt) says what is not.
  Result<void> verify() {
    E4_TRY(chain_.verify());
    std::vector<Ino> seen;
    for (const auto& link : chain_.links()) seen.push_back(link.ino);
    std::uint64_t missing = 0;
    for (std::uint32_t b = 0; b < file_blocks(); ++b) {
      const auto [counter, free] = lockless_ ? lockless_->count(b) : locked_->count(b);
      if (counter > free)
        return make_error(ErrorKind::corrupt, "orphan block " + std::to_string(b) + ": counter " + std::to_string(counter) +
                                                  ", free slots " + std::to_string(free));
      missing += free - counter;
      for (std::uint32_t s = 0; s < slots_per_block_; ++s)
        if (const Ino ino = slot(b * slots_per_block_ + s); ino != 0) seen.push_back(ino);
    }
    if (missing != stats().slots.leaked)
      return make_error(ErrorKind::corrupt, std::to_string(missing) + " free slots are missing from the counters");
    std::sort(seen.begin(), seen.end());
    if (const auto twice = std::adjacent_find(seen.begin(), seen.end()); twice != seen.end())
      return make_error(ErrorKind::corrupt, "tracked twice").at_inode(*twice);
    return {};
  }

  [[nodiscard]] OrphanStats stats() {
    OrphanStats s;
    s.list_lock = chain_.traffic();
    if (locked_) s.file_lock = locked_->lock_traffic(), s.slots = locked_->traffic();
    if (lockless_) s.slots = lockless_->traffic();
    s.overflows = overflows_.load(std::memory_order_relaxed);
    s.dropped = dropped_.load(std::memory_order_relaxed);
    return s;
  }

  /// For tests that take snapshots of memory.
  template <class Visit>
  void visit_memory(Visit visit) {
    chain_.visit_memory(visit);
    if (locked_) locked_->visit_memory(visit);
    if (lockless_) lockless_->visit_memory(visit);
  }

 private:
  const Options options_;
  const std::uint32_t slots_per_block_;
  OrphanChain<Sync> chain_;
  std::optional<LockedSlots<Sync>> locked_;      // at most one of the two; set in the constructor
  std::optional<LocklessSlots<Sync>> lockless_;
  std::atomic<std::uint64_t> overflows_{0}, dropped_{0};  // statistics: relaxed
};

extern template class BasicOrphanTracker<NativeSync>;
using OrphanTracker = BasicOrphanTracker<NativeSync>;

}  // namespace e4::alloc
