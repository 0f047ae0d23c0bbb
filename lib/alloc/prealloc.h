// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "alloc/lock.h"
#include "alloc/types.h"
#include "base/mutex.h"

namespace e4::alloc {

/// A preallocation: clusters used in B, free on disk, kept for one inode or
/// for small files of one CPU. It hangs in its group's list and in its
/// object's (inode or locality group).
struct Pa {
  // Constant while it lives.
  std::uint64_t id = 0;
  PaKind kind = PaKind::none;
  Ino ino = 0;
  GroupNo group = 0;
  std::uint32_t pool = 0;           // which PaPool it came from
  std::uint32_t list_cpu = 0;       // group preallocation: whose locality group

  PaLock lock;
  // Guarded by `lock` (and a group preallocation's start by its locality group: only the owner moves it).
  Blk pstart = 0;
  std::uint64_t lstart = 0;
  std::uint32_t len = 0;            // clusters
  std::uint32_t free = 0;           // clusters not used yet
  bool deleted = false;             // set once; who sets it takes it out of the lists and frees it
  std::uint32_t refs = 0;           // requests using it now

  // Links. Group list: the group's lock. Locality list: that list's lock.
  Pa* group_prev = nullptr;
  Pa* group_next = nullptr;
  Pa* list_prev = nullptr;
  Pa* list_next = nullptr;
  std::int32_t list_order = -1;     // -1: in no locality list
  bool linked = false;              // in its object's list (inode or locality)
};

/// Recycled Pa objects, one pool per CPU.
class PaPool {
 public:
  Pa* get(std::uint32_t pool_number);
  void put(Pa* pa);

 private:
  ContainerLock lock_;
  Pa* free_ E4_GUARDED_BY(lock_) = nullptr;  // linked through group_next
  std::vector<std::unique_ptr<Pa[]>> chunks_ E4_GUARDED_BY(lock_);
  std::uint64_t next_id_ E4_GUARDED_BY(lock_) = 1;
};

/// Which preallocations an inode has, sorted by lstart. Hashed by inode number
/// into shards; an inode without any costs nothing.
class InodePas {
 public:
  static constexpr unsigned kShards = 256;

  InodePas() : shards_(std::make_unique<Shard[]>(kShards)) {}

  /// Could the inode have any? A hint that saves the lock.
  [[nodiscard]] bool maybe(Ino ino) const { return shard(ino).pas.load(std::memory_order_acquire) != 0; }

  /// Calls f(vector<Pa*>&) with the inode's preallocations, lock held; not called if it has none.
  template <class F>
  void with(Ino ino, F f) const {
    if (!maybe(ino)) return;
    Shard& s = shard(ino);
    Held<ContainerLock> held(s.lock);
    if (Entry* e = s.find(ino)) f(e->pas);
  }
  void insert(Pa* pa);
  void erase(Pa* pa);
  void add_counts(LockCounts& to) const;
  /// Every entry, for verify(): f(ino, pas). Quiescent.
  template <class F>
  void for_each(F f) const {
    for (unsigned i = 0; i < kShards; ++i) {
      Shard& s = shards_[i];
      Held<ContainerLock> held(s.lock);
      for (Entry* e : s.table)
        for (; e != nullptr; e = e->next) f(e->ino, e->pas);
    }
  }

 private:
  struct Entry {
    Ino ino = 0;
    Entry* next = nullptr;
    std::vector<Pa*> pas;
  };
  struct alignas(64) Shard {
    ContainerLock lock;
    std::atomic<std::uint32_t> pas{0};
    std::vector<Entry*> table E4_GUARDED_BY(lock);
    std::size_t inodes E4_GUARDED_BY(lock) = 0;
    Entry* spare E4_GUARDED_BY(lock) = nullptr;
    std::vector<std::unique_ptr<Entry>> owned E4_GUARDED_BY(lock);

    static std::uint32_t hash(Ino ino) { return static_cast<std::uint32_t>((ino / kShards) * 0x9E3779B1U); }
    Entry* find(Ino ino) E4_REQUIRES(lock) {
      if (table.empty()) return nullptr;
      Entry* e = table[hash(ino) & (table.size() - 1)];
      while (e != nullptr && e->ino != ino) e = e->next;
      return e;
    }
    void grow() E4_REQUIRES(lock);
  };
  Shard& shard(Ino ino) const { return shards_[ino % kShards]; }

  std::unique_ptr<Shard[]> shards_;
};

/// One CPU's small-file preallocations: ten lists by size of what is left.
struct alignas(64) LocalityGroup {
  static constexpr unsigned kOrders = 10;
  static constexpr unsigned kTrimAbove = 8, kTrimTo = 5;

  LocalityLock mutex;               // one request at a time
  ContainerLock list_lock;
  struct List {
    Pa* head = nullptr;
    Pa* tail = nullptr;
    std::uint32_t size = 0;
  };
  std::array<List, kOrders> lists E4_GUARDED_BY(list_lock);

  static unsigned order_for(std::uint32_t free) {
    return std::min(static_cast<unsigned>(std::bit_width(free)) - 1, kOrders - 1);
  }
  void unlink(Pa* pa) E4_REQUIRES(list_lock);
  /// Before the first entry with more free clusters, else at the tail.
  void insert_sorted(Pa* pa, unsigned order) E4_REQUIRES(list_lock);
};

/// Holds a locality group's mutex from the moment a request turns out to be a
/// small file's until its end. Out of clang's sight, which cannot follow a
/// lock that only some requests take.
class LocalityHold {
 public:
  LocalityHold() = default;
  LocalityHold(const LocalityHold&) = delete;
  LocalityHold& operator=(const LocalityHold&) = delete;
  ~LocalityHold() E4_NO_THREAD_SAFETY_ANALYSIS {
    if (lg_) lg_->mutex.unlock();
  }
  void take(LocalityGroup& lg) E4_NO_THREAD_SAFETY_ANALYSIS {
    lg.mutex.lock();
    lg_ = &lg;
  }
  LocalityGroup* operator->() const { return lg_; }
  explicit operator bool() const { return lg_ != nullptr; }

 private:
  LocalityGroup* lg_ = nullptr;
};

}  // namespace e4::alloc
