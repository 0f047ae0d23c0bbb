// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <vector>

#include "image/overlay.h"
#include "journal/recovery.h"

namespace e4::journal {

struct FastCommitResult {
  std::uint32_t records = 0;            // applied
  std::vector<Ino> touched{};           // ascending; their maps and counts were recomputed
  /// Touched inodes in use with links 0 (created, fsynced, unlinked while
  /// open). Those not on the orphan list or in the orphan file already have to
  /// be released like orphans, and with the first Committer::commit(): behind
  /// it the fast commits are gone.
  std::vector<Ino> orphans{};
  std::vector<Problem> problems{};      // records that could not be applied
  /// Always true when anything was applied: group and directory counts were
  /// corrected only as far as the touched inodes go.
  bool full_check_needed = false;
};

/// Replays the fast commits `plan` counted on top of `overlay`, to which the
/// plan has been applied: records in log order, each harmless when repeated,
/// then i_blocks, bitmaps, group counts, used directories and directory links
/// of every inode touched. Edits the overlay only. (Linux 6.18
/// fs/ext4/fast_commit.c; facts: journal.md section 6.)
Result<FastCommitResult> replay_fast_commits(const RecoveryPlan& plan, image::Overlay& overlay);

}  // namespace e4::journal
