// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "image/device.h"

namespace e4::test {

/// A device that loses power at a chosen write or flush. From then on everything
/// fails, and what the medium holds is decided by what was flushed before:
/// writes since the last flush may be there, be gone, or be there in part.
class PowerCut final : public image::Device {
 public:
  enum class Unflushed {
    kept,     // the medium took writes in order
    lost,     // nothing since the last flush arrived
    some,     // each KiB of each arrived or not, by the seed; the write being done stops at a tear
  };
  struct Plan {
    std::uint64_t after_steps = ~std::uint64_t{0};  // so many writes and flushes succeed; the next does not
    Unflushed unflushed = Unflushed::kept;
    std::uint64_t seed = 1;
    /// Where the write being done may stop. The superblock spans two sectors
    /// of 512 bytes; a tear between them breaks its checksum for every tool.
    std::uint32_t tear_bytes = 1024;
  };

  PowerCut(image::Device& medium, Plan plan);

  Result<void> read(std::uint64_t offset, std::span<std::byte> out) override;
  Result<void> write(std::uint64_t offset, std::span<const std::byte> data) override;
  Result<void> flush() override;
  [[nodiscard]] std::uint64_t size() const override { return medium_.size(); }
  [[nodiscard]] bool writable() const override { return true; }
  [[nodiscard]] const std::string& name() const override { return medium_.name(); }

  [[nodiscard]] bool cut() const { return cut_; }
  /// Writes and flushes done.
  [[nodiscard]] std::uint64_t steps() const { return steps_; }

 private:
  struct Write {
    std::uint64_t offset;
    std::vector<std::byte> before, after;
  };
  Result<void> lose_power(std::uint64_t offset, std::span<const std::byte> data);

  image::Device& medium_;
  Plan plan_;
  std::vector<Write> pending_;
  std::uint64_t steps_ = 0;
  bool cut_ = false;
};

}  // namespace e4::test
