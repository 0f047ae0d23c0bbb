// SPDX-License-Identifier: GPL-2.0-only
#include "journal/recovery.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "journal/fast_commit_format.h"
#include "journal/fs_super.h"
#include "journal/passes.h"

namespace e4::journal {

namespace {

std::string_view what(ProblemKind kind) {
  switch (kind) {
    case ProblemKind::journal_unusable: return "the journal cannot be used";
    case ProblemKind::external_journal: return "";
    case ProblemKind::recover_without_journal: return "the superblock asks for journal recovery, but there is no journal";
    case ProblemKind::unannounced_log: return "the log has content although the file system is marked as recovered";
    case ProblemKind::log_block_unreadable: return "log block cannot be read";
    case ProblemKind::log_loops: return "the log runs into its own start";
    case ProblemKind::descriptor_checksum: return "bad checksum of a descriptor block";
    case ProblemKind::revoke_checksum: return "bad checksum of a revoke block";
    case ProblemKind::revoke_count: return "impossible count in a revoke block";
    case ProblemKind::commit_checksum:
      return "bad checksum of a commit block: neither this transaction nor any behind it is replayed";
    case ProblemKind::stale_commit: return "left over from an earlier use of the log, which ends here";
    case ProblemKind::data_unreadable: return "logged block cannot be read: not replayed";
    case ProblemKind::data_checksum: return "bad checksum of a logged block: not replayed";
    case ProblemKind::target_out_of_range: return "belongs outside the file system: not replayed";
    case ProblemKind::target_in_journal: return "belongs into the journal itself: not replayed";
    case ProblemKind::target_bad_super: return "would put something else in the place of the superblock: not replayed";
    case ProblemKind::fast_commit_damaged: return "fast commits end in an incomplete or unreadable one";
    case ProblemKind::fast_commit_features: return "fast commits use unknown features: not replayed";
    case ProblemKind::fast_commit_record: return "fast commit record cannot be applied";
  }
  return "unknown problem";
}

// The file system may have been resized by a transaction that is still in the
// log; then the newest logged superblock knows its size.
Blk size_after(const Passes& p, Blk now, std::uint64_t device_blocks) {
  const Blk home = super_block(p.log.block_bytes());
  for (auto it = p.tags.rbegin(); it != p.tags.rend(); ++it) {
    if (it->home != home) continue;
    const auto super = logged_super(p.device, p.log, it->log_block);
    if (super && super->log_block_size() == p.log_block_size) now = std::max(now, super->blocks_count());
    break;
  }
  return std::min<Blk>(now, device_blocks);
}

void read_log(image::Device& device, image::Filsys& fs, RecoveryPlan& plan) {
  Passes p{.device = device, .log = *plan.log, .plan = plan};
  plan.verdict = Verdict::ok;
  p.first_block = fs.super().s_first_data_block;
  p.log_block_size = fs.super().s_log_block_size;
  scan(p);
  if (plan.verdict != Verdict::failed) {
    p.blocks_count = size_after(p, ext2fs_blocks_count(&fs.super()), device.size() / fs.block_bytes());
    revoke(p);
  }
  if (plan.verdict != Verdict::failed) replay(p);
  if (plan.verdict == Verdict::failed) {
    plan.blocks.clear();
    return;
  }
  const FastCommitScan fast =
      scan_fast_commit_area(device, *plan.log, plan.end_tid, static_cast<std::uint32_t>(EXT2_INODE_SIZE(&fs.super())));
  plan.fast_commit_records = fast.records;
  plan.fast_commit_blocks = fast.blocks;
  if (fast.problem) p.problem({.kind = *fast.problem, .tid = plan.end_tid, .log_block = fast.log_block});
}

}  // namespace

const char* to_string(Verdict v) {
  switch (v) {
    case Verdict::nothing_to_do: return "nothing to do";
    case Verdict::ok: return "ok";
    case Verdict::partial: return "partial";
    case Verdict::failed: return "failed";
    case Verdict::unannounced: return "unannounced";
    case Verdict::external: return "external";
  }
  return "?";
}

std::string Problem::text() const {
  std::string s = "journal";
  if (tid != 0 || log_block != 0) s += fmt::format(" transaction {}", tid);
  if (log_block != 0) s += fmt::format(", log block {}", log_block);
  if (home) s += fmt::format(", for block {}", *home);
  if (ino) s += fmt::format(", inode {}", *ino);
  s += ": ";
  const std::string_view w = what(kind);
  s += w;
  if (!w.empty() && !detail.empty()) s += ": ";
  return s + detail;
}

Result<RecoveryPlan> plan_recovery(image::Device& device, image::Filsys& fs, PlanOptions options) {
  RecoveryPlan plan;
  plan.needs_recovery = (fs.super().s_feature_incompat & EXT3_FEATURE_INCOMPAT_RECOVER) != 0;
  switch (place_of(fs.super())) {
    case Place::none:
      if (plan.needs_recovery) plan.problems.push_back({.kind = ProblemKind::recover_without_journal});
      return plan;
    case Place::external:
      plan.has_journal = true;
      plan.verdict = Verdict::external;
      plan.problems.push_back({.kind = ProblemKind::external_journal, .detail = external_text(fs.super())});
      return plan;
    case Place::internal: break;
  }
  plan.has_journal = true;
  auto log = Log::open(device, fs);
  if (!log) {
    plan.verdict = Verdict::failed;
    plan.problems.push_back(
        {.kind = ProblemKind::journal_unusable, .ino = log.error().ino, .detail = log.error().message()});
    return plan;
  }
  plan.log = std::move(*log);
  const SuperOnDisk& super = plan.log->super().raw;
  plan.s_errno = super.s_errno;
  plan.first_tid = plan.end_tid = super.s_sequence;
  plan.head = plan.log->super().ring_first();
  if (super.s_start == 0) return plan;
  if (!plan.needs_recovery && !options.replay_unannounced) {
    plan.verdict = Verdict::unannounced;
    plan.problems.push_back({.kind = ProblemKind::unannounced_log, .tid = super.s_sequence, .log_block = super.s_start});
    return plan;
  }
  read_log(device, fs, plan);
  return plan;
}

Result<void> apply(const RecoveryPlan& plan, image::Overlay& overlay) {
  if (!plan.has_journal || plan.verdict == Verdict::failed || plan.verdict == Verdict::unannounced ||
      plan.verdict == Verdict::external) {
    return {};
  }
  auto before = FsSuper::read(overlay.base());
  for (const HomeBlock& b : plan.blocks) overlay.alias(b.block, plan.log->physical(b.log_block), b.escaped);
  auto super = FsSuper::read(overlay);
  if (!super) return {};  // no primary superblock, none in the log: the caller works from a backup
  FsSuper wanted = recovered_super(before ? &*before : nullptr, *super, plan.leaves_errors());
  wanted.set_recover(false);
  if (wanted == *super) return {};
  return wanted.write(overlay);
}

}  // namespace e4::journal
