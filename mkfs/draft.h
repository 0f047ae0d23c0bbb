// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "image/device.h"

namespace e4::mkfs {

/// A file system being made: a device that exists only in memory until
/// commit() copies it to the target.
///
/// Invariants
///  1. what was never written reads as zeros: nothing is ever read from the
///     target, so whatever lies there cannot matter.
///  2. a block is *kept* (it has a non-zero byte), *zeroed* (it was written
///     with zeros, which the target must show), or *untouched*; one of them.
///  3. equal blocks written whole are kept once, so the backup descriptors and
///     empty bitmaps of a huge file system cost their first copy only.
/// Not thread-safe.
class Draft final : public image::Device {
 public:
  /// `block_bytes`: the file system's, a power of two from 1 KiB on.
  Draft(std::string name, std::uint64_t bytes, std::uint32_t block_bytes);

  Result<void> read(std::uint64_t offset, std::span<std::byte> out) override;
  Result<void> write(std::uint64_t offset, std::span<const std::byte> data) override;
  Result<void> flush() override { return {}; }
  /// Marks whole blocks as to be zeroed, without passing the zeros.
  Result<void> zero(Blk first, std::uint64_t blocks);
  [[nodiscard]] std::uint64_t size() const override { return bytes_; }
  [[nodiscard]] bool writable() const override { return true; }
  [[nodiscard]] const std::string& name() const override { return name_; }

  [[nodiscard]] std::uint64_t kept_blocks() const { return kept_.size(); }
  [[nodiscard]] std::uint64_t zeroed_blocks() const;
  [[nodiscard]] std::uint64_t distinct_blocks() const;

  struct Commit {
    bool discard = true;       // drop the target's content first
    bool reads_zero = false;   // the target is known to read as zeros: zeroed blocks need no write, and no
                               // old superblock need be destroyed
    std::stop_token stop = {};
  };
  /// Copies the draft to `target`: the old superblock is destroyed first and
  /// the new one written last, after a flush, so that a target cut off in
  /// between holds no file system rather than half of one. Returns the bytes
  /// written. Errors: io; cancelled.
  Result<std::uint64_t> commit(image::Device& target, const Commit& how) const;

 private:
  using Content = std::shared_ptr<const std::vector<std::byte>>;
  void keep(Blk block, std::span<const std::byte> data);
  void mark_zeroed(Blk first, Blk end);
  void mark_kept(Blk block);

  const std::string name_;
  const std::uint64_t bytes_;
  const std::uint32_t block_bytes_;
  std::unordered_map<Blk, Content> kept_;
  std::unordered_multimap<std::uint32_t, std::weak_ptr<const std::vector<std::byte>>> by_sum_;
  std::map<Blk, Blk> zeroed_;  // first block to one behind the last; disjoint, not touching
};

}  // namespace e4::mkfs
