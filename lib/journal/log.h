// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "image/device.h"
#include "image/filsys.h"
#include "journal/superblock.h"

namespace e4::journal {

/// Where a file system says its journal is (facts: journal.md section 1).
enum class Place { none, internal, external };
Place place_of(const ext2_super_block& super);
/// What to tell the user about an external journal: UUID and last device number.
std::string external_text(const ext2_super_block& super);

/// The journal file of a file system, mapped: log block n is physical block
/// physical(n). Checked when opened: a regular file without holes, at least
/// 1024 blocks, every block inside the file system, none twice, none on the
/// superblocks, descriptors, bitmaps or inode tables. A value; holds no Device.
class Log {
 public:
  /// Maps the journal of `fs`, reading through `device`. When the journal
  /// inode is damaged, the copy in s_jnl_blocks is tried (from_backup()).
  /// Errors: corrupt (what is wrong, naming inode and block), incompatible
  /// (unknown feature, external journal), io.
  static Result<Log> open(image::Device& device, image::Filsys& fs);

  [[nodiscard]] const Superblock& super() const { return super_; }
  [[nodiscard]] const LogFormat& format() const { return super_.format; }
  [[nodiscard]] std::uint32_t block_bytes() const { return super_.format.block_bytes; }
  [[nodiscard]] std::uint32_t blocks() const { return super_.raw.s_maxlen; }
  [[nodiscard]] bool from_backup() const { return from_backup_; }

  /// Physical block of log block `n`; n < blocks().
  [[nodiscard]] Blk physical(std::uint32_t n) const;
  /// How many log blocks from `n` on (at least 1) lie in a row on the device.
  [[nodiscard]] std::uint32_t contiguous(std::uint32_t n) const;
  /// Whether a physical block belongs to the journal (data or mapping blocks).
  [[nodiscard]] bool holds(Blk physical) const { return overlaps(physical, 1); }
  /// Whether any of `blocks` physical blocks from `from` on does.
  [[nodiscard]] bool overlaps(Blk from, std::uint64_t blocks) const;
  /// Next block of the ring, wrapping as the kernel does.
  [[nodiscard]] std::uint32_t next(std::uint32_t n) const { return advance(n, 1); }
  /// `n` plus `count` <= ring_blocks() blocks along the ring.
  [[nodiscard]] std::uint32_t advance(std::uint32_t n, std::uint32_t count) const;

  /// Reads or writes one log block.
  Result<void> read(image::Device& device, std::uint32_t n, std::span<std::byte> block) const;
  Result<void> write(image::Device& device, std::uint32_t n, std::span<const std::byte> block) const;
  /// Seals `raw`, writes it to log block 0 and takes it over as super().
  Result<void> write_super(image::Device& device, SuperOnDisk raw);

  struct Run {
    std::uint32_t log_block, blocks;
    Blk physical;
  };
  [[nodiscard]] std::span<const Run> runs() const { return runs_; }

 private:
  Superblock super_;
  std::vector<Run> runs_;        // ascending by log block, whole log
  std::vector<Run> by_physical_; // ascending by physical block; mapping blocks too
  bool from_backup_ = false;
};

}  // namespace e4::journal
