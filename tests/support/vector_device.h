// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "image/device.h"

namespace e4::test {

/// An image in a vector that the test can look at and damage.
class VectorDevice final : public image::Device {
 public:
  explicit VectorDevice(std::vector<std::byte> content) : bytes(std::move(content)) {}

  Result<void> read(std::uint64_t offset, std::span<std::byte> out) override {
    if (out.size() > bytes.size() || offset > bytes.size() - out.size())
      return make_error(ErrorKind::corrupt, "read past the end of the image");
    ++reads;
    std::memcpy(out.data(), bytes.data() + offset, out.size());
    return {};
  }
  Result<void> write(std::uint64_t offset, std::span<const std::byte> data) override {
    if (data.size() > bytes.size() || offset > bytes.size() - data.size())
      return make_error(ErrorKind::corrupt, "write past the end of the image");
    ++writes;
    std::memcpy(bytes.data() + offset, data.data(), data.size());
    return {};
  }
  Result<void> flush() override { return {}; }
  [[nodiscard]] std::uint64_t size() const override { return bytes.size(); }
  [[nodiscard]] bool writable() const override { return true; }
  [[nodiscard]] const std::string& name() const override { return name_; }

  std::vector<std::byte> bytes;
  std::uint64_t reads = 0, writes = 0;

 private:
  std::string name_ = "image in memory";
};

}  // namespace e4::test
