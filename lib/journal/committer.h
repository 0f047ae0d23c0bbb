// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "image/overlay.h"
#include "journal/counted_device.h"
#include "journal/recovery.h"

namespace e4::journal {

struct CommitOptions {
  /// Consent to empty a log that could not be replayed in full (plan verdict
  /// partial, failed or unannounced). Without it begin() refuses those.
  bool empty_damaged_log = false;
  /// Write in place even though there is a usable log, or without the external
  /// one (ordered, not atomic).
  bool in_place = false;
};

/// Takes a recovery to the disk, and then edits of the overlay, so that being
/// killed at any write loses nothing.
///
///   begin()   copies the plan's blocks home, flushes; the log stays valid.
///   commit()  writes the overlay's dirty blocks as one transaction of ours:
///             into the free part of the log, flush, journal superblock
///             switched to it (the moment it counts), flush, in place, flush.
///             All of it or nothing survives a cut, whoever recovers next: we,
///             the kernel or e2fsck.
///   finish()  the log marked empty, s_sequence beyond every tid in it, then
///             RECOVER cleared.
///
/// The superblock in the overlay shows RECOVER clear all the while; on disk the
/// flag stays set until finish(). Without a usable log, or for a commit that is
/// larger than the log, blocks go out in place in an order that a second run
/// repeats safely: bitmaps and descriptors, other blocks, inode tables, orphan
/// file, superblock, with a flush between.
///
/// Not thread-safe. Keeps a reference to the overlay; writes its base().
class Committer {
 public:
  /// `plan` was made from overlay.base() and applied to `overlay` (fast
  /// commits too); what the overlay shows now is what will be on disk. Errors:
  /// usage (damaged log without consent), incompatible (external journal,
  /// unless it is clean and options say in place), io.
  static Result<Committer> begin(RecoveryPlan plan, image::Overlay& overlay, CommitOptions options = {});

  /// How many dirty blocks one commit() can take atomically; 0: no log.
  [[nodiscard]] std::uint64_t capacity_blocks() const;
  /// Writes everything dirty in the overlay. Those blocks are clean
  /// afterwards, except the superblock, which stays in the overlay until finish().
  Result<void> commit();
  /// commit() for what is still dirty, then closes the log. Call once, last.
  Result<void> finish();

  struct Stats {
    std::uint64_t bytes_written = 0;      // all of them, log included
    std::uint64_t blocks_home = 0;        // replayed log blocks copied home
    std::uint64_t blocks_committed = 0;   // by transactions of our own
    std::uint64_t blocks_in_place = 0;    // by the ordered fallback
    std::uint32_t transactions = 0;       // of our own
  };
  [[nodiscard]] Stats stats() const;

 private:
  Committer(RecoveryPlan plan, image::Overlay& overlay, CommitOptions options);
  Result<void> start();
  Result<void> super_home();
  void forget_cached(Blk block);
  [[nodiscard]] bool usable_log() const { return plan_.log.has_value() && !options_.in_place; }
  [[nodiscard]] std::vector<Blk> pending() const;
  Result<void> raise_recover();
  Result<void> find_tid();
  Result<std::optional<std::uint32_t>> place(std::uint64_t log_blocks);
  Result<void> set_log(std::uint32_t start, Tid sequence);
  Result<void> commit_in_log(const std::vector<Blk>& blocks);
  Result<void> commit_in_place(const std::vector<Blk>& blocks);
  Result<void> load_block(Blk block, std::span<std::byte> out);
  Result<void> write_home(const std::vector<Blk>& blocks);
  Result<void> flush_device();

  RecoveryPlan plan_;
  image::Overlay* overlay_;
  std::unique_ptr<CountedDevice> device_;
  CommitOptions options_;
  Blk super_block_ = 0;
  std::optional<Tid> next_tid_{};         // found when first needed
  /// While fast commits count: s_start is here and nothing may be written here.
  std::optional<std::uint32_t> guard_{};
  /// Our newest transaction, in place already, still announced by s_start.
  struct Live {
    std::uint32_t start = 0, blocks = 0;
  };
  std::optional<Live> live_{};
  bool recover_on_disk_ = false;
  bool finished_ = false;
  Stats stats_{};
};

}  // namespace e4::journal
