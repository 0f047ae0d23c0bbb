// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>

#include "base/result.h"
#include "image/device.h"
#include "journal/recovery.h"

namespace e4::journal {

/// Copies every block of the plan from the log to its home on `device`, in
/// ascending order with large reads and writes, except `skip` (the superblock,
/// which the caller merges). Does not flush. Returns the number of blocks.
Result<std::uint64_t> copy_home(const RecoveryPlan& plan, image::Device& device, Blk skip);

/// A tid that no block anywhere in the log, replayed or left over from earlier
/// rounds, carries or will soon be taken for: what s_sequence must be once the
/// log is empty. Reads the first bytes of every log block outside the replayed
/// part.
Result<Tid> safe_next_tid(const RecoveryPlan& plan, image::Device& device);

/// The whole recovery of a log and nothing else, written: what
/// `e2fsck -E journal_only` does. Blocks home, flush, fast commits and the
/// superblock through the log, log empty, RECOVER clear. Returns the bytes
/// written. Refuses plans that are not complete() unless `empty_damaged_log`.
Result<std::uint64_t> recover(image::Device& device, bool empty_damaged_log = false);

}  // namespace e4::journal
