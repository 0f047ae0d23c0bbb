// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <unordered_map>

#include "alloc/types.h"
#include "base/result.h"
#include "trace/discards.h"
#include "trace/lookahead.h"
#include "trace/sizes.h"
#include "trace/transactions.h"

namespace e4::trace {

/// One piece of a free: the mballoc_free event and what belongs to it.
struct Freed {
  Ino ino = 0;
  GroupNo group = 0;
  std::uint32_t start = 0, len = 0;  // clusters
  std::uint32_t flags = 0;           // alloc::FreeFlag of the free_blocks line
  Tid tid = 0;                       // transaction (the player's numbers)
  const Event* event = nullptr;
};

/// What a trace makes happen on one file system, in order. Comparing, timing
/// and materializing are different targets of one player.
class Target {
 public:
  virtual ~Target() = default;
  /// A request takes its turn; `record.ready` is the request, the rest is what the kernel made of it. Called for
  /// refused claims too (at the request line), not for abandoned requests.
  virtual Result<void> decide(RequestRecord& record) = 0;
  virtual Result<void> free(const Freed& freed) = 0;
  virtual void commit(Tid tid) = 0;
  /// ext4_discard_preallocations: `expected` live ones by the trace.
  virtual void discard_inode(Ino ino, std::uint32_t expected) = 0;
  virtual Result<void> load_group(GroupNo group) = 0;
  virtual void bitmap_cached(GroupNo group) = 0;
  virtual Result<void> prefetch(GroupNo first, std::uint32_t count) = 0;
  virtual void inode_allocated(Ino ino, std::uint32_t mode) = 0;
  /// Delayed-allocation reservation: + reserved, - used or released (clusters).
  virtual void reserve(std::int64_t clusters, std::uint32_t cpu) = 0;
  virtual void phase(std::string_view text) = 0;
  /// The discard worker takes a free run out of use; commit(tid) gives it back. Only where the trace shows the end.
  virtual Result<void> discard_started(GroupNo, std::uint32_t, std::uint32_t, Tid) { return {}; }
  /// Every event of this file system, before it is acted on.
  virtual void saw(const Event& event) = 0;
};

/// What the player must know of a file system.
struct PlayerFacts {
  alloc::Geometry geometry;
  std::uint32_t mb_stream_req = 16;      // blocks
  std::uint32_t mb_group_prealloc = 512;
  bool user_privileged = true;           // user threads may use the root reserve
  bool new_inodes_extents = true;
  bool discard_ends = false;             // the trace has the ends of the discard worker (workqueue_execute_end)
  InodeLookup inodes;
  /// Is this thread one of the kernel's own (flusher, jbd2)? They are always privileged.
  std::function<bool(std::int32_t pid)> kernel_thread;
};

/// Plays the events of one file system to a target: derives what the trace
/// does not print (sizes, open state, transactions) and calls the target in
/// the order in which the kernel's allocator saw things. The rules are those
/// of the fact sheet (replay-notes, section 2).
class Player {
 public:
  Player(PlayerFacts facts, Lookahead& ahead, Target& target);

  /// One item of this file system, or a mark.
  Result<void> feed(Item& item);

  [[nodiscard]] Sizes& sizes() { return sizes_; }
  [[nodiscard]] const PlayerFacts& facts() const { return facts_; }
  /// Requests, completed allocations, refused claims seen.
  struct Counts {
    std::uint64_t events = 0, requests = 0, completed = 0, refused = 0, abandoned = 0;
    std::uint64_t frees = 0, commits = 0;
    std::int64_t dirty_clusters = 0;     // reservation left by the events
  };
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  Result<void> begin(RequestRecord& r);
  Result<void> decide(RequestRecord& r);
  Result<void> act(const Event& e, const Item& item);
  Result<void> discard_started(const Event& e);

  PlayerFacts facts_;
  Lookahead& ahead_;
  Target& target_;
  Sizes sizes_;
  Transactions transactions_;
  Discards discards_;
  std::unordered_map<std::int32_t, std::uint32_t> free_flags_;  // of the thread's last free_blocks
  Counts counts_;
};

}  // namespace e4::trace
