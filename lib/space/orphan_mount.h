// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "alloc/orphan_tracker.h"
#include "image/overlay.h"
#include "orphan/release.h"
#include "space/life_cycle.h"

namespace e4::space {

struct OrphanMountOptions {
  alloc::Policy::OrphanTracking policy = alloc::Policy::OrphanTracking::file_lockless;
  std::uint64_t now = 0;  // seconds; deletion time of what clean_up() deletes
  /// Brings the log home into the overlay; without it a mount that needs recovery fails (incompatible).
  std::function<Result<void>()> replay_journal = {};
};

/// Orphan tracking over an image: a tracker on the image's own orphan blocks
/// and a life cycle on its superblock. Everything is an edit of the overlay.
///
///     OrphanMount fs(overlay, {});
///     E4_TRY(fs.life().mount({}));
///     fs.tracker()->add(inode, cpu);   // from any thread
///     E4_TRY(fs.life().freeze());      // or unmount(), or flush(): slots, chain and flags stand in the overlay
///
/// Only tracker() is for many threads; while one of them adds or removes, no
/// other member may be called.
class OrphanMount final : private LifeTarget {
 public:
  OrphanMount(image::Overlay& overlay, OrphanMountOptions options);
  ~OrphanMount() override;

  LifeCycle& life() { return life_; }
  /// nullptr while not mounted read-write, and without a journal: then nothing is tracked.
  alloc::OrphanTracker* tracker();
  /// Changed orphan blocks with their checksums, the chain in s_last_orphan and i_dtime. An inode that left the chain
  /// has i_dtime 0 (its deletion time is the caller's).
  Result<void> flush() override;
  /// What the clean-ups since the last mount did.
  [[nodiscard]] const orphan::ReleaseTotals& cleaned() const { return cleaned_; }

 private:
  Result<LifeSuper> read_super() override;
  Result<void> write_super(const LifeSuper& super) override;
  Result<void> replay_journal() override;
  Result<void> load_orphan_file() override;
  Result<void> clean_up() override;
  [[nodiscard]] bool orphan_file_empty() override;
  [[nodiscard]] Ino last_orphan() override;
  void drop_list() override;
  void release() override;

  Result<void> load_slots();
  Result<void> flush_chain();
  alloc::OrphanTracker& slots();

  image::Overlay& overlay_;
  const OrphanMountOptions options_;
  std::unique_ptr<alloc::OrphanTracker> tracker_;
  std::vector<Blk> file_blocks_;        // physical, in logical order
  std::uint32_t file_seed_ = 0;         // checksum seed of the orphan file's inode
  bool metadata_csum_ = false;
  std::uint64_t unmanaged_slots_ = 0;   // policy list: occupied slots nobody here looks after
  Ino found_last_orphan_ = 0;           // on disk, of a chain nobody here tracks
  std::unordered_map<Ino, std::uint32_t> stored_chain_;  // as flush() wrote it: inode to i_dtime
  orphan::ReleaseTotals cleaned_;
  LifeCycle life_;
};

}  // namespace e4::space
