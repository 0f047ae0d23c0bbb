// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <ext2fs/ext2_fs.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "mkfs/draft.h"
#include "mkfs/plan.h"

namespace e4::mkfs {

/// What the file system that was built turned out to be.
struct Built {
  ext2_super_block super{};
  std::uint32_t groups = 0;
  std::vector<Blk> backups;           // where copies of the superblock lie
  std::uint64_t journal_blocks = 0;   // fast commit area included; 0: none
  std::uint64_t fast_commit_blocks = 0;
  Ino orphan_inum = 0;                // 0: none
  std::uint32_t orphan_file_blocks = 0;
  Ino lost_found_inum = 0;
  std::vector<std::string> notes;     // dropped on the way, a line each
};

/// Builds the file system of `plan` in `draft` (of plan.blocks blocks). The
/// target is not involved: whatever does not fit is an Error here, before a
/// byte of it has changed. Errors: no_space, usage; anything else is a bug or
/// lack of memory.
Result<Built> build(const Plan& plan, Draft& draft);

}  // namespace e4::mkfs
