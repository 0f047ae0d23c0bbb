// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "orphan/format.h"
#include "orphan/volume.h"

namespace e4::orphan {

/// What can be wrong with the orphan file as a whole; a set of bits.
enum FileFault : std::uint32_t {
  kFileNoInode = 1U << 0,    // s_orphan_file_inum is 0 or out of range
  kFileReserved = 1U << 1,   // it names a reserved or special inode
  kFileFree = 1U << 2,       // the inode is not allocated
  kFileNotRegular = 1U << 3,
  kFileLinks = 1U << 4,      // links 0: the kernel will not load it
  kFileCsum = 1U << 5,       // inode checksum wrong
  kFileFlags = 1U << 6,      // inline data, or extents without the feature
  kFileSize = 1U << 7,       // size 0 or no multiple of the block size
  kFileHole = 1U << 8,       // a logical block is not mapped, or not initialised
  kFileMapping = 1U << 9,    // the mapping cannot be read
  kFileTooBig = 1U << 10,    // above min(512 blocks, 8 MiB): kernels refuse the mount
  kFileMagic = 1U << 11,     // a block without magic
  kFileBlockCsum = 1U << 12, // a block whose checksum is wrong
  kFileNamed = 1U << 13,     // a directory entry names it (only when names were looked for)
  kFileNoJournal = 1U << 14, // orphan_file without has_journal
  kFileNoFeature = 1U << 15, // orphan_present without orphan_file
  kFileBlockOwner = 1U << 16,// a block of it is metadata or marked free
};
std::vector<std::string_view> file_fault_names(std::uint32_t faults);

struct BlockVerdict {
  Lblk logical = 0;
  Blk physical = 0;
  bool magic_ok = false;
  bool checksum_ok = false;  // true without metadata_csum
  std::uint32_t stored_checksum = 0, computed_checksum = 0;
  std::uint32_t used_slots = 0;
};

struct FileReport {
  bool feature = false, present = false;
  Ino ino = 0;
  std::uint32_t generation = 0;
  std::uint64_t size_bytes = 0;
  std::uint32_t faults = 0;  // bits of FileFault
  std::vector<BlockVerdict> blocks;
  std::uint64_t used_slots = 0;  // in blocks with magic

  [[nodiscard]] bool usable() const { return feature && !blocks.empty(); }
  [[nodiscard]] std::uint32_t blocks_with_magic() const;
  /// It has proved that it is an orphan file: regular, allocated, not special,
  /// dense, and *every* block has the magic. Only then may it be written.
  [[nodiscard]] bool proved() const;
  /// Most of its blocks have the magic and nothing else speaks against it: its other blocks may be rewritten empty.
  [[nodiscard]] bool repairable() const;
};

/// Looks at the file that s_orphan_file_inum names, whatever orphan_present
/// says. Damage is in the report; an Error means the image could not be read.
/// At most 4096 blocks are looked at (kFileTooBig from the cap on).
Result<FileReport> inspect_orphan_file(Volume& volume);
/// The inode the feature should name: regular, allocated, not reserved, every
/// block with magic and right checksum. 0 when there is none.
Result<Ino> find_orphan_file(Volume& volume);

// Edits of the overlay. Each seals what it touched (block checksums, bitmaps,
// descriptors, superblock), so that the overlay holds a consistent image after it.

/// Makes an empty file of `blocks` (already clamped) and points the superblock at it; sets the feature.
/// An old file is not touched: drop it first. no_space when it does not fit.
Result<Ino> create_orphan_file(Volume& volume, std::uint32_t blocks, std::uint64_t now);
/// New size, pending entries kept: they are copied into a new file, the superblock is switched, the old file freed.
/// usage when the entries do not fit; corrupt when the old file has not proved itself.
Result<void> resize_orphan_file(Volume& volume, std::uint32_t blocks, std::uint64_t now);
/// Frees the file and clears both feature bits. busy when entries are left;
/// corrupt when it has not proved itself (its inode is then not touched, use forget_orphan_file).
Result<void> drop_orphan_file(Volume& volume, std::uint64_t now);
/// Clears both bits and the inode number, and touches no inode.
Result<void> forget_orphan_file(Volume& volume);
/// Rewrites magic and checksum of each block whose tail is wrong; a block without magic is emptied. Needs
/// repairable(). Returns how many blocks changed.
Result<std::uint32_t> rewrite_orphan_file(Volume& volume, const FileReport& report);

/// Puts `ino` into the first free slot (no_space when full) and sets orphan_present.
struct SlotPlace {
  Lblk block;
  std::uint32_t slot;
};
Result<SlotPlace> claim_slot(Volume& volume, const FileReport& report, Ino ino);
/// Clears one slot and reseals the block. Leaves orphan_present alone.
Result<void> clear_slot(Volume& volume, const FileReport& report, SlotPlace place);

}  // namespace e4::orphan
