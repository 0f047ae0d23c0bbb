// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "orphan/classify.h"
#include "orphan/volume.h"

namespace e4::orphan {

struct ReleaseTotals {
  std::uint64_t erased = 0;     // inodes deleted
  std::uint64_t truncated = 0;  // truncates finished
  std::uint64_t dropped = 0;    // entries cleared, inode not touched
  std::uint64_t relinked = 0;   // link counts set to the names found
  std::uint64_t left = 0;       // for the full check
  std::uint64_t ea_inodes = 0;  // attribute inodes deleted with their last reference
  std::uint64_t freed_clusters = 0;
  std::uint64_t freed_bytes = 0;
  std::vector<std::string> problems;  // quota files that could not be updated
};

struct ReleaseOptions {
  std::uint64_t now = 0;  // seconds; i_dtime becomes max(now, s_inodes_count)
  /// Dirty blocks of the overlay at which a batch ends (what one transaction
  /// of the log can take); at least 16. A release bigger than that is cut up,
  /// as the kernel does, with the orphan kept tracked until its last part.
  std::size_t capacity_blocks = static_cast<std::size_t>(-1);
  /// Called for each record when it is dealt with, in the order of the work; may be empty.
  std::function<void(const Record&)> done{};
};

/// Carries out a plan, batch by batch:
///
///     Releaser releaser(volume, plan, options);
///     while (E4_TRY(releaser.batch())) { commit the overlay; }
///
/// After each batch() the overlay holds a consistent image: an inode and its
/// slot or list link went together, with bitmaps, counts, quota and checksums.
/// batch() returns true when it changed something: commit, then call again;
/// false when nothing was left to do. Mind that the *first* thing
/// batch() does is Volume::forget_spans(), so settled() in between is fine.
/// orphan_present is cleared with the last batch when no slot is left in use.
class Releaser {
 public:
  Releaser(Volume& volume, Plan& plan, ReleaseOptions options);
  ~Releaser();
  Result<bool> batch();
  [[nodiscard]] const ReleaseTotals& totals() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// All of it in memory, in one go.
Result<ReleaseTotals> release_all(Volume& volume, Plan& plan, const ReleaseOptions& options);

}  // namespace e4::orphan
