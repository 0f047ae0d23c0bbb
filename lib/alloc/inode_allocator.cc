// SPDX-License-Identifier: GPL-2.0-only
#include "alloc/inode_allocator.h"

#include <algorithm>

#include "alloc/bits.h"
#include "alloc/inode_records.h"

namespace e4::alloc {

InodeAllocator::InodeAllocator(Allocator& blocks, InodeSource& source, std::uint32_t first_ino)
    : blocks_(blocks),
      source_(source),
      per_group_(blocks.geometry().inodes_per_group),
      first_ino_(first_ino),
      flex_(blocks.geometry().flex_groups()),
      groups_(blocks.geometry().groups()),
      units_(groups_ / flex_ + (groups_ % flex_ != 0)),
      checksummed_(blocks.geometry().checksummed_descriptors),
      records_(std::make_unique<Record[]>(groups_)),
      locks_(std::make_unique<Lock[]>(kInodeLocks)),
      totals_(std::make_unique<Totals>(blocks.mount().possible_cpus)) {
  std::int64_t free = 0, dirs = 0;
  for (GroupNo g = 0; g < groups_; ++g) {
    const InodeGroup d = source.group(g);
    Record& r = records_[g];
    r.free = std::min(d.free_inodes, per_group_);
    r.dirs = d.used_dirs;
    r.unused = checksummed_ ? std::min(d.itable_unused, per_group_) : 0;
    r.uninit = checksummed_ && d.inode_uninit;
    r.zeroed = d.zeroed;
    free += r.free;
    dirs += r.dirs;
  }
  totals_->free.set(free);
  totals_->dirs.set(dirs);
}

InodeAllocator::~InodeAllocator() = default;

GroupSpin& InodeAllocator::lock(GroupNo group) const { return locks_[group % kInodeLocks].spin; }

GroupNo InodeAllocator::parent_group(const InodeRequest& request) const {
  return std::min((std::max(request.parent, 1U) - 1) / per_group_, groups_ - 1);
}

/// Reads a group's bitmap, outside its lock; the first to come back installs it.
Result<void> InodeAllocator::load(GroupNo group) {
  Record& r = records_[group];
  {
    Held<GroupSpin> held(lock(group));
    if (r.bits) return {};
    if (r.corrupt) return make_error(ErrorKind::corrupt, "group " + std::to_string(group) + ": inode bitmap is not usable");
  }
  const std::size_t words = (per_group_ + 63) / 64;
  auto bits_read = std::make_unique<bits::Word[]>(words);
  Result<void> read;
  if (!r.uninit) {
    // The source fills a whole block's worth; only the group's inodes matter here.
    std::vector<bits::Word> block(blocks_.geometry().bitmap_bits() / 64);
    read = source_.read_bitmap(group, block);
    std::copy_n(block.begin(), std::min(words, block.size()), bits_read.get());
  }
  Held<GroupSpin> held(lock(group));
  if (!read) {
    r.corrupt = true;
    return Error(std::move(read).error()).context("group " + std::to_string(group) + ", inode bitmap");
  }
  if (!r.bits) r.bits = std::move(bits_read);
  return {};
}

/// What changes beside the bit; the group's lock is held.
void InodeAllocator::account(GroupNo group, std::uint32_t bit, InodeOutcome* out) {
  Record& r = records_[group];
  r.dirty = true;
  r.free = r.free - 1;
  if (!checksummed_) return;
  std::uint32_t seen = per_group_ - r.unused;
  if (r.uninit) {
    r.uninit = false;
    seen = 0;
  }
  if (bit + 1 > seen) {
    if (out && !r.zeroed) {
      out->zero_first = seen;
      out->zero_count = bit + 1 - seen;
    }
    r.unused = per_group_ - (bit + 1);
  }
}

/// The first free inode of a group from `start` on, in the kernel's preference.
bool InodeAllocator::take_in(GroupNo group, std::uint32_t start, const InodeRequest& request, InodeOutcome& out) {
  Record& r = records_[group];
  if (r.free == 0 || r.corrupt || !load(group)) return false;
  const bool avoid_recent = !blocks_.mount().has_journal;
  {
    Held<GroupSpin> held(lock(group));
    std::uint32_t bit = bits::next_zero(r.bits.get(), start, per_group_), recent = per_group_;
    while (avoid_recent && bit < per_group_ && source_.recently_deleted(group * per_group_ + bit + 1)) {
      recent = bit;
      bit = bits::next_zero(r.bits.get(), bit + 1, per_group_);
    }
    if (bit >= per_group_) bit = recent;
    if (bit >= per_group_) return false;
    if (group == 0 && bit + 1 < first_ino_) {
      // A reserved inode that is free: the bitmap lies.
      r.corrupt = true;
      return false;
    }
    bits::set(r.bits.get(), bit);
    account(group, bit, &out);
    if (request.directory) r.dirs = r.dirs + 1;
    out.ino = group * per_group_ + bit + 1;
    out.group = group;
  }
  CpuTotals& cpu = totals_->cpu(request.cpu);
  totals_->free.add(cpu.free, -1);
  if (request.directory) totals_->dirs.add(cpu.dirs, 1);
  blocks_.note_inode_allocated(group);
  return true;
}

Result<InodeOutcome> InodeAllocator::allocate(const InodeRequest& request) {
  InodeOutcome out;
  GroupNo group = 0;
  std::uint32_t start = 0;
  if (request.goal != 0 && request.goal <= std::uint64_t{per_group_} * groups_) {
    group = (request.goal - 1) / per_group_;
    start = (request.goal - 1) % per_group_;
  } else {
    const auto chosen = choose_group(request);
    if (!chosen) return make_error(ErrorKind::no_space, "no free inode");
    group = *chosen;
  }
  out.chosen_group = group;
  for (GroupNo k = 0; k < groups_; ++k, start = 0) {
    if (take_in(group, start, request, out)) return out;
    if (++group == groups_) group = 0;
  }
  return make_error(ErrorKind::no_space, "no free inode");
}

Result<void> InodeAllocator::free(Ino ino, bool directory, std::uint32_t cpu_no) {
  if (ino < first_ino_ || ino > std::uint64_t{per_group_} * groups_)
    return make_error(ErrorKind::corrupt, "free of a reserved or impossible inode").at_inode(ino);
  const GroupNo group = (ino - 1) / per_group_;
  const std::uint32_t bit = (ino - 1) % per_group_;
  E4_TRY(load(group));
  {
    Record& r = records_[group];
    Held<GroupSpin> held(lock(group));
    if (!bits::test(r.bits.get(), bit)) {
      r.corrupt = true;
      return make_error(ErrorKind::corrupt, "free of an inode that is free already").at_inode(ino);
    }
    bits::clear(r.bits.get(), bit);
    r.free = r.free + 1;
    if (directory && r.dirs > 0) r.dirs = r.dirs - 1;
    r.dirty = true;
  }
  CpuTotals& cpu = totals_->cpu(cpu_no);
  totals_->free.add(cpu.free, 1);
  if (directory) totals_->dirs.add(cpu.dirs, -1);
  return {};
}

Result<void> InodeAllocator::mark_used(Ino ino) {
  if (ino < first_ino_ || ino > std::uint64_t{per_group_} * groups_)
    return make_error(ErrorKind::corrupt, "a reserved or impossible inode").at_inode(ino);
  const GroupNo group = (ino - 1) / per_group_;
  const std::uint32_t bit = (ino - 1) % per_group_;
  E4_TRY(load(group));
  {
    Record& r = records_[group];
    Held<GroupSpin> held(lock(group));
    if (bits::test(r.bits.get(), bit)) return {};
    bits::set(r.bits.get(), bit);
    account(group, bit, nullptr);
  }
  totals_->free.add(totals_->cpu(0).free, -1);
  blocks_.note_inode_allocated(group);
  return {};
}

InodeGroup InodeAllocator::group(GroupNo group) const {
  Held<GroupSpin> held(lock(group));
  const Record& r = records_[group];
  return {r.free, r.dirs, r.unused, r.uninit, r.zeroed};
}

bool InodeAllocator::copy_bitmap(GroupNo group, std::span<std::uint64_t> words) const {
  Held<GroupSpin> held(lock(group));
  const Record& r = records_[group];
  if (!r.bits) return false;
  std::copy_n(r.bits.get(), std::min<std::size_t>(words.size(), (per_group_ + 63) / 64), words.begin());
  return true;
}

bool InodeAllocator::group_dirty(GroupNo group) const {
  Held<GroupSpin> held(lock(group));
  return records_[group].dirty;
}

std::uint64_t InodeAllocator::free_inodes() const {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, totals_->exact(totals_->free, &CpuTotals::free)));
}

std::uint64_t InodeAllocator::memory_bytes() const { return groups_ * sizeof(Record) + kInodeLocks * sizeof(Lock); }

Result<void> InodeAllocator::verify() const {
  std::uint64_t free = 0;
  for (GroupNo g = 0; g < groups_; ++g) {
    const Record& r = records_[g];
    free += r.free;
    if (!r.bits || r.corrupt) continue;
    const std::uint32_t zeros = bits::count_zero(r.bits.get(), 0, per_group_);
    if (zeros != r.free)
      return make_error(ErrorKind::corrupt, "verify: group " + std::to_string(g) + ": " + std::to_string(zeros) +
                                                " inodes free in the bitmap, " + std::to_string(r.free) + " counted");
    if (!r.uninit && bits::next_one(r.bits.get(), per_group_ - r.unused, per_group_) != per_group_)
      return make_error(ErrorKind::corrupt, "verify: group " + std::to_string(g) + ": an inode in use among the unused");
  }
  if (free != free_inodes())
    return make_error(ErrorKind::corrupt, "verify: " + std::to_string(free) + " inodes free in groups, " +
                                              std::to_string(free_inodes()) + " in total");
  return {};
}

}  // namespace e4::alloc
