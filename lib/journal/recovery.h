// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "image/device.h"
#include "image/filsys.h"
#include "image/overlay.h"
#include "journal/log.h"

namespace e4::journal {

/// What reading the log came to.
enum class Verdict {
  nothing_to_do,  // no journal, or an empty log (RECOVER may still have to be cleared)
  ok,             // every committed transaction can be replayed
  partial,        // some blocks or transactions are damaged; the plan holds the rest
  failed,         // the log cannot be followed, or there is no usable journal: nothing in the plan
  unannounced,    // the log has content but the superblock's RECOVER is clear: nothing planned unless asked
  external,       // the journal is on another device
};
const char* to_string(Verdict v);

enum class ProblemKind {
  journal_unusable,       // inode, mapping or journal superblock; `detail` says what
  external_journal,
  recover_without_journal,// RECOVER set, no has_journal
  unannounced_log,        // see Verdict::unannounced
  log_block_unreadable,   // fatal while following the log
  log_loops,              // the walk came back to where it started
  descriptor_checksum,
  revoke_checksum,
  revoke_count,           // r_count cannot be
  commit_checksum,        // transaction not replayed, nor anything behind it
  stale_commit,           // bad checksum but an older commit time: a leftover, the normal end of a log
  data_unreadable,        // one block lost
  data_checksum,          // one block lost
  target_out_of_range,    // one block dropped: home lies outside the file system
  target_in_journal,      // one block dropped: home lies in the journal itself
  target_bad_super,       // one block dropped: would overwrite the superblock with something else
  fast_commit_damaged,    // fast-commit area ends in something unreadable; the part before it counts
  fast_commit_features,   // fast commits with features this program does not know: none replayed
  fast_commit_record,     // one record could not be applied; `detail` says why
};

/// Something wrong with a log, as data: the caller makes findings of it.
struct Problem {
  ProblemKind kind{};
  Tid tid = 0;
  std::uint32_t log_block = 0;
  std::optional<Blk> home{};     // the block of the file system that suffers
  std::optional<Ino> ino{};
  std::string detail{};
  /// One line for people, with transaction, log block and home block.
  [[nodiscard]] std::string text() const;
  /// False for what is only worth a remark: the usual ends of a log after a crash.
  [[nodiscard]] bool is_damage() const {
    return kind != ProblemKind::stale_commit && kind != ProblemKind::fast_commit_damaged;
  }
};

/// One home block and the log block with its newest content.
struct HomeBlock {
  Blk block = 0;
  std::uint32_t log_block = 0;
  Tid tid = 0;
  bool escaped = false;          // put the jbd2 magic back into the first four bytes
};

struct PlanOptions {
  /// Replay although RECOVER is clear (Verdict::unannounced otherwise).
  bool replay_unannounced = false;
};

/// What recovering this log means. 24 bytes a block; nothing is copied.
struct RecoveryPlan {
  Verdict verdict = Verdict::nothing_to_do;
  bool has_journal = false;
  bool needs_recovery = false;           // RECOVER in the file system's superblock
  std::optional<Log> log{};              // none when there is no usable journal
  std::vector<HomeBlock> blocks{};       // ascending by block, each once: the newest content wins

  Tid first_tid = 0;                     // s_sequence
  Tid end_tid = 0;                       // first transaction *not* replayed
  std::uint32_t transactions = 0;        // replayed: end_tid - first_tid
  std::uint32_t head = 0;                // log block behind the last replayed transaction
  std::uint64_t tags = 0;                // blocks logged by the replayed transactions
  std::uint64_t revoke_records = 0;
  std::uint64_t revoked_tags = 0;        // logged but not replayed because revoked
  std::optional<Tid> failed_commit{};    // transaction whose commit block is damaged
  std::uint32_t dropped_transactions = 0;// that one and the complete ones behind it
  std::vector<HomeBlock> dropped{};      // what those would have written, in log order

  std::uint32_t fast_commit_records = 0; // replayable records (PAD, HEAD, TAIL counted)
  std::uint32_t fast_commit_blocks = 0;  // blocks of the area that hold them

  std::uint32_t s_errno = 0;             // recorded by the kernel in the journal superblock

  std::vector<Problem> problems{};       // at most kMaxProblems
  std::uint64_t problems_dropped = 0;    // more of them than kept
  static constexpr std::size_t kMaxProblems = 10000;

  /// Whether the file system has to be flagged as having errors afterwards.
  [[nodiscard]] bool leaves_errors() const { return s_errno != 0 || !complete(); }
  /// Whether applying the plan changes what the file system looks like.
  [[nodiscard]] bool has_work() const { return !blocks.empty() || fast_commit_records != 0; }
  /// Whether emptying the log loses nothing that could be replayed.
  [[nodiscard]] bool complete() const { return verdict == Verdict::nothing_to_do || verdict == Verdict::ok; }
};

/// Reads the log as the kernel's recovery does (Linux 6.18 fs/jbd2/recovery.c;
/// facts: journal.md section 4) and says what replaying it would do. Reads
/// only. `device` is the image itself (for an Overlay: its base()); `fs` any
/// Filsys over it. What is wrong with the log is in the plan; an Error means
/// that the image could not be read at all.
Result<RecoveryPlan> plan_recovery(image::Device& device, image::Filsys& fs, PlanOptions options = {});

/// Puts the plan into an overlay over the same device: every home block becomes
/// an alias of its log block. Then the superblock is made what it has to be
/// after recovery: the error record and error bit of the image survive (older
/// first error, newer last error), s_errno sets the error bit, RECOVER is clear.
/// Any Filsys over the overlay opened before is stale now: open it again.
/// Does nothing for failed, unannounced and external plans.
Result<void> apply(const RecoveryPlan& plan, image::Overlay& overlay);

}  // namespace e4::journal
