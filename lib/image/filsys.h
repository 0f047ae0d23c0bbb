// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <ext2fs/ext2_fs.h>
#include <ext2fs/ext2fs.h>

#include <memory>

#include "base/result.h"
#include "image/device.h"

namespace e4::image {

struct FilsysOptions {
  bool writable = false;
  bool ignore_checksums = false;  // EXT2_FLAG_IGNORE_CSUM_ERRORS: look at a damaged image
  bool any_features = false;      // EXT2_FLAG_FORCE: open in spite of unknown features (never to write)
  Blk superblock = 0;             // backup superblock to use; 0: the primary
  std::uint32_t block_bytes = 0;  // needed with superblock
};

/// RAII over libext2fs's ext2_filsys on top of a Device. libext2fs checks what
/// it opens only in part: geometry is validated here before anybody loops over
/// groups (see check_geometry). One thread per Filsys.
class Filsys {
 public:
  static Result<Filsys> open(Device& device, FilsysOptions options = {});
  /// A new, empty file system of the geometry `wishes` asks for (as
  /// ext2fs_initialize takes it): superblock, descriptors and bitmaps in
  /// memory, nothing written before flush().
  static Result<Filsys> create(Device& device, const ext2_super_block& wishes);
  Filsys(Filsys&&) noexcept;
  Filsys& operator=(Filsys&&) noexcept;
  ~Filsys();  // frees; never writes: what is not flush()ed is dropped

  [[nodiscard]] ext2_filsys raw() const { return fs_; }
  [[nodiscard]] ext2_super_block& super() const { return *fs_->super; }
  [[nodiscard]] std::uint32_t block_bytes() const { return fs_->blocksize; }
  Device& device() const { return *device_; }

  /// Reads block and inode bitmaps (libext2fs's in-memory ones).
  Result<void> read_bitmaps();
  /// Writes changed bitmaps, descriptors and superblock (primary copy only
  /// unless `backups`) to the Device and flushes it.
  Result<void> flush(bool backups = false);

  /// crc32c seed of all metadata checksums: s_checksum_seed or crc32c(~0, uuid).
  [[nodiscard]] std::uint32_t csum_seed() const { return fs_->csum_seed; }

 private:
  Filsys() = default;
  ext2_filsys fs_ = nullptr;
  Device* device_ = nullptr;
};

/// Superblock sanity beyond what libext2fs checks: counts, sizes and offsets
/// consistent with each other and with the device (facts: fsck-rules section
/// 4). Returns the first violation as an Error of kind corrupt.
Result<void> check_geometry(const ext2_super_block& super, std::uint64_t device_bytes);

/// An Error from a libext2fs errcode_t, with its text loaded.
Error ext2_error(long code, std::string text, Where where = Where::here());
#define E4_EXT2(call, text)                                                        \
  do {                                                                             \
    if (const long e4_ext2_code_ = (call); e4_ext2_code_ != 0)                     \
      return ::e4::image::ext2_error(e4_ext2_code_, (text));                       \
  } while (0)

}  // namespace e4::image
