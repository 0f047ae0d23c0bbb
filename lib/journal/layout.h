// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"
#include "image/filsys.h"

namespace e4::journal {

enum class MetaKind { super, descriptors, block_bitmap, inode_bitmap, inode_table };

/// Where the fixed metadata of a file system lies: superblock copies,
/// descriptors, bitmaps, inode tables.
class Layout {
 public:
  explicit Layout(image::Filsys& fs);
  /// What block `b` is, if it is fixed metadata.
  [[nodiscard]] std::optional<MetaKind> find(Blk b) const;
  /// First fixed metadata block in from .. from+blocks-1.
  [[nodiscard]] std::optional<Blk> first_in(Blk from, std::uint64_t blocks) const;

 private:
  struct Range {
    Blk from;
    std::uint64_t blocks;
    MetaKind kind;
  };
  std::vector<Range> ranges_;  // ascending
};

}  // namespace e4::journal
