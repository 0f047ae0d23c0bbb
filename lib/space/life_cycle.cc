// SPDX-License-Identifier: GPL-2.0-only
#include "space/life_cycle.h"

#include <utility>

namespace e4::space {

namespace {
constexpr const char* kNotEmpty = "orphan file not empty on a read-only file system";
}  // namespace

std::vector<std::string> LifeCycle::take_messages() { return std::exchange(messages_, {}); }

Result<void> LifeCycle::write_super() {
  super_.last_orphan = target_.last_orphan();
  return target_.write_super(super_);
}

/// What ext4_error() does with errors=continue: the error bit stays, a line goes to the log.
void LifeCycle::complain(const std::string& what) {
  super_.error = true;
  messages_.push_back("file system error: " + what);
}

Result<void> LifeCycle::mount(const LifeMount& options) {
  if (phase_ != Phase::unmounted) return make_error(ErrorKind::usage, "already mounted");
  super_ = E4_TRY(target_.read_super());
  device_read_only_ = options.device_read_only;
  frozen_ = shut_down_ = aborted_ = false;
  journal_ = super_.has_journal && !options.noload;
  if (!options.read_only) {
    if (device_read_only_) return make_error(ErrorKind::io, "the device is read-only");
    if (super_.unknown_ro_compat) return make_error(ErrorKind::incompatible, "unknown ro_compat features: only a read-only mount");
    if (super_.has_journal && options.noload && super_.recover)
      return make_error(ErrorKind::usage, "journal recovery is needed: noload only with a read-only mount");
  }
  if (journal_ && super_.recover) {
    if (device_read_only_) return make_error(ErrorKind::io, "journal recovery is needed on a read-only device; mount with noload");
    E4_TRY(target_.replay_journal());
    super_ = E4_TRY(target_.read_super());
    super_.recover = true;  // the replayed superblock may be older than that bit; it stays until recovery is complete
  }
  was_valid_ = super_.valid;
  const LifeSuper found = super_;
  phase_ = options.read_only ? Phase::read_only : Phase::read_write;
  auto mounted = [&]() -> Result<void> {
    if (!options.read_only) E4_TRY(enter_read_write());  // before the orphan file is looked at
    if (super_.orphan_file) {
      if (auto loaded = target_.load_orphan_file(); !loaded) {
        complain(loaded.error().text);
        if (!device_read_only_) E4_TRY(write_super());
        return Error(std::move(loaded).error());
      }
    }
    E4_TRY(clean_up_after_mount(device_read_only_));
    if (journal_ && options.read_only && !device_read_only_ && (found.recover || found.orphan_present || found.last_orphan != 0))
      if (!E4_TRY(finish_recovery())) return make_error(ErrorKind::corrupt, kNotEmpty);
    return {};
  }();
  if (!mounted) {
    phase_ = Phase::unmounted;
    target_.release();
  }
  return mounted;
}

/// Superblock of a read-write mount. Without a journal nothing will be tracked, but the state says "not clean" meanwhile.
Result<void> LifeCycle::enter_read_write() {
  if (journal_) {
    super_.recover = true;
    if (super_.orphan_file) super_.orphan_present = true;
  } else {
    super_.valid = false;
  }
  return target_.write_super(super_);
}

Result<void> LifeCycle::clean_up_after_mount(bool device_read_only) {
  if (target_.last_orphan() == 0 && target_.orphan_file_empty()) return {};
  if (device_read_only) {
    messages_.push_back("write access unavailable, skipping orphan cleanup");
    return {};
  }
  if (super_.unknown_ro_compat) {
    messages_.push_back("skipping orphan cleanup: unknown ro_compat features");
    return {};
  }
  if (super_.error) {
    // The list is given up (on disk with the next superblock); slots stay as they are.
    if (phase_ == Phase::read_write) target_.drop_list();
    messages_.push_back("errors on the file system, skipping orphan cleanup");
    return {};
  }
  E4_TRY(target_.clean_up());
  return write_super();  // the flags are ours, whatever the clean-up thought
}

/// A file system that is read-only now has nothing to recover. False when slots are occupied: an error is noted, flags stay.
Result<bool> LifeCycle::finish_recovery() {
  if (!super_.recover && !super_.orphan_present) return true;
  if (!target_.orphan_file_empty()) {
    complain(kNotEmpty);
    E4_TRY(write_super());
    return false;
  }
  super_.recover = super_.orphan_present = false;
  E4_TRY(write_super());
  return true;
}

Result<void> LifeCycle::remount_ro(std::uint64_t open_unlinked) {
  if (phase_ != Phase::read_write || frozen_) return make_error(ErrorKind::usage, "not mounted read-write");
  if (open_unlinked != 0) return make_error(ErrorKind::busy, "files without a name are open");
  if (shut_down_) return make_error(ErrorKind::io, "the file system is shut down");
  if (!aborted_) E4_TRY(target_.flush());
  phase_ = Phase::read_only;
  super_.valid = was_valid_;
  if (aborted_) return {};
  if (!journal_) return write_super();
  E4_TRY(finish_recovery());  // occupied slots are noted, and the remount goes through
  return {};
}

Result<void> LifeCycle::remount_rw() {
  if (phase_ != Phase::read_only || frozen_) return make_error(ErrorKind::usage, "not mounted read-only");
  if (shut_down_ || aborted_) return make_error(ErrorKind::io, "the file system is shut down");
  if (device_read_only_) return make_error(ErrorKind::io, "the device is read-only");
  if (super_.unknown_ro_compat) return make_error(ErrorKind::incompatible, "unknown ro_compat features: only a read-only mount");
  if (target_.last_orphan() != 0 || !target_.orphan_file_empty())
    return make_error(ErrorKind::busy, "orphans are unprocessed: unmount and mount again");
  phase_ = Phase::read_write;
  return enter_read_write();
}

Result<void> LifeCycle::clear_for_freeze() {
  if (phase_ != Phase::read_write) return {};
  E4_TRY(target_.flush());
  if (journal_) {
    super_.recover = false;
    if (target_.orphan_file_empty()) super_.orphan_present = false;
  }
  return write_super();
}

Result<void> LifeCycle::freeze() {
  if (phase_ == Phase::unmounted) return make_error(ErrorKind::usage, "not mounted");
  if (frozen_) return make_error(ErrorKind::busy, "already frozen");
  if (shut_down_ || aborted_) return make_error(ErrorKind::io, "the file system is shut down");
  E4_TRY(clear_for_freeze());
  frozen_ = true;
  return {};
}

Result<void> LifeCycle::thaw() {
  if (!frozen_) return make_error(ErrorKind::usage, "not frozen");
  frozen_ = false;
  if (phase_ != Phase::read_write || shut_down_ || aborted_) return {};
  if (journal_) {
    super_.recover = true;
    if (super_.orphan_file) super_.orphan_present = true;
  }
  return write_super();
}

Result<void> LifeCycle::shutdown(Shutdown how) {
  if (phase_ == Phase::unmounted) return make_error(ErrorKind::usage, "not mounted");
  if (shut_down_) return {};
  if (how == Shutdown::freeze && !frozen_ && !aborted_) E4_TRY(clear_for_freeze());
  if (how == Shutdown::log_flush && phase_ == Phase::read_write && !aborted_) E4_TRY(target_.flush());
  shut_down_ = true;
  return {};
}

Result<void> LifeCycle::abort_journal() {
  if (!journal_ || phase_ == Phase::unmounted) return make_error(ErrorKind::usage, "no journal is loaded");
  aborted_ = true;
  return {};
}

Result<void> LifeCycle::unmount() {
  if (phase_ == Phase::unmounted) return make_error(ErrorKind::usage, "not mounted");
  if (frozen_) return make_error(ErrorKind::busy, "frozen: thaw it first");
  if (phase_ == Phase::read_write && !shut_down_ && !aborted_) {
    E4_TRY(target_.flush());
    super_.recover = super_.orphan_present = false;  // even if slots are occupied
    super_.valid = was_valid_;
    E4_TRY(write_super());
  }
  phase_ = Phase::unmounted;
  target_.release();
  return {};
}

}  // namespace e4::space
