// SPDX-License-Identifier: GPL-2.0-only
#include "journal/committer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/assert.h"
#include "journal/descriptor.h"
#include "journal/fs_super.h"
#include "journal/log_writer.h"
#include "journal/write_order.h"
#include "journal/writeback.h"

namespace e4::journal {

namespace {
constexpr std::uint32_t kWriteBytes = 1U << 20;
// Transactions of ours take every second tid: the one before, in place but
// still announced by the superblock, can then never run on into the next one
// while that is half written.
constexpr Tid kTidStep = 2;
}  // namespace

Committer::Committer(RecoveryPlan plan, image::Overlay& overlay, CommitOptions options)
    : plan_(std::move(plan)),
      overlay_(&overlay),
      device_(std::make_unique<CountedDevice>(overlay.base())),
      options_(options),
      super_block_(super_block(overlay.block_bytes())) {}

Result<Committer> Committer::begin(RecoveryPlan plan, image::Overlay& overlay, CommitOptions options) {
  const bool elsewhere = plan.verdict == Verdict::external;
  if (!plan.complete() && !elsewhere && !options.empty_damaged_log) {
    return make_error(ErrorKind::usage,
                      fmt::format("the journal could not be recovered in full ({}); it is left as it is",
                                  to_string(plan.verdict)));
  }
  if (elsewhere && (plan.needs_recovery || !options.in_place)) {
    return make_error(ErrorKind::incompatible,
                      plan.problems.empty() ? "the journal is on another device" : plan.problems[0].detail);
  }
  Committer c(std::move(plan), overlay, options);
  E4_TRY(c.start());
  return c;
}

// Blocks home and the replayed part of the log out of the way. Until the
// journal superblock changes, a cut here only means that the same log is
// replayed again.
Result<void> Committer::start() {
  auto super = FsSuper::read(*device_);
  recover_on_disk_ = super && super->recover();
  if (!plan_.log) return {};
  const bool has_content = plan_.log->super().raw.s_start != 0;
  if (!plan_.complete()) {
    // Consent was given: what could not be replayed is lost with the log, and
    // the superblock says that this file system needs a full check.
    if (auto shown = FsSuper::read(*overlay_)) {
      shown->set_recover(false);
      shown->set_error_state();
      E4_TRY(shown->write(*overlay_));
    }
  }
  if (!has_content) return {};

  // The overlay is the truth. Where it shows neither the log's content nor an
  // edit, an edit came back to what is at home now and was dropped: that
  // content has to outlive the copy.
  const std::vector<image::Overlay::Alias> aliases = overlay_->aliases();
  auto alias = aliases.begin();
  for (const HomeBlock& b : plan_.blocks) {
    while (alias != aliases.end() && alias->block < b.block) ++alias;
    const bool aliased = alias != aliases.end() && alias->block == b.block;
    if (!aliased && !overlay_->is_dirty(b.block)) E4_TRY(overlay_->edit(b.block));
  }
  stats_.blocks_home = E4_TRY(copy_home(plan_, *device_, super_block_));
  E4_TRY(super_home());
  // What is at home reads through again; edits on top of it stay dirty.
  for (const HomeBlock& b : plan_.blocks) forget_cached(b.block);
  E4_TRY(flush_device());
  E4_TRY(find_tid());
  if (plan_.fast_commit_records != 0 && plan_.complete()) {
    // The fast commits belong to the tid behind the log and count until a
    // transaction with their outcome does: keep an empty log of that tid.
    E4_TRY(set_log(plan_.head, plan_.end_tid));
    guard_ = plan_.head;
    return {};
  }
  return set_log(0, *next_tid_);
}

// The superblock's block as the log has it, but with the image's own error
// record and with RECOVER: the log is needed until its superblock says otherwise.
Result<void> Committer::super_home() {
  const std::uint32_t bs = overlay_->block_bytes();
  const auto at = std::ranges::lower_bound(plan_.blocks, super_block_, {}, &HomeBlock::block);
  const bool logged = at != plan_.blocks.end() && at->block == super_block_;
  std::vector<std::byte> disk(bs), block(bs);
  E4_TRY(device_->read(super_block_ * bs, disk));
  if (logged) {
    E4_TRY(plan_.log->read(*device_, at->log_block, block));
    if (at->escaped) unescape(block);
    // Whoever edits the overlay from here on starts from the logged superblock.
    E4_TRY(overlay_->edit(super_block_));
  } else {
    block = disk;
  }
  const std::span<std::byte> bytes = std::span(block).subspan(super_offset(bs));
  const auto before = FsSuper::parse(std::span<const std::byte>(disk).subspan(super_offset(bs)));
  const auto after = FsSuper::parse(bytes);
  if (!after) return {};  // damaged and not in the log: the caller restores it
  FsSuper wanted = recovered_super(before ? &*before : nullptr, *after, plan_.leaves_errors());
  wanted.set_recover(true);
  wanted.seal();
  std::memcpy(bytes.data(), wanted.bytes().data(), wanted.bytes().size());
  recover_on_disk_ = true;
  if (block == disk) return {};
  if (logged) ++stats_.blocks_home;
  return device_->write(super_block_ * bs, block);
}

// The device was written underneath the overlay.
void Committer::forget_cached(Blk block) {
  if (!overlay_->is_dirty(block)) overlay_->forget(block);
}

std::uint64_t Committer::capacity_blocks() const {
  if (!usable_log()) return 0;
  const std::uint64_t ring = plan_.log->super().ring_blocks() - (guard_ ? 1 : 0);
  return LogWriter::most_data_blocks(plan_.log->format(), ring);
}

Committer::Stats Committer::stats() const {
  Stats s = stats_;
  s.bytes_written = device_->bytes_written();
  return s;
}

// What has to go out: everything dirty, but not a superblock that differs
// from the one on disk in RECOVER alone.
std::vector<Blk> Committer::pending() const {
  std::vector<Blk> blocks = overlay_->dirty_blocks();
  const auto it = std::ranges::lower_bound(blocks, super_block_);
  if (it == blocks.end() || *it != super_block_ || !plan_.has_journal) return blocks;
  const std::uint32_t bs = overlay_->block_bytes();
  std::vector<std::byte> ours(bs), disk(bs);
  if (!overlay_->read(super_block_ * bs, ours) || !device_->read(super_block_ * bs, disk)) return blocks;
  const auto level = [&](std::vector<std::byte>& block) {
    const std::span<std::byte> at = std::span(block).subspan(super_offset(bs));
    auto super = FsSuper::parse(at);
    if (!super) return;
    super->set_recover(false);
    super->seal();
    std::memcpy(at.data(), super->bytes().data(), super->bytes().size());
  };
  level(ours);
  level(disk);
  if (ours == disk) blocks.erase(it);
  return blocks;
}

Result<void> Committer::commit() {
  E4_ASSERT(!finished_);
  const std::vector<Blk> blocks = pending();
  if (blocks.empty()) return {};
  const bool high = blocks.back() > 0xFFFFFFFFU;
  if (blocks.size() <= capacity_blocks() && (!high || plan_.log->format().wide)) return commit_in_log(blocks);
  return commit_in_place(blocks);
}

Result<void> Committer::flush_device() { return device_->flush(); }

Result<void> Committer::find_tid() {
  if (!next_tid_) next_tid_ = E4_TRY(safe_next_tid(plan_, *device_));
  return {};
}

// The journal superblock: the only write that decides what the next recovery
// finds. Its fields lie in one 512-byte sector.
Result<void> Committer::set_log(std::uint32_t start, Tid sequence) {
  SuperOnDisk raw = plan_.log->super().raw;
  raw.s_start = start;
  raw.s_sequence = sequence;
  raw.s_errno = 0;  // the superblock of the file system has the error bit by now
  E4_TRY(plan_.log->write_super(*device_, raw));
  forget_cached(plan_.log->physical(0));
  return flush_device();
}

// A block as it has to be on disk while the log may be needed.
Result<void> Committer::load_block(Blk block, std::span<std::byte> out) {
  E4_TRY(overlay_->read(block * out.size(), out));
  if (block != super_block_ || !plan_.log) return {};
  const std::span<std::byte> at = out.subspan(super_offset(overlay_->block_bytes()));
  auto super = FsSuper::parse(at);
  if (!super) return {};
  super->set_recover(true);
  super->seal();
  std::memcpy(at.data(), super->bytes().data(), super->bytes().size());
  return {};
}

// RECOVER on disk before the log has content (the flush before the journal
// superblock's write covers it); the overlay goes on showing it clear.
Result<void> Committer::raise_recover() {
  if (recover_on_disk_) return {};
  if (!overlay_->is_dirty(super_block_)) E4_TRY(overlay_->edit(super_block_));
  FsSuper super = E4_TRY(FsSuper::read(*device_));
  super.set_recover(true);
  E4_TRY(super.write(*device_));
  recover_on_disk_ = true;
  return {};
}

// Where in the ring a transaction of `log_blocks` can go without touching what
// the journal superblock announces now; nothing if it does not fit.
Result<std::optional<std::uint32_t>> Committer::place(std::uint64_t log_blocks) {
  const std::uint32_t first = plan_.log->super().ring_first(), end = plan_.log->super().ring_end();
  const std::uint64_t ring = end - first;
  // The part taken: from .. to-1.
  std::uint32_t from = end, to = end;
  if (guard_) from = *guard_, to = *guard_ + 1;
  if (live_) from = live_->start, to = live_->start + live_->blocks;
  if (log_blocks <= end - to) return to;
  if (log_blocks <= from - first) return first;
  // Not wrapping is only a kindness: e2fsck wraps elsewhere than the kernel
  // when there is a fast-commit area.
  if (guard_) {
    if (log_blocks > ring - 1) return std::nullopt;
    return to == end ? first : to;
  }
  if (log_blocks > ring) return std::nullopt;
  if (live_) {
    E4_TRY(set_log(0, *next_tid_));
    live_.reset();
  }
  return first;
}

Result<void> Committer::commit_in_log(const std::vector<Blk>& blocks) {
  const Log& log = *plan_.log;
  const std::uint64_t needed = LogWriter::blocks_needed(log.format(), blocks.size());
  E4_TRY(find_tid());
  E4_TRY(raise_recover());
  const auto start = E4_TRY(place(needed));
  E4_ASSERT(start.has_value());  // commit() asked capacity_blocks()

  LogWriter writer(*device_, log, *start, *next_tid_);
  std::vector<std::byte> block(overlay_->block_bytes());
  for (const Blk b : blocks) {
    E4_TRY(load_block(b, block));
    E4_TRY(writer.add(b, block));
  }
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  E4_TRY(writer.commit({.sec = static_cast<std::uint64_t>(now.tv_sec), .nsec = static_cast<std::uint32_t>(now.tv_nsec)}));
  E4_TRY(flush_device());
  for (std::uint32_t i = 0; i < needed; ++i) forget_cached(log.physical(log.advance(*start, i)));

  // From here on it counts.
  E4_TRY(set_log(*start, *next_tid_));
  guard_.reset();
  live_ = Live{.start = *start, .blocks = static_cast<std::uint32_t>(needed)};
  if (*start + needed > log.super().ring_end()) live_ = Live{.start = log.super().ring_first(), .blocks = log.super().ring_blocks()};
  next_tid_ = *next_tid_ + kTidStep;

  E4_TRY(write_home(blocks));
  E4_TRY(flush_device());
  for (const Blk b : blocks) {
    if (b != super_block_) overlay_->settled(b);
  }
  stats_.blocks_committed += blocks.size();
  ++stats_.transactions;
  return {};
}

Result<void> Committer::commit_in_place(const std::vector<Blk>& blocks) {
  if (live_) {
    // A replay of our last transaction would put older blocks over these.
    E4_TRY(set_log(0, *next_tid_));
    live_.reset();
  }
  for (const std::vector<Blk>& step : in_place_steps(*overlay_, blocks)) {
    if (step.empty()) continue;
    E4_TRY(write_home(step));
    E4_TRY(flush_device());
  }
  for (const Blk b : blocks) {
    if (b != super_block_ || !plan_.log) overlay_->settled(b);
  }
  if (plan_.log) recover_on_disk_ = recover_on_disk_ || std::ranges::binary_search(blocks, super_block_);
  stats_.blocks_in_place += blocks.size();
  return {};
}

// Ascending, neighbours in one write.
Result<void> Committer::write_home(const std::vector<Blk>& blocks) {
  const std::uint32_t bs = overlay_->block_bytes();
  const std::size_t most = std::max(1U, kWriteBytes / bs);
  std::vector<std::byte> buffer(std::min(most, blocks.size()) * bs);
  for (std::size_t i = 0; i < blocks.size();) {
    std::size_t n = 0;
    while (n < most && i + n < blocks.size() && blocks[i + n] == blocks[i] + n) {
      E4_TRY(load_block(blocks[i + n], std::span(buffer).subspan(n * bs, bs)));
      ++n;
    }
    E4_TRY(device_->write(blocks[i] * bs, std::span(buffer).first(n * bs)));
    i += n;
  }
  return {};
}

Result<void> Committer::finish() {
  E4_TRY(commit());
  finished_ = true;
  if (plan_.log && (live_ || guard_ || plan_.log->super().raw.s_errno != 0)) {
    E4_TRY(find_tid());
    E4_TRY(set_log(0, *next_tid_));
    live_.reset();
    guard_.reset();
  }
  if (!plan_.log) return {};
  // RECOVER last of all.
  auto super = FsSuper::read(*device_);
  if (super && super->recover()) {
    super->set_recover(false);
    E4_TRY(super->write(*device_));
    E4_TRY(flush_device());
  }
  overlay_->settled(super_block_);
  return {};
}

}  // namespace e4::journal
