// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <string>

#include "image/device.h"

namespace e4::journal {

/// Passes everything through and counts the bytes written.
class CountedDevice final : public image::Device {
 public:
  explicit CountedDevice(image::Device& base) : base_(base) {}
  Result<void> read(std::uint64_t offset, std::span<std::byte> out) override { return base_.read(offset, out); }
  Result<void> write(std::uint64_t offset, std::span<const std::byte> data) override {
    bytes_written_ += data.size();
    return base_.write(offset, data);
  }
  Result<void> flush() override { return base_.flush(); }
  [[nodiscard]] std::uint64_t size() const override { return base_.size(); }
  [[nodiscard]] bool writable() const override { return base_.writable(); }
  [[nodiscard]] const std::string& name() const override { return base_.name(); }
  [[nodiscard]] std::uint64_t bytes_written() const { return bytes_written_; }

 private:
  image::Device& base_;
  std::uint64_t bytes_written_ = 0;
};

}  // namespace e4::journal
