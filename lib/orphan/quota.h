// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "orphan/mapping.h"
#include "orphan/volume.h"

namespace e4::orphan {

/// Whom an inode's usage is charged to.
struct QuotaOwner {
  std::uint32_t uid = 0, gid = 0, project = 0;
};

/// The hidden quota files (quota and project features), format v2: a tree of
/// depth 4 over 1 KiB blocks leads from an id to its record. Usage is taken
/// back in place; a record without usage or limits leaves the tree, as it does
/// when the kernel lets go of it. A damaged file is left alone and
/// named in problems(): the full check recomputes usage anyway.
class QuotaFiles {
 public:
  /// Loads what the features say exists, but not the files in `spare`.
  static Result<QuotaFiles> open(Volume& volume, const std::vector<Ino>& spare);
  [[nodiscard]] bool any() const { return !files_.empty(); }
  /// Subtracts from the owner's records; never below zero. Ids without a record were never charged.
  Result<void> discharge(const QuotaOwner& owner, std::uint64_t bytes, std::uint64_t inodes);
  [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }

 private:
  enum class Kind : std::uint8_t { user, group, project };
  struct Place {
    Blk block = 0;            // 0: this id has no record
    std::uint32_t offset = 0;
  };
  struct File {
    Kind kind{};
    Ino ino = 0;
    std::uint32_t record_bytes = 0;
    std::vector<Run> runs;
    std::unordered_map<std::uint32_t, Place> places;
  };
  Volume* volume_ = nullptr;
  std::vector<File> files_;
  std::vector<std::string> problems_;
  std::vector<Ino> spare_;

  Result<void> load(Kind kind, Ino ino);
  /// Physical place of a 1 KiB quota block; block 0 if it is not mapped.
  [[nodiscard]] Place place_of(const File& file, std::uint32_t quota_block) const;
  Result<Place> find(const File& file, std::uint32_t id);
  /// True when neither usage nor limits are left.
  Result<bool> subtract(const File& file, Place place, std::uint64_t bytes, std::uint64_t inodes);

  // Taking a record out of the tree; numbers are of 1 KiB quota blocks.
  Result<std::span<std::byte>> edit(const File& file, std::uint32_t quota_block);
  Result<void> remove(File& file, std::uint32_t id, Place record);
  Result<void> release_block(const File& file, std::uint32_t quota_block);
  Result<void> unlink_free_entry(const File& file, std::uint32_t quota_block);
};

}  // namespace e4::orphan
