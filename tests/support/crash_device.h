// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "image/device.h"

namespace e4::testing_support {

using Bytes = std::vector<std::byte>;
/// A whole file in memory.
std::shared_ptr<const Bytes> load_bytes(const std::string& path);

/// An image in memory that many runs share: what is written is kept apart in
/// pages, so a copy costs only what differs. Knows what a power cut loses:
/// writes since the last flush may or may not have reached the medium.
class CrashDevice final : public image::Device {
 public:
  explicit CrashDevice(std::shared_ptr<const Bytes> base);

  Result<void> read(std::uint64_t offset, std::span<std::byte> out) override;
  Result<void> write(std::uint64_t offset, std::span<const std::byte> data) override;
  Result<void> flush() override;
  [[nodiscard]] std::uint64_t size() const override { return base_->size(); }
  [[nodiscard]] bool writable() const override { return true; }
  [[nodiscard]] const std::string& name() const override { return name_; }

  /// Writes done so far, each piece of at most one page.
  [[nodiscard]] std::uint64_t writes() const { return writes_; }
  /// The power goes after this many more pieces: they arrive, the rest and
  /// every flush after it fails.
  void cut_after(std::uint64_t writes) { left_ = writes; }
  [[nodiscard]] bool cut() const { return cut_; }

  /// The medium after the cut. Without `rng` everything written arrived; with
  /// it, each piece since the last flush arrived or not, at random.
  [[nodiscard]] std::unique_ptr<CrashDevice> after_cut(Random* rng = nullptr) const;
  /// A copy of what a reader sees now.
  [[nodiscard]] std::unique_ptr<CrashDevice> clone() const { return after_cut(nullptr); }
  /// Pages that were ever written, ascending.
  [[nodiscard]] std::vector<std::uint64_t> pages() const;
  static constexpr std::size_t kPageBytes = 1024;

 private:
  using Page = std::shared_ptr<Bytes>;
  using Pages = std::map<std::uint64_t, Page>;
  struct Piece {
    std::uint64_t page;
    Page content;
  };
  std::shared_ptr<const Bytes> base_;
  std::string name_ = "memory image";
  Pages durable_, live_;
  std::vector<Piece> pending_;
  std::uint64_t writes_ = 0, left_ = ~std::uint64_t{0};
  bool cut_ = false;
};

}  // namespace e4::testing_support
