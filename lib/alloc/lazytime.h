// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "alloc/policy.h"
#include "alloc/sync.h"
#include "base/assert.h"
#include "base/units.h"

namespace e4::alloc {

struct LazytimeStats {
  LockTraffic hash_lock;
  std::uint64_t looked_up = 0;      // neighbours looked for
  std::uint64_t written_along = 0;  // neighbours whose times went out with another inode
  std::uint64_t skipped = 0;        // trylock: the hash was busy
};

/// In-core inodes mounted with lazytime. A changed time stamp alone stays in
/// memory; when an inode's table block is written anyway, the other inodes of
/// that block whose only dirt is the time go along. Policies, by how they look
/// for those: off (not at all; before Linux 4.0), lock (the global hash lock for
/// each; 4.0), trylock (skipped when that lock is held; proposed in 2020), rcu
/// (the hash is walked without a lock; 5.8 and later).
///
/// Thread-safe. An attached inode may be touched and written by many threads;
/// who detaches it is the last to use its handle. Nodes are never given back
/// to the system, only reused: so a walker without a lock may end up in another
/// chain, where it either finds nothing or a node that, looked at again under its
/// own lock, is not the one. Missing a neighbour costs nothing.
///
/// Memory order. Links are released when a node goes into a chain and acquired
/// by the walker, which then sees its number. Number and state read on the way
/// are hints (relaxed), read again under the node's lock.
template <class Sync>
class BasicLazytime {
 public:
  struct Times {
    std::uint32_t i_atime = 0, i_ctime = 0, i_mtime = 0;  // seconds, low 32 bits
    friend bool operator==(const Times&, const Times&) = default;
  };
  struct Options {
    Policy::LazytimeNeighbours policy = Policy::LazytimeNeighbours::rcu;
    std::uint32_t inodes_per_block = 16;
    std::uint32_t inode_bytes = 256;
    std::uint32_t capacity = 1024;  // in-core inodes at most
  };
  using Handle = std::uint32_t;
  static constexpr Handle kNone = 0;

  explicit BasicLazytime(const Options& options)
      : options_(options), mask_(bucket_count(options.capacity) - 1), heads_(mask_ + 1), nodes_(new Node[options.capacity + 1]) {
    for (std::uint32_t n = options.capacity; n > 0; --n) free_.push_back(n);
  }

  /// An inode comes into memory, clean. kNone when `capacity` are there. One thread for one `ino` (> 0), once at a time.
  Handle attach(Ino ino, const Times& times) {
    BasicLock hold(hash_lock_);
    if (free_.empty()) return kNone;
    const Handle h = free_.back();
    free_.pop_back();
    Node& n = nodes_[h];
    {
      BasicLock inode(n.lock);
      put_times(n, times);
      Sync::store(n.ino, ino, std::memory_order_relaxed);
      Sync::store(n.state, 0U, std::memory_order_relaxed);
    }
    std::uint32_t& head = heads_[ino & mask_];
    Sync::store(n.next, Sync::load(head, std::memory_order_relaxed), std::memory_order_relaxed);
    Sync::store(head, h, std::memory_order_release);
    return h;
  }

  /// The inode leaves memory. False, and nothing done, while it is dirty: write it first.
  bool detach(Handle h) {
    BasicLock hold(hash_lock_);
    Node& n = nodes_[h];
    const Ino ino = Sync::load(n.ino, std::memory_order_relaxed);
    {
      BasicLock inode(n.lock);
      if (Sync::load(n.state, std::memory_order_relaxed) != 0) return false;
      Sync::store(n.ino, Ino{0}, std::memory_order_relaxed);
    }
    std::uint32_t* link = &heads_[ino & mask_];
    while (Sync::load(*link, std::memory_order_relaxed) != h) link = &nodes_[Sync::load(*link, std::memory_order_relaxed)].next;
    Sync::store(*link, Sync::load(n.next, std::memory_order_relaxed), std::memory_order_release);
    free_.push_back(h);
    return true;
  }

  /// New times; nothing else changes.
  void touch(Handle h, const Times& times) {
    Node& n = nodes_[h];
    BasicLock hold(n.lock);
    put_times(n, times);
    set_state(n, Sync::load(n.state, std::memory_order_relaxed) | kTime);
  }
  /// Something besides the times changed: it has to be written for itself.
  void mark_dirty(Handle h) {
    Node& n = nodes_[h];
    BasicLock hold(n.lock);
    set_state(n, Sync::load(n.state, std::memory_order_relaxed) | kOther);
  }

  /// Writes the inode's times into `block`, its table block (4-byte aligned, inodes_per_block * inode_bytes long, the
  /// same buffer for all), and those of its neighbours by policy. The caller seals checksums when the block is stored.
  /// Returns how many neighbours went along.
  std::uint32_t write(Handle h, std::span<std::byte> block) {
    E4_ASSERT(block.size() == std::size_t{options_.inodes_per_block} * options_.inode_bytes);
    Node& self = nodes_[h];
    const Ino ino = Sync::load(self.ino, std::memory_order_relaxed);  // attached: nobody changes it
    flush(self, ino, kTime | kOther, block);
    if (options_.policy == Policy::LazytimeNeighbours::off) return 0;
    const Ino first = ino - position(ino);
    std::uint32_t along = 0, looked = 0, skipped = 0;
    for (Ino other = first; other < first + options_.inodes_per_block; ++other) {
      if (other == ino) continue;
      ++looked;
      along += flush_neighbour(other, block, skipped) ? 1 : 0;
    }
    looked_up_.fetch_add(looked, std::memory_order_relaxed);
    if (skipped != 0) skipped_.fetch_add(skipped, std::memory_order_relaxed);
    if (along != 0) written_along_.fetch_add(along, std::memory_order_relaxed);
    return along;
  }

  [[nodiscard]] bool dirty(Handle h) const { return Sync::load(nodes_[h].state, std::memory_order_relaxed) != 0; }
  [[nodiscard]] Times times(Handle h) {
    Node& n = nodes_[h];
    BasicLock hold(n.lock);
    return {Sync::get(n.times.i_atime), Sync::get(n.times.i_ctime), Sync::get(n.times.i_mtime)};
  }
  /// Index of an inode in its table block.
  [[nodiscard]] std::uint32_t position(Ino ino) const { return (ino - 1) % options_.inodes_per_block; }

  [[nodiscard]] LazytimeStats stats() const {
    constexpr auto kRelaxed = std::memory_order_relaxed;
    return {hash_lock_.traffic(), looked_up_.load(kRelaxed), written_along_.load(kRelaxed), skipped_.load(kRelaxed)};
  }
  template <class Visit>
  void visit_memory(Visit visit) E4_NO_THREAD_SAFETY_ANALYSIS {
    visit(&hash_lock_, sizeof hash_lock_);
    visit(heads_.data(), heads_.size() * sizeof heads_[0]);
    for (std::uint32_t n = 1; n <= options_.capacity; ++n) visit(&nodes_[n], sizeof nodes_[n]);
    for (auto& raw : raw_) visit(&raw, sizeof raw);
  }

 private:
  static constexpr std::uint32_t kTime = 1, kOther = 2;
  static constexpr std::size_t kRawLocks = 64;

  struct Node {
    std::uint32_t next = 0;   // in the chain; written under the hash lock, read without
    Ino ino = 0;              // 0: not attached; written under both locks
    std::uint32_t state = 0;  // kTime, kOther; written under `lock`, looked at without
    typename Sync::Spin lock{NeighbourRank::inode};
    Times times E4_GUARDED_BY(lock);
  };
  /// Locks for the bytes in table blocks, by number: they must outlive the in-core inode.
  struct Raw {
    typename Sync::Spin lock{NeighbourRank::raw_inode};
  };

  static std::uint32_t bucket_count(std::uint32_t capacity) {
    std::uint32_t n = 1;
    while (n < capacity && n < 1U << 20) n <<= 1;
    return n;
  }
  static void set_state(Node& n, std::uint32_t state) E4_REQUIRES(n.lock) {
    Sync::store(n.state, state, std::memory_order_relaxed);
  }
  static void put_times(Node& n, const Times& t) E4_REQUIRES(n.lock) {
    Sync::set(n.times.i_atime, t.i_atime);
    Sync::set(n.times.i_ctime, t.i_ctime);
    Sync::set(n.times.i_mtime, t.i_mtime);
  }

  /// Writes one inode if it still is `ino` and its dirt lies within `allowed`. The raw lock is taken before the inode's
  /// is dropped: else a newer time could be written first and this one over it.
  bool flush(Node& n, Ino ino, std::uint32_t allowed, std::span<std::byte> block) {
    n.lock.lock();
    const std::uint32_t state = Sync::load(n.state, std::memory_order_relaxed);
    if (Sync::load(n.ino, std::memory_order_relaxed) != ino || state == 0 || (state & ~allowed) != 0) {
      n.lock.unlock();
      return false;
    }
    set_state(n, 0);
    const Times t{Sync::get(n.times.i_atime), Sync::get(n.times.i_ctime), Sync::get(n.times.i_mtime)};
    BasicLock raw(raw_[ino % kRawLocks].lock);
    n.lock.unlock();
    put_raw(block, ino, 0x08, t.i_atime);
    put_raw(block, ino, 0x0C, t.i_ctime);
    put_raw(block, ino, 0x10, t.i_mtime);
    return true;
  }
  void put_raw(std::span<std::byte> block, Ino ino, std::uint32_t offset, std::uint32_t value) {
    std::byte* const at = block.data() + std::size_t{position(ino)} * options_.inode_bytes + offset;
    auto& word = *static_cast<std::uint32_t*>(static_cast<void*>(at));
    Sync::set(word, std::endian::native == std::endian::little ? value : __builtin_bswap32(value));
  }

  /// The node of `ino`, or nullptr. Without the hash lock a hint.
  Node* find(Ino ino) {
    Handle h = Sync::load(heads_[ino & mask_], std::memory_order_acquire);
    for (std::uint32_t walked = 0; h != kNone && walked <= options_.capacity; ++walked) {
      Node& n = nodes_[h];
      if (Sync::load(n.ino, std::memory_order_relaxed) == ino) return &n;
      h = Sync::load(n.next, std::memory_order_acquire);
    }
    return nullptr;
  }
  bool flush_found(Ino ino, std::span<std::byte> block) {
    Node* const n = find(ino);
    if (n == nullptr || Sync::load(n->state, std::memory_order_relaxed) != kTime) return false;  // the cheap test
    return flush(*n, ino, kTime, block);
  }
  bool flush_neighbour(Ino ino, std::span<std::byte> block, std::uint32_t& skipped) {
    switch (options_.policy) {
      case Policy::LazytimeNeighbours::lock: {
        BasicLock hold(hash_lock_);
        return flush_found(ino, block);
      }
      case Policy::LazytimeNeighbours::trylock: {
        if (!hash_lock_.try_lock()) {
          ++skipped;
          return false;
        }
        const bool done = flush_found(ino, block);
        hash_lock_.unlock();
        return done;
      }
      case Policy::LazytimeNeighbours::rcu:
        return flush_found(ino, block);
      case Policy::LazytimeNeighbours::off:
        break;
    }
    return false;
  }

  const Options options_;
  const std::uint32_t mask_;
  mutable typename Sync::Spin hash_lock_{NeighbourRank::inode_hash};
  std::vector<std::uint32_t> heads_;      // atomics; written under hash_lock_
  const std::unique_ptr<Node[]> nodes_;   // [0] is unused
  std::vector<Handle> free_ E4_GUARDED_BY(hash_lock_);
  Raw raw_[kRawLocks];
  std::atomic<std::uint64_t> looked_up_{0}, written_along_{0}, skipped_{0};  // statistics: relaxed
};

extern template class BasicLazytime<NativeSync>;
using Lazytime = BasicLazytime<NativeSync>;

}  // namespace e4::alloc
