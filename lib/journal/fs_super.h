// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "base/units.h"
#include "image/device.h"
#include "journal/log.h"

namespace e4::journal {

inline constexpr std::uint64_t kFsSuperOffset = 1024;
/// The block the primary superblock lies in, and where in it.
constexpr Blk super_block(std::uint32_t block_bytes) { return kFsSuperOffset / block_bytes; }
constexpr std::uint32_t super_offset(std::uint32_t block_bytes) {
  return static_cast<std::uint32_t>(kFsSuperOffset % block_bytes);
}

/// The 1024 bytes of the file system's superblock as they are on disk, for the
/// few fields recovery has to keep right. libext2fs's copy will not do: it is
/// stale the moment a logged superblock goes home.
class FsSuper {
 public:
  static Result<FsSuper> read(image::Device& device);
  /// Error (corrupt) unless the ext magic is there.
  static Result<FsSuper> parse(std::span<const std::byte> bytes);
  /// Recomputes the checksum (metadata_csum) and writes the 1024 bytes.
  Result<void> write(image::Device& device);

  [[nodiscard]] std::uint32_t log_block_size() const;
  [[nodiscard]] Blk blocks_count() const;
  [[nodiscard]] bool recover() const;  // incompat RECOVER
  void set_recover(bool on);
  void set_error_state();              // EXT2_ERROR_FS in s_state
  /// What the image knew about errors before the log's copy of the superblock
  /// came over it: error bit kept, older first error, newer last error.
  void merge_errors(const FsSuper& before);
  void seal();                         // checksum only

  [[nodiscard]] std::span<const std::byte> bytes() const { return raw_; }
  bool operator==(const FsSuper&) const = default;

 private:
  std::array<std::byte, 1024> raw_{};
};

/// What the superblock has to become once a log is replayed: `after` (the
/// logged copy, or the one on disk) with the error record of `before` (on
/// disk; none if unreadable) and the error bit if `damaged`.
FsSuper recovered_super(const FsSuper* before, FsSuper after, bool damaged);

/// The superblock as log block `n` has it.
Result<FsSuper> logged_super(image::Device& device, const Log& log, std::uint32_t n);

}  // namespace e4::journal
