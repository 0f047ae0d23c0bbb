// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/result.h"

namespace e4::trace {

/// A stream of bytes: a file or standard input, decompressed on the way
/// (zstd and gzip are known by their first bytes, not by name).
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Up to `bytes` bytes; 0 at the end. A compressed stream that ends too
  /// early yields what it has, then 0, and cut() says so.
  virtual Result<std::size_t> read(char* out, std::size_t bytes) = 0;
  [[nodiscard]] virtual bool cut() const { return false; }
};

/// "-" is standard input.
Result<std::unique_ptr<ByteSource>> open_bytes(const std::string& path);

/// The first `bytes` bytes (fewer at the end) of the decompressed content, without consuming them.
class Peeked final : public ByteSource {
 public:
  explicit Peeked(std::unique_ptr<ByteSource> under) : under_(std::move(under)) {}
  Result<std::string> peek(std::size_t bytes);
  Result<std::size_t> read(char* out, std::size_t bytes) override;
  [[nodiscard]] bool cut() const override { return under_->cut(); }

 private:
  std::unique_ptr<ByteSource> under_;
  std::string held_;
};

/// Writes the whole stream to an unlinked temporary file ($TMPDIR or /tmp) and
/// returns its descriptor, at offset 0.
Result<int> spool(ByteSource& source);

}  // namespace e4::trace
