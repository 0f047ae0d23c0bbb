// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "image/device.h"
#include "base/units.h"

namespace e4::image {

/// A copy-on-write layer over a device, in memory: what is written here stays
/// here until somebody copies it down. With it every tool can apply the
/// journal and release the orphans without writing a byte.
///
/// Invariants
///  1. a block is clean (read through), aliased, or dirty; never two of them.
///  2. aliased: its content is another block of the base device (a log block
///     of the journal), with the jbd2 magic put back when it was escaped. So a
///     replayed log costs 24 bytes a block and not a copy.
///  3. memory is bounded by dirty blocks, aliases, and a fixed clean cache.
/// Not thread-safe.
class Overlay final : public Device {
 public:
  /// `block_bytes`: a power of two, 1 KiB to 64 KiB. A device that is not a
  /// multiple of it keeps its odd tail readable and read-only.
  Overlay(Device& base, std::uint32_t block_bytes);
  ~Overlay() override;

  Result<void> read(std::uint64_t offset, std::span<std::byte> out) override;
  Result<void> write(std::uint64_t offset, std::span<const std::byte> data) override;
  Result<void> flush() override { return {}; }
  Result<std::uint64_t> next_data(std::uint64_t offset) override;
  [[nodiscard]] std::uint64_t size() const override;
  [[nodiscard]] bool writable() const override { return true; }
  [[nodiscard]] const std::string& name() const override;

  [[nodiscard]] std::uint32_t block_bytes() const { return block_bytes_; }
  [[nodiscard]] Blk blocks_count() const;
  Device& base() { return base_; }

  /// The whole block, valid until the next call that reads or edits another
  /// block (dirty blocks: until discard() or take()).
  Result<std::span<const std::byte>> view(Blk block);
  /// The whole block for editing; it is dirty from now on. The span stays
  /// valid until discard(), forget() or take().
  Result<std::span<std::byte>> edit(Blk block);
  /// Like edit() for a block that will be overwritten whole: not read first, zeroed.
  Result<std::span<std::byte>> create(Blk block);
  /// From now on `block` reads as base block `source`; first four bytes
  /// replaced by 0xC03B3998 (big endian) if `unescape`. Replaces earlier
  /// content of `block` in the overlay.
  void alias(Blk block, Blk source, bool unescape);

  [[nodiscard]] bool is_dirty(Blk block) const;
  /// Dirty block numbers, ascending. (Aliases are not dirty.)
  [[nodiscard]] std::vector<Blk> dirty_blocks() const;
  [[nodiscard]] std::size_t dirty_count() const;
  struct Alias {
    Blk block, source;
    bool unescape;
  };
  [[nodiscard]] std::vector<Alias> aliases() const;  // ascending by block
  [[nodiscard]] std::size_t alias_count() const;

  /// Drops a dirty block or alias, and any cached copy: it reads through again.
  /// Call it too for blocks that were written to the base behind the overlay's back.
  void forget(Blk block);
  using Device::discard;
  /// Drops every change and the clean cache.
  void discard();
  /// Marks the dirty block clean after the caller has written its content to the base.
  void settled(Blk block) { forget(block); }

 private:
  struct Impl;
  Device& base_;
  std::uint32_t block_bytes_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace e4::image
