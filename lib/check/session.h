// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <memory>
#include <optional>
#include <set>

#include "base/result.h"
#include "check/groups.h"
#include "check/judge.h"
#include "check/options.h"
#include "check/super_copy.h"
#include "image/filsys.h"
#include "image/overlay.h"
#include "journal/committer.h"
#include "journal/recovery.h"
#include "report/progress.h"
#include "report/verdict.h"

namespace e4::check {

/// What the phases hand on to each other. Each phase is a function over it,
/// and says at its top which fields it needs and which it sets.
struct Session {
  const Options& options;
  Judge& judge;
  report::Verdict& verdict;
  report::Progress& progress;

  // Set by open: the bytes below the overlay (an undo layer if asked for), the
  // overlay, and what libext2fs makes of it. `fs` is reopened after replay.
  image::Device* base = nullptr;
  std::unique_ptr<image::Device> undo = {};
  std::unique_ptr<image::Overlay> overlay = {};
  std::optional<image::Filsys> fs = {};
  bool super_restored = false;   // from a backup: dynamic fields are old
  bool incompatible = false;     // unknown incompat feature: only the superblock can be judged

  // Set by the journal phase.
  journal::RecoveryPlan plan = {};
  bool empty_damaged_log = false;  // consent
  bool recovered = false;          // something was replayed or RECOVER was set
  bool unlisted_orphans = false;   // inodes with links 0 on no list may exist; orphan phase lists them

  // Writing; set by commit().
  std::optional<journal::Committer> committer = {};
  std::set<GroupNo> touched_groups = {};
  bool all_bitmaps = false;  // set by bitmap: every group was looked at

  // How the run goes on.
  bool ended = false;      // no further phase; what was decided is still written
  bool abandoned = false;  // nothing may be written
  bool cancelled = false;

  [[nodiscard]] bool stop_requested() const { return options.stop.stop_requested(); }
};

/// Opens `fs` over the overlay as it is now, checking geometry again.
Result<void> reopen(Session& s);
/// Notes which groups the overlay's changed blocks belong to.
void note_touched(Session& s);
/// Writes what is dirty, atomically as far as the log allows. Does nothing in
/// a rehearsal. May be called often.
Result<void> commit(Session& s);

// The phases, in order. Each returns an Error only for what ends the run.
Result<void> open_phase(Session& s, image::Device& device);
Result<void> journal_phase(Session& s);
Result<void> super_phase(Session& s);
Result<void> descriptor_phase(Session& s);
Result<void> bitmap_phase(Session& s);
Result<void> orphan_file_phase(Session& s);
Result<void> orphan_phase(Session& s);
Result<void> orphan_file_after_phase(Session& s);
Result<void> finish_phase(Session& s);

}  // namespace e4::check
