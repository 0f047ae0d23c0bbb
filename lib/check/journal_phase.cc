// SPDX-License-Identifier: GPL-2.0-only
#include <fmt/core.h>

#include "check/inode_edit.h"
#include "check/session.h"
#include "journal/fast_commit.h"
#include "journal/log.h"

// What the log says, and what follows. RECOVER is needs_recovery in the
// superblock, "log" whether s_start says there is something in it:
//
//   RECOVER  log      decision
//   set      whole    A: replay
//   set      empty    B: clear RECOVER
//   set      damaged  C: -p stops; with consent what verifies is replayed and the log emptied
//   set      unusable D: nothing can be decided here; the log is kept
//   clear    any      E: never replayed in silence: -p stops, else ask (a backup superblock
//                        cannot know, there it is replayed as in A)
//   clear    unusable F: reported; recovery does not depend on it
//   external          G: refused when it is needed, else named
namespace e4::check {

using journal::ProblemKind;
using report::arg;

namespace {

void report_problems(Session& s) {
  report::JournalVerdict& v = s.verdict.journal;
  for (const journal::Problem& p : s.plan.problems) {
    report::Place place;
    place.block = p.home;
    place.ino = p.ino;
    Problem as = Problem::journal_damage;
    switch (p.kind) {
      case ProblemKind::stale_commit: as = Problem::journal_stale_commit; break;
      case ProblemKind::fast_commit_damaged:
      case ProblemKind::fast_commit_features:
      case ProblemKind::fast_commit_record: as = Problem::fast_commit_damage; break;
      case ProblemKind::journal_unusable:
      case ProblemKind::external_journal:
      case ProblemKind::recover_without_journal:
      case ProblemKind::unannounced_log: continue;  // decided below
      case ProblemKind::commit_checksum: ++v.dropped_transactions; break;
      case ProblemKind::data_unreadable:
      case ProblemKind::data_checksum:
      case ProblemKind::target_out_of_range:
      case ProblemKind::target_in_journal:
      case ProblemKind::target_bad_super: ++v.dropped_blocks; break;
      default: break;
    }
    s.judge.found(as, place, {arg("what", p.text())});
  }
}

/// The text of the first problem of a kind, for the questions below.
std::string text_of_kind(const journal::RecoveryPlan& plan, ProblemKind kind) {
  for (const journal::Problem& p : plan.problems)
    if (p.kind == kind) return p.detail.empty() ? p.text() : p.detail;
  return "unknown";
}

Result<void> replay(Session& s) {
  report::JournalVerdict& v = s.verdict.journal;
  if (s.plan.has_work()) s.judge.say("recovering journal");
  E4_TRY(journal::apply(s.plan, *s.overlay));
  s.recovered = s.recovered || s.plan.needs_recovery || s.plan.has_work();
  v.replayed = s.plan.has_work();
  v.transactions = s.plan.transactions;
  v.blocks = s.plan.blocks.size();
  v.revoked = s.plan.revoked_tags;
  if (s.plan.s_errno != 0)
    s.judge.found(Problem::journal_errno, {}, {arg("errno", std::uint64_t{s.plan.s_errno})});
  if (s.plan.fast_commit_records != 0) {
    const journal::FastCommitResult fc = E4_TRY(journal::replay_fast_commits(s.plan, *s.overlay));
    v.fast_commit_records = fc.records;
    for (const journal::Problem& p : fc.problems)
      s.judge.found(Problem::fast_commit_damage, {.ino = p.ino, .block = p.home}, {arg("what", p.text())});
    if (fc.full_check_needed) s.judge.found(Problem::fast_commit_check, {}, {arg("records", std::uint64_t{fc.records})});
    if (!fc.orphans.empty()) {
      orphan::Volume volume = E4_TRY(orphan::Volume::load(*s.overlay));
      E4_TRY(put_on_list(volume, fc.orphans));
    }
  }
  return {};
}

Result<void> clear_recover(Session& s) {
  SuperCopy super = E4_TRY(SuperCopy::read(*s.overlay));
  super.set_u32(0x60, super.u32(0x60) & ~std::uint32_t{EXT3_FEATURE_INCOMPAT_RECOVER});
  super.seal();
  return super.write(*s.overlay);
}

/// Something committed is lost: neither we nor the kernel may call the file
/// system consistent before a full check has.
Result<void> mark_errors(Session& s) {
  SuperCopy super = E4_TRY(SuperCopy::read(*s.overlay));
  super.set_u16(0x3A, super.u16(0x3A) | EXT2_ERROR_FS);
  super.seal();
  return super.write(*s.overlay);
}

/// RECOVER is set, has_journal is not: one of the two bits was damaged. When a
/// journal verifies, with something in it, it is the second.
Result<void> look_for_lost_flag(Session& s) {
  SuperCopy super = E4_TRY(SuperCopy::read(*s.overlay));
  const SuperCopy before = super;
  const std::uint32_t inum = super.u32(0xE0);
  if (!s.plan.needs_recovery || s.plan.has_journal || inum == 0) return {};
  super.set_u32(0x5C, super.u32(0x5C) | EXT3_FEATURE_COMPAT_HAS_JOURNAL);
  super.seal();
  E4_TRY(super.write(*s.overlay));
  E4_TRY(reopen(s));
  auto with = E4_TRY(journal::plan_recovery(*s.base, *s.fs, {}));
  if (with.verdict == journal::Verdict::ok && s.judge.found(Problem::journal_flag_lost, {.ino = inum}, {arg("ino", std::uint64_t{inum})})) {
    s.plan = std::move(with);
    return {};
  }
  E4_TRY(before.write(*s.overlay));
  return reopen(s);
}

void give_up(Session& s) {
  s.overlay->discard();
  s.ended = s.abandoned = true;
}

}  // namespace

Result<void> journal_phase(Session& s) {
  s.unlisted_orphans = s.super_restored;
  s.plan = E4_TRY(journal::plan_recovery(*s.base, *s.fs, {.replay_unannounced = s.super_restored}));
  E4_TRY(look_for_lost_flag(s));
  const journal::RecoveryPlan& plan = s.plan;
  report::JournalVerdict& v = s.verdict.journal;
  v.present = plan.has_journal;
  v.needed = plan.has_work() || (plan.needs_recovery && !plan.complete());
  report_problems(s);

  switch (plan.verdict) {
    case journal::Verdict::nothing_to_do:  // B
      if (plan.needs_recovery && !plan.has_journal) {
        if (s.judge.found(Problem::journal_recover_without)) E4_TRY(clear_recover(s));
        break;
      }
      E4_TRY(replay(s));
      break;
    case journal::Verdict::ok:  // A
      E4_TRY(replay(s));
      break;
    case journal::Verdict::unannounced: {  // E
      v.needed = true;
      auto again = E4_TRY(journal::plan_recovery(*s.base, *s.fs, {.replay_unannounced = true}));
      if (!s.judge.found(Problem::journal_unannounced, {},
                         {arg("blocks", static_cast<std::uint64_t>(again.blocks.size())), arg("from", std::uint64_t{again.first_tid}),
                          arg("to", std::uint64_t{again.end_tid - 1})})) {
        give_up(s);
        return {};
      }
      s.plan = std::move(again);
      s.empty_damaged_log = true;
      if (s.plan.verdict == journal::Verdict::failed) {
        s.judge.found(Problem::journal_failed);
        give_up(s);
        return {};
      }
      E4_TRY(replay(s));
      if (!s.plan.complete()) E4_TRY(mark_errors(s));
      break;
    }
    case journal::Verdict::partial:  // C
      if (!s.judge.found(Problem::journal_partial, {},
                         {arg("from", std::uint64_t{plan.first_tid}), arg("to", std::uint64_t{plan.end_tid - 1}),
                          arg("lost", static_cast<std::uint64_t>(plan.problems.size()) + plan.problems_dropped)})) {
        give_up(s);
        return {};
      }
      s.empty_damaged_log = true;
      E4_TRY(replay(s));
      E4_TRY(mark_errors(s));
      break;
    case journal::Verdict::failed:
      if (!plan.needs_recovery) {  // F
        s.judge.found(Problem::journal_unneeded, {}, {arg("what", text_of_kind(plan, ProblemKind::journal_unusable))});
        break;
      }
      if (!plan.has_journal) {
        if (s.judge.found(Problem::journal_recover_without)) E4_TRY(clear_recover(s));
        break;
      }
      if (plan.log) s.judge.found(Problem::journal_failed);  // D
      else s.judge.found(Problem::journal_unusable, {}, {arg("what", text_of_kind(plan, ProblemKind::journal_unusable))});
      give_up(s);
      return {};
    case journal::Verdict::external: {  // G
      v.present = false;
      const std::string what = journal::external_text(s.fs->super());
      s.judge.found(plan.needs_recovery ? Problem::journal_external : Problem::journal_external_idle, {}, {arg("what", what)});
      if (plan.needs_recovery) {
        give_up(s);
        return make_error(ErrorKind::incompatible, what);
      }
      break;
    }
  }
  if (plan.log && plan.log->from_backup()) s.judge.found(Problem::journal_backup_map);
  return reopen(s);
}

}  // namespace e4::check
