// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "image/filsys.h"
#include "journal/file_map.h"
#include "journal/layout.h"
#include "journal/log.h"

namespace e4::journal {

/// A set of blocks as ranges; normalize() before set arithmetic.
class BlockSet {
 public:
  struct Range {
    Blk from = 0;
    std::uint64_t blocks = 0;
  };
  void add(Blk from, std::uint64_t blocks = 1) { ranges_.push_back({from, blocks}); }
  void add(const FileMap& map);
  /// Sorted, disjoint, not touching.
  void normalize();
  /// What is in this set and not in `other`; both normalized.
  [[nodiscard]] std::vector<Range> minus(const BlockSet& other) const;
  [[nodiscard]] const std::vector<Range>& ranges() const { return ranges_; }

 private:
  std::vector<Range> ranges_;
};

/// The list of extents of one file while records change it.
class ExtentList {
 public:
  ExtentList() = default;
  explicit ExtentList(std::vector<MappedExtent> extents) : list_(std::move(extents)) {}
  /// Maps e.blocks file blocks from e.lblk, whatever was mapped there before.
  void map(const MappedExtent& e);
  void unmap(Lblk from, std::uint64_t blocks);
  [[nodiscard]] const std::vector<MappedExtent>& list() const { return list_; }

 private:
  std::vector<MappedExtent> list_;  // ascending, neighbours merged
};

/// The block bitmap during replay: what was in use before, what the records
/// name, what files hold in the end.
class FcSpace {
 public:
  FcSpace(image::Filsys& fs, const Log& log) : fs_(fs), log_(log), layout_(fs) {}

  /// Whether file data may lie there: inside the file system, on no fixed
  /// metadata, not in the journal.
  [[nodiscard]] bool may_hold_data(Blk from, std::uint64_t blocks) const;
  /// Marks blocks named by an ADD_RANGE, so that nothing else takes them.
  void reserve(Blk from, std::uint64_t blocks);
  /// A block (a whole cluster is taken) for a tree or directory, near `goal`.
  Result<Blk> allocate(Blk goal);
  /// Blocks a file held when the replay first met it.
  void held(const FileMap& map) { before_.add(map); }
  /// Bits of everything held, reserved or allocated, after the replay: set for
  /// `after`, clear for the rest. Group and superblock counts follow.
  void settle(BlockSet after);

 private:
  void mark(Blk from, std::uint64_t blocks, BlockSet* newly);

  image::Filsys& fs_;
  const Log& log_;
  Layout layout_;
  BlockSet before_;    // in use because of touched files, or allocated by us
  BlockSet reserved_;  // was free, set by reserve()
};

}  // namespace e4::journal
