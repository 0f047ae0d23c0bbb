// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "alloc/allocator.h"
#include "alloc/lock.h"
#include "base/result.h"

namespace e4::alloc {

/// A group's inodes as its descriptor has them.
struct InodeGroup {
  std::uint32_t free_inodes = 0;
  std::uint32_t used_dirs = 0;
  std::uint32_t itable_unused = 0;  // slots at the table's end never used; 0 without checksummed descriptors
  bool inode_uninit = false;        // INODE_UNINIT: the bitmap block holds garbage
  bool zeroed = false;              // INODE_ZEROED
  friend bool operator==(const InodeGroup&, const InodeGroup&) = default;
};

/// Where inode bitmaps come from; the first call for a group is its first use.
/// read_bitmap() may be called from several threads.
class InodeSource {
 public:
  virtual ~InodeSource() = default;
  virtual InodeGroup group(GroupNo group) = 0;
  virtual Result<void> read_bitmap(GroupNo group, std::span<std::uint64_t> words) = 0;
  /// Without a journal: was this free inode deleted moments ago (kernel: recently_deleted)?
  virtual bool recently_deleted(Ino) { return false; }
};

struct InodeRequest {
  Ino parent = 2;
  bool directory = false;
  bool top_level = false;                     // parent is the root or has the TOPDIR flag: directories are spread
  std::optional<std::uint32_t> name_hash;     // half-MD4 of the name, for spreading; without it the start is random
  std::optional<GroupNo> parent_last_group;   // i_last_alloc_group of the parent, if it has one
  Ino goal = 0;                               // exact place to start, 0: choose
  std::uint32_t cpu = 0;
};

struct InodeOutcome {
  Ino ino = 0;
  GroupNo group = 0;
  GroupNo chosen_group = 0;                   // what the parent remembers as i_last_alloc_group
  std::uint32_t zero_first = 0, zero_count = 0;  // slots of the table that became readable and have to be zeroed
};

/// ext4's inode allocator (ialloc.c, Linux 6.18): Orlov for directories, near
/// the parent for the rest. Thread-safe. The totals of inodes and directories
/// lag behind by up to 32 a CPU, as the kernel's do, because the placement of
/// directories depends on it (the total of clusters is exact here).
class InodeAllocator {
 public:
  /// `blocks` gives the free clusters of groups and learns that a group's BLOCK_UNINIT is gone; both outlive this.
  /// `first_ino`: s_first_ino. `has_journal` false: recently deleted inodes are passed over.
  InodeAllocator(Allocator& blocks, InodeSource& source, std::uint32_t first_ino);
  ~InodeAllocator();

  /// Error no_space: no free inode; corrupt: a bitmap that cannot be used (the group is left alone from then on).
  Result<InodeOutcome> allocate(const InodeRequest& request);
  /// Error corrupt: out of range, or free already (the group is left alone from then on).
  Result<void> free(Ino ino, bool directory, std::uint32_t cpu = 0);
  /// Marks a given inode used (fast-commit replay): already used is fine, used_dirs is not touched.
  Result<void> mark_used(Ino ino);

  /// The group a request would start in (kernel: find_group_orlov, find_group_other); nothing: no free inode anywhere.
  [[nodiscard]] std::optional<GroupNo> choose_group(const InodeRequest& request) const;
  [[nodiscard]] InodeGroup group(GroupNo group) const;
  bool copy_bitmap(GroupNo group, std::span<std::uint64_t> words) const;
  [[nodiscard]] bool group_dirty(GroupNo group) const;
  [[nodiscard]] std::uint64_t free_inodes() const;  // exact
  [[nodiscard]] std::uint64_t memory_bytes() const;
  /// Counters and loaded bitmaps agree? Quiescent.
  [[nodiscard]] Result<void> verify() const;

 private:
  struct Record;
  struct Totals;
  struct Unit {
    std::uint64_t free_inodes = 0, free_clusters = 0, dirs = 0;
  };
  [[nodiscard]] Unit unit(GroupNo index) const;
  [[nodiscard]] std::optional<GroupNo> first_free_in_unit(GroupNo index) const;
  [[nodiscard]] std::optional<GroupNo> orlov(const InodeRequest& request, bool top_level) const;
  [[nodiscard]] std::optional<GroupNo> fallback(GroupNo parent_group) const;
  [[nodiscard]] std::optional<GroupNo> near_parent(const InodeRequest& request) const;
  Result<void> load(GroupNo group);
  bool take_in(GroupNo group, std::uint32_t start, const InodeRequest& request, InodeOutcome& out);
  void account(GroupNo group, std::uint32_t bit, InodeOutcome* out);
  [[nodiscard]] GroupNo parent_group(const InodeRequest& request) const;
  GroupSpin& lock(GroupNo group) const;

  Allocator& blocks_;
  InodeSource& source_;
  const std::uint32_t per_group_, first_ino_, flex_;
  const GroupNo groups_, units_;
  const bool checksummed_;
  std::unique_ptr<Record[]> records_;
  struct alignas(64) Lock;
  std::unique_ptr<Lock[]> locks_;
  std::unique_ptr<Totals> totals_;
  mutable std::atomic<std::uint64_t> random_{0x9E3779B97F4A7C15ULL};  // starts for nameless directories
};

}  // namespace e4::alloc
