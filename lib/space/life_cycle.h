// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace e4::space {

/// The superblock fields a life cycle reads and writes.
struct LifeSuper {
  bool has_journal = false;        // compat has_journal
  bool orphan_file = false;        // compat orphan_file
  bool unknown_ro_compat = false;  // a ro_compat bit Linux 6.18 does not know
  bool recover = false;            // incompat needs_recovery
  bool orphan_present = false;     // ro_compat orphan_present
  bool valid = true;               // s_state: cleanly unmounted
  bool error = false;              // s_state: errors seen
  Ino last_orphan = 0;             // s_last_orphan
  friend bool operator==(const LifeSuper&, const LifeSuper&) = default;
};

/// What a life cycle moves: an image (OrphanMount), or a fake in tests.
class LifeTarget {
 public:
  virtual ~LifeTarget() = default;
  virtual Result<LifeSuper> read_super() = 0;
  virtual Result<void> write_super(const LifeSuper& super) = 0;
  /// Brings the log home; the superblock is read again afterwards.
  virtual Result<void> replay_journal() = 0;
  /// Reads and validates every block of the orphan file. Called for every mount of a file system that has one.
  virtual Result<void> load_orphan_file() = 0;
  /// Deletes and truncates what list and file name. What it cannot deal with stays in its slot; the list ends up empty.
  virtual Result<void> clean_up() = 0;
  /// Writes what threads have tracked so far (a flush of the journal).
  virtual Result<void> flush() = 0;
  [[nodiscard]] virtual bool orphan_file_empty() = 0;
  /// Head of the list in memory.
  [[nodiscard]] virtual Ino last_orphan() = 0;
  /// Forgets the list.
  virtual void drop_list() = 0;
  /// The file system is gone: nothing is tracked any more.
  virtual void release() = 0;
};

struct LifeMount {
  bool read_only = false;
  bool device_read_only = false;
  bool noload = false;  // mount option: do not load the journal
};

/// Mount, remount, freeze and unmount as far as orphans go: when
/// orphan_present and needs_recovery are set and cleared, when pending orphans
/// are processed, and what is refused. After Linux 6.18 (seen live on 6.18.44).
/// Differs from it on purpose in one thing: slots that are zeroed without a
/// journal (noload) get their checksums.
///
/// Errors: usage (not in that state), incompatible (unknown features), busy
/// (refused while files are open or orphans unprocessed), io (read-only device,
/// shut down, journal aborted), corrupt (the mount failed, flags stay).
/// Not thread-safe, and no thread may add or remove orphans during a call.
class LifeCycle {
 public:
  enum class Phase : std::uint8_t { unmounted, read_only, read_write };
  enum class Shutdown : std::uint8_t {
    freeze,       // EXT4_GOING_FLAGS_DEFAULT: freezes first, so flags go as with freeze()
    log_flush,    // EXT4_GOING_FLAGS_LOGFLUSH: the log is forced out, then nothing more is written
    no_log_flush  // EXT4_GOING_FLAGS_NOLOGFLUSH: nothing more is written
  };

  explicit LifeCycle(LifeTarget& target) : target_(target) {}

  Result<void> mount(const LifeMount& options);
  /// `open_unlinked`: files that are open and have no name (the VFS refuses then).
  Result<void> remount_ro(std::uint64_t open_unlinked);
  Result<void> remount_rw();
  Result<void> freeze();
  Result<void> thaw();
  Result<void> shutdown(Shutdown how);
  /// The journal gave up (an I/O error in the log): nothing in the superblock changes any more.
  Result<void> abort_journal();
  Result<void> unmount();

  [[nodiscard]] Phase phase() const { return phase_; }
  [[nodiscard]] bool frozen() const { return frozen_; }
  /// A journal is loaded: only then is anything tracked.
  [[nodiscard]] bool journaled() const { return journal_; }
  /// What the kernel would have put into its log since the last call, a line each ("file system error: ...").
  std::vector<std::string> take_messages();

 private:
  Result<void> write_super();
  void complain(const std::string& what);
  Result<void> enter_read_write();
  Result<void> clean_up_after_mount(bool device_read_only);
  Result<bool> finish_recovery();
  Result<void> clear_for_freeze();

  LifeTarget& target_;
  LifeSuper super_;
  Phase phase_ = Phase::unmounted;
  bool journal_ = false;           // loaded
  bool device_read_only_ = false;
  bool was_valid_ = true;          // s_state at mount
  bool frozen_ = false, shut_down_ = false, aborted_ = false;
  std::vector<std::string> messages_;
};

}  // namespace e4::space
