// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "image/device.h"

namespace e4::image {

/// A device whose content lives in memory, in pages that are not all zero:
/// for metadata-only images, which are nearly nothing but holes. Writable;
/// what is written stays in memory. Not thread-safe.
class SparseDevice final : public Device {
 public:
  SparseDevice(std::string name, std::uint64_t bytes);
  ~SparseDevice() override;
  Result<void> read(std::uint64_t offset, std::span<std::byte> out) override;
  Result<void> write(std::uint64_t offset, std::span<const std::byte> data) override;
  Result<void> flush() override { return {}; }
  Result<bool> discard(std::uint64_t offset, std::uint64_t bytes) override;
  Result<std::uint64_t> next_data(std::uint64_t offset) override;
  [[nodiscard]] std::uint64_t size() const override { return bytes_; }
  [[nodiscard]] bool writable() const override { return true; }
  [[nodiscard]] const std::string& name() const override { return name_; }

  void resize(std::uint64_t bytes) { bytes_ = bytes; }
  /// Memory held, bytes.
  [[nodiscard]] std::uint64_t resident_bytes() const;

 private:
  struct Pages;
  std::string name_;
  std::uint64_t bytes_;
  std::unique_ptr<Pages> pages_;
};

/// Opens an image in whatever wrapping people keep images: raw, raw under zstd
/// (".img.zst"), QCOW2 as e2image writes it (".qcow2"), QCOW2 under zstd. Told
/// apart by content. Raw and QCOW2 are read in place; what was under zstd is in
/// memory without its holes, so a metadata image of a terabyte takes no disk
/// space and little memory; long holes cost no time either. Writes to a wrapped
/// image stay in memory; a raw one is opened read-only.
/// Errors: io, corrupt (damaged wrapping), incompatible (encrypted or compressed QCOW2).
Result<std::unique_ptr<Device>> open_container(const std::string& path);

}  // namespace e4::image
