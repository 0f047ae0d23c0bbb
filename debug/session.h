// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/io.h"
#include "debug/options.h"
#include "image/device.h"
#include "image/overlay.h"
#include "journal/recovery.h"
#include "orphan/release.h"
#include "orphan/volume.h"

namespace e4::debug {

/// What replaying the journal came to, for messages.
struct JournalState {
  bool needs_recovery = false;
  bool applied = false;          // in memory, or for good with -w
  journal::Verdict verdict = journal::Verdict::nothing_to_do;
  std::uint32_t transactions = 0;
  std::uint32_t fast_commit_records = 0;
  bool unlisted_orphans = false;  // fast commits left inodes with links 0 on no list
  std::vector<std::string> problems;
};

/// The image and a copy-on-write layer over it. Nothing but commit_all() and
/// Writer writes.
struct Layer {
  std::unique_ptr<image::Overlay> overlay;
  std::optional<journal::RecoveryPlan> plan;
  JournalState journal;
  std::optional<orphan::Volume> volume;
};

class Session {
 public:
  /// Opens the device; with -w exclusively, refusing one that is mounted. A superblock copy (-s) is taken.
  static Result<std::unique_ptr<Session>> open(const Options& options, cli::Io& io);

  /// A fresh layer, with the journal replayed into it or not.
  Result<Layer> layer(bool journal);
  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] cli::Io& io() const { return *io_; }
  /// E2FSCK_TIME, SOURCE_DATE_EPOCH, else the clock; seconds.
  [[nodiscard]] std::uint64_t now() const;
  /// Features of the image this program does not know, by name or bit ("FEATURE_I20").
  [[nodiscard]] const std::vector<std::string>& unknown_features() const { return unknown_; }

  /// Plans an edit in memory, then takes it to the disk so that being cut off anywhere loses nothing.
  /// `edit` sees the recovered image and says which orphans to release first (may be none) and what to do after
  /// that; nothing is written before it has agreed.
  struct Edit {
    orphan::Plan release;                                   // carried out first, in transactions the log can take
    std::function<Result<void>(orphan::Volume&)> after{};   // then this, as one transaction
  };
  using Prepare = std::function<Result<Edit>(Layer&)>;
  struct Written {
    orphan::ReleaseTotals released;
    std::uint64_t bytes_written = 0;
  };
  Result<Written> write(const Prepare& prepare);

 private:
  Session(const Options& options, cli::Io& io) : options_(options), io_(&io) {}
  Result<void> look_at_super();
  Result<void> take_backup_super(image::Overlay& overlay) const;
  Options options_;
  cli::Io* io_;
  std::unique_ptr<image::Device> file_, undo_;
  image::Device* device_ = nullptr;
  std::uint32_t block_bytes_ = 0;
  std::vector<std::string> unknown_;
};

}  // namespace e4::debug
