// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "journal/fast_commit_format.h"
#include "tests/support/log_image.h"

namespace e4::test {

/// Fills the fast-commit area of a LogImage as the kernel does: records that
/// never cross a block, a PAD where one would, each fast commit ended by a TAIL
/// that takes the rest of its block.
class FastCommitBuilder {
 public:
  explicit FastCommitBuilder(LogImage& image);

  FastCommitBuilder& head(Tid tid, std::uint32_t features = 0);
  FastCommitBuilder& add_range(Ino ino, Lblk lblk, std::uint16_t len, Blk physical, bool unwritten = false);
  FastCommitBuilder& del_range(Ino ino, Lblk lblk, std::uint32_t len);
  FastCommitBuilder& creat(Ino parent, Ino ino, const std::string& name) { return name_record(journal::kFcCreat, parent, ino, name); }
  FastCommitBuilder& link(Ino parent, Ino ino, const std::string& name) { return name_record(journal::kFcLink, parent, ino, name); }
  FastCommitBuilder& unlink(Ino parent, Ino ino, const std::string& name) { return name_record(journal::kFcUnlink, parent, ino, name); }
  FastCommitBuilder& inode(Ino ino, std::span<const std::byte> raw);
  FastCommitBuilder& tail(Tid tid, std::uint32_t crc_error = 0);
  FastCommitBuilder& record(std::uint16_t tag, std::span<const std::byte> value);
  /// Writes what was built to the area; blocks behind it stay as they are.
  void write();
  [[nodiscard]] std::uint32_t blocks() const { return static_cast<std::uint32_t>(bytes_.size() / bs_); }

 private:
  FastCommitBuilder& name_record(std::uint16_t tag, Ino parent, Ino ino, const std::string& name);
  void put(std::uint16_t tag, std::uint32_t len, std::span<const std::byte> value);

  LogImage& image_;
  std::size_t bs_;
  std::vector<std::byte> bytes_;
  std::uint32_t crc_ = 0;
};

}  // namespace e4::test
