// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <memory>
#include <string>

#include "alloc/bitmap_source.h"
#include "alloc/explain.h"
#include "alloc/policy.h"
#include "alloc/stats.h"
#include "alloc/types.h"
#include "base/result.h"

namespace e4::alloc {

/// A piece of space to give back (kernel: ext4_free_blocks).
struct FreeRequest {
  Ino ino = 0;
  Blk block = 0;
  std::uint64_t count_blocks = 0;
  std::uint32_t flags = 0;          // FreeFlag
  Tid tid = 0;                      // transaction the free belongs to
  std::uint32_t cpu = 0;
  /// at_commit: usable again when commit(tid) is called; at_once: now; by_rule: at commit if there is a journal and
  /// (metadata, or data mode is not writeback).
  enum class When : std::uint8_t { by_rule, at_once, at_commit } when = When::by_rule;
};

/// What a kernel chose for a request, as its events tell it: for replayers that
/// must go on from the kernel's state after a difference.
struct Imposed {
  Blk block = 0;                    // allocate_blocks; nothing marked on disk if len is 0
  std::uint32_t len = 0;            // clusters
  bool from_prealloc = false;       // mballoc_prealloc
  GroupNo group = 0;                // result of mballoc_alloc: the whole chunk
  std::uint32_t start = 0, chunk_len = 0;  // chunk_len 0: the chunk is (block, len)
  PaInfo new_pa;                    // new_inode_pa / new_group_pa
  bool stream = false;              // STREAM in the final flags: group is remembered
};

/// The multi-block allocator of one file system, in memory: ext4's decisions,
/// block for block. Thread-safe unless a method says "quiescent" (no other
/// call at the same time). lib/alloc/README.md has the data structures, the
/// lock order and the path of a request.
class Allocator {
 public:
  /// `source` must outlive the allocator. Errors: incompatible or corrupt geometry.
  static Result<std::unique_ptr<Allocator>> create(const Geometry& geometry, const MountOptions& mount,
                                                   const Tunables& tunables, const Policy& policy,
                                                   BitmapSource& source);
  ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  [[nodiscard]] const Geometry& geometry() const;
  [[nodiscard]] const MountOptions& mount() const;
  [[nodiscard]] const Tunables& tunables() const;
  [[nodiscard]] const Policy& policy() const;
  [[nodiscard]] bool optimized_scan() const;
  /// Quiescent. What writing to the sysfs files does.
  void set_tunables(const Tunables& tunables);
  void set_reserved_clusters(std::uint64_t clusters);

  // --- allocate and free -------------------------------------------------------------------------
  /// Decides one request and marks it. `log`, when given, gets the events in
  /// the kernel's order (loads, new preallocations, discards).
  Status allocate(const Request& request, Outcome& out, EventLog* log = nullptr);
  /// Frees a block range; pieces per group are logged as mballoc_free. The caller has dropped the file's
  /// preallocations first (discard_inode), as every path of ext4 does.
  /// Error (corrupt): range outside the file system, or blocks already free (nothing is changed in that group).
  Result<void> free(const FreeRequest& request, EventLog* log = nullptr);
  /// One group's piece (the mballoc_free event), clusters.
  Result<void> free_clusters(GroupNo group, std::uint32_t start, std::uint32_t len, const FreeRequest& how,
                             EventLog* log = nullptr);
  /// The commit of `tid` is durable: everything freed in it is usable again.
  void commit(Tid tid, EventLog* log = nullptr);
  /// Clusters freed but not yet committed.
  [[nodiscard]] std::uint64_t pending_clusters() const;

  // --- preallocations ----------------------------------------------------------------------------
  /// ext4_discard_preallocations: close of the last writer, truncate, evict ... Returns how many there were.
  unsigned discard_inode(Ino ino, EventLog* log = nullptr);
  /// How many live preallocations an inode has.
  [[nodiscard]] unsigned preallocations(Ino ino) const;
  struct PaState {
    PaInfo pa;                        // as it stands now: a group preallocation shrinks from the front
    Ino ino = 0;                      // inode preallocation: whose
    GroupNo group = 0;
    std::uint32_t free_clusters = 0;  // not used yet
  };
  /// An inode's live preallocations by file position, or everything that lives in a group, newest first. Quiescent.
  [[nodiscard]] std::vector<PaState> inode_preallocations(Ino ino) const;
  [[nodiscard]] std::vector<PaState> group_preallocations(GroupNo group) const;
  /// Gives back every idle preallocation of every group (unmount of an image that will be stored needs none of
  /// this: the on-disk bitmaps never hold them).
  std::uint64_t discard_all(EventLog* log = nullptr);

  // --- accounting (clusters) -----------------------------------------------------------------------
  void da_reserve(std::uint64_t clusters, std::uint32_t cpu = 0);   // da_reserve_space
  void da_release(std::uint64_t clusters, std::uint32_t cpu = 0);   // da_update_reserve_space, da_release_space
  [[nodiscard]] std::int64_t free_clusters_count() const;           // exact sum
  [[nodiscard]] std::int64_t dirty_clusters_count() const;
  [[nodiscard]] std::uint64_t reserved_clusters() const;
  /// Would the claim of this request be granted now? Returns the clusters it gets (0: refused).
  [[nodiscard]] std::uint32_t claimable(const Request& request) const;

  // --- groups ----------------------------------------------------------------------------------------
  /// Builds a group (and the others of its page) as reading mb_groups or the lazy thread does. No effect if built.
  Result<void> load_group(GroupNo group, EventLog* log = nullptr);
  Result<void> load_all(EventLog* log = nullptr);
  [[nodiscard]] bool group_loaded(GroupNo group) const;
  /// An inode was allocated in the group: its BLOCK_UNINIT flag is gone.
  void note_inode_allocated(GroupNo group);
  /// The bitmap's buffer is in the cache (read_block_bitmap_load): prefetching it costs no read.
  void note_bitmap_cached(GroupNo group);
  /// A batch of the lazy thread: sets the READ bits of `count` groups from `first` (wrapping). With `finish` it also
  /// builds them.
  Result<void> prefetch_batch(GroupNo first, std::uint32_t count, bool finish, EventLog* log = nullptr);
  /// mb_groups line; all zero while the group is not loaded.
  [[nodiscard]] GroupCounters group_counters(GroupNo group) const;
  /// Free clusters by the on-disk bitmap (the descriptor's count).
  [[nodiscard]] std::uint32_t descriptor_free(GroupNo group) const;
  [[nodiscard]] bool block_uninit(GroupNo group) const;
  /// Copies the on-disk bitmap of a loaded group; false if it is not loaded.
  bool copy_bitmap(GroupNo group, std::span<std::uint64_t> words) const;
  /// Has the on-disk bitmap or descriptor of the group changed since it was read? For storing.
  [[nodiscard]] bool group_dirty(GroupNo group) const;
  void clear_dirty(GroupNo group);
  /// The group's remembered stream goals, for tests.
  [[nodiscard]] std::vector<GroupNo> stream_goals() const;

  // --- fstrim --------------------------------------------------------------------------------------
  struct Trimmed {
    GroupNo group;
    std::uint32_t start, len;  // clusters
  };
  /// Free runs of at least min_clusters in [first, last] groups, as FITRIM would discard them; marks whole groups
  /// as trimmed and skips those already marked.
  Result<std::vector<Trimmed>> trim(GroupNo first, GroupNo last, std::uint32_t min_clusters);

  // --- replaying somebody else's choices -----------------------------------------------------------
  /// Takes back what allocate() did for this request (its chunk, its preallocation, the stream goal). Preallocations
  /// dropped on the way (ENOSPC, list trim) stay dropped. Quiescent.
  void undo(const Request& request, const Outcome& outcome);
  /// Marks the kernel's choice instead. Whatever of ours overlaps it (reservations, pending frees) gives way; clusters
  /// already in use on disk are an Error (corrupt). Quiescent.
  Result<void> impose(const Request& request, const Imposed& choice);
  /// A preallocation range the kernel released and ours did not (release_*_pa): makes it free. Quiescent.
  Result<void> impose_release(GroupNo group, std::uint32_t start, std::uint32_t len);

  /// Takes what is free of the range out of use until commit(tid), as the discard worker does while the device works.
  /// `tid` must not be that of a transaction. Quiescent.
  Result<void> hold(GroupNo group, std::uint32_t start, std::uint32_t len, Tid tid);

  // --- looking inside ------------------------------------------------------------------------------
  /// Runs the request and tells what each criterion tried. The request is really carried out if `keep`, else it is
  /// undone. `groups_per_pass`: how many groups to list in a pass. Quiescent.
  Explanation explain(const Request& request, bool keep = false, std::size_t groups_per_pass = 64);
  [[nodiscard]] Stats stats() const;
  /// The first thing that does not agree: buddies, counters, orders, sets, bitmaps, preallocations, sums. Quiescent.
  [[nodiscard]] Result<void> verify() const;
  /// Why a bitmap could not be used, if some call ended with Status::error; clears it.
  std::string take_error();

  class Impl;
  Impl& impl() { return *impl_; }

 private:
  explicit Allocator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace e4::alloc
