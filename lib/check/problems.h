// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "report/finding.h"

namespace e4::check {

/// Everything the check can find. A new problem is a line here, one in
/// problems.cc, a test, and a sentence in e4fsck(8).
enum class Problem : std::uint8_t {
  // superblock
  super_damaged, super_checksum, super_too_long, super_extra_isize, super_state_error, super_state_not_clean,
  super_free_counts, super_no_backup,
  // features
  feature_unknown_compat, feature_unknown_ro_compat, feature_unknown_incompat, feature_two_csums, feature_csum_seed,
  feature_64bit_no_extents, feature_resize_meta_bg,
  // journal
  journal_external, journal_external_idle, journal_unusable, journal_unneeded, journal_recover_without, journal_flag_lost, journal_unannounced, journal_failed,
  journal_partial, journal_damage, journal_stale_commit, journal_errno, journal_backup_map, fast_commit_damage, fast_commit_check,
  // group descriptors and bitmaps
  desc_checksum, desc_location, desc_location_lost, desc_overlap, desc_unused, desc_uninit_flags, desc_uninit_last, desc_counts,
  group_free_blocks, group_free_inodes, block_bitmap_checksum, inode_bitmap_checksum, bitmap_unreadable,
  // orphan file
  orphan_no_journal, orphan_no_feature, orphan_file_lost, orphan_file_found, orphan_file_unproved, orphan_inode, orphan_size,
  orphan_hole, orphan_too_big, orphan_magic, orphan_checksum, orphan_named_file, orphan_block_owner, orphan_present_stale,
  orphans_waiting, orphan_leftover, orphan_stray,
  // orphans
  orphan_range, orphan_reserved, orphan_special, orphan_free, orphan_duplicate, orphan_type, orphan_invalid, orphan_named,
  orphan_left, orphan_obstacle, orphan_list_broken, orphan_list_loop,
  count
};

/// What preen (-p) does about a problem.
enum class Preen : std::uint8_t {
  fix,    // repairs it and says so
  quiet,  // repairs it in silence
  skip,   // leaves it and goes on
  halt,   // stops: a person has to decide
  note    // nothing to decide
};

struct ProblemInfo {
  Problem problem;
  std::string_view id;        // stable; for programs
  std::string_view text;      // a sentence; "{name}" stands for an argument
  std::string_view question;  // empty: nothing we know repairs it
  Preen preen;
  report::Severity severity;
};

const ProblemInfo& info_of(Problem problem);
std::span<const ProblemInfo> all_problems();

}  // namespace e4::check
