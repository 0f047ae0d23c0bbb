// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "image/filsys.h"
#include "journal/log_writer.h"
#include "journal/recovery.h"
#include "tests/support/vector_device.h"

namespace e4::test {

/// mke2fs with these arguments, size last, into memory. Throws when mke2fs is
/// missing or refuses.
std::vector<std::byte> make_ext_image(const std::vector<std::string>& mke2fs_args, const std::string& size);

struct LogOptions {
  std::uint32_t block_bytes = 1024;
  std::string features = "^metadata_csum,^64bit,^orphan_file";  // of the file system
  std::uint32_t journal_mib = 1;                    // 1024 blocks of 1 KiB
  std::string size = "8M";
  std::uint32_t compat = 0, incompat = 0;           // of the journal
  std::uint32_t fast_commit_blocks = 0;             // with journal incompat fast_commit
  std::uint32_t start = 1;                          // s_start
  Tid sequence = 100;                               // s_sequence
  bool recover = true;                              // RECOVER in the file system
  bool files = false;                               // /file (3 blocks), /dir/inner, /many (a directory of 40 files)
};

/// A file system in memory with a journal that the test fills.
class LogImage {
 public:
  explicit LogImage(const LogOptions& options = {});

  /// A writer at s_start with tid s_sequence.
  journal::LogWriter writer() { return {device, *log, log->super().raw.s_start, log->super().raw.s_sequence}; }
  /// A block filled with `fill`, a number in front of it.
  [[nodiscard]] std::vector<std::byte> block(std::uint8_t fill, std::uint32_t first = 0x11223344) const;
  /// A block far from all metadata, `i` blocks on.
  [[nodiscard]] Blk data_block(std::uint32_t i) const { return first_data + i; }
  [[nodiscard]] std::byte* log_block(std::uint32_t n) { return device.bytes.data() + log->physical(n) * log->block_bytes(); }
  [[nodiscard]] std::byte* home(Blk b) { return device.bytes.data() + b * log->block_bytes(); }

  Result<journal::RecoveryPlan> plan(journal::PlanOptions options = {});
  /// Edits the journal superblock on the image, resealed.
  void change_super(const std::function<void(journal::SuperOnDisk&)>& change);

  VectorDevice device;
  std::unique_ptr<journal::Log> log;
  Blk first_data = 0;
};

/// Sets or clears a bit of s_feature_incompat and reseals the superblock.
void set_recover(std::vector<std::byte>& image, bool on);

}  // namespace e4::test
