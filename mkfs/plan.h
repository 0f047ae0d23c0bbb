// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <ext2fs/ext2_fs.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "image/features.h"
#include "mkfs/extended.h"
#include "mkfs/wishes.h"

namespace e4::mkfs {

/// What plan() must know of the world; everything else is in the wishes.
struct Surroundings {
  bool exists = false;             // the target is there
  bool block_device = false;
  std::uint64_t target_bytes = 0;  // its size, offset included
  std::uint32_t sector_bytes = 512;
  std::int64_t now = 0;            // seconds since 1970; 0 is taken as 1, since 0 means "never" on disk
  bool time_is_fixed = false;      // by SOURCE_DATE_EPOCH or E2FSPROGS_FAKE_TIME
  Uuid random_uuid{}, random_hash_seed{};
  std::uint32_t own_uid = 0, own_gid = 0;
};

struct JournalPlan {
  std::uint64_t blocks = 0;              // of the log proper; 0: no journal
  std::uint64_t fast_commit_blocks = 0;  // 0 without fast_commit
  std::optional<std::uint64_t> location; // first block wanted
  bool size_asked_for = false;
};

/// A layout on paper. Nothing has been opened or written to make it, and
/// writing it needs no further decision.
struct Plan {
  ext2_super_block super{};    // as ext2fs_initialize takes it; only geometry and features are set
  image::FeatureBits features;
  std::uint32_t block_bytes = 0, cluster_blocks = 1;
  std::uint64_t blocks = 0;          // wanted; the library may cut a last group that is too short
  std::uint64_t offset_bytes = 0;
  std::int64_t now = 0;
  Uuid uuid{}, hash_seed{};
  std::string label, last_mounted;
  std::uint16_t errors = 0;          // s_errors
  double reserved_percent = 5;
  JournalPlan journal;
  std::uint32_t orphan_file_blocks = 0;       // 0: none, or by the default rule (orphan_default)
  bool orphan_default = false;
  bool orphan_asked_for = false;
  bool lazy_itable = true, itable_reads_zero = false, lazy_journal = true, discard = true;
  bool assume_zeroed = false;        // the user says that the target reads as zeros
  bool packed_meta_blocks = false, test_fs = false;
  std::uint32_t root_uid = 0, root_gid = 0;
  std::optional<std::uint32_t> root_perms;
  std::uint16_t encoding = 0, encoding_flags = 0;
  std::vector<std::string> notes;    // what was dropped or clamped and why, a line each
  std::vector<std::string> usage;    // the usage types applied
};

/// Decides everything, or says what cannot be (usage, no_space). Pure.
Result<Plan> plan(const Wishes& wishes, const Surroundings& world);

}  // namespace e4::mkfs
