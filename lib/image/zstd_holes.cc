// SPDX-License-Identifier: GPL-2.0-only
#include "image/zstd_holes.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "base/endian.h"
#include "image/zstd_frame.h"

namespace e4::image {
namespace {

using zstd::damaged;
using zstd::kMaxBlockBytes;

/// The decoder and where its output goes.
class Feeder {
 public:
  Feeder(const std::string& name, std::uint64_t max_bytes,
         const std::function<Result<void>(std::uint64_t, std::span<const std::byte>)>& sink)
      : name_(name), max_bytes_(max_bytes), sink_(sink), context_(ZSTD_createDCtx()), out_(2 * kMaxBlockBytes) {
    ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, 31);
  }
  void start_frame() { ZSTD_DCtx_reset(context_.get(), ZSTD_reset_session_only); }
  Result<void> feed(std::span<const std::byte> in) {
    ZSTD_inBuffer i{in.data(), in.size(), 0};
    for (;;) {
      ZSTD_outBuffer o{out_.data(), out_.size(), 0};
      const std::size_t before = i.pos;
      const std::size_t rc = ZSTD_decompressStream(context_.get(), &o, &i);
      if (ZSTD_isError(rc) != 0) return damaged(name_, ZSTD_getErrorName(rc));
      if (o.pos != 0) {
        if (o.pos > max_bytes_ - position) return damaged(name_, "more content than an image can have");
        E4_TRY(sink_(position, std::span<const std::byte>(out_.data(), o.pos)));
        position += o.pos;
      } else if (i.pos == i.size || i.pos == before) {
        return {};
      }
    }
  }
  Result<void> skip(std::uint64_t bytes) {
    if (bytes > max_bytes_ - position) return damaged(name_, "more content than an image can have");
    position += bytes;
    return {};
  }
  std::uint64_t position = 0;

 private:
  struct Free {
    void operator()(ZSTD_DCtx* c) const { ZSTD_freeDCtx(c); }
  };
  const std::string& name_;
  std::uint64_t max_bytes_;
  const std::function<Result<void>(std::uint64_t, std::span<const std::byte>)>& sink_;
  std::unique_ptr<ZSTD_DCtx, Free> context_;
  std::vector<std::byte> out_;
};

/// One frame; returns its length in the file.
Result<std::size_t> decode_frame(std::span<const std::byte> in, const std::string& name, Feeder& feeder) {
  const zstd::FrameHead head = E4_TRY(zstd::parse_frame_head(in, name));
  feeder.start_frame();
  std::array<std::byte, 6> own{};
  store<le32>(own.data(), 0, zstd::kMagic);
  own[5] = std::byte{head.window_descriptor};
  E4_TRY(feeder.feed(own));
  std::size_t at = head.bytes;
  std::uint64_t zeros = 0;  // produced by the blocks just before
  for (bool last = false; !last;) {
    const zstd::Block b = E4_TRY(zstd::parse_block(in.subspan(at), name));
    last = b.last;
    if (b.is_hole() && zeros > head.window) E4_TRY(feeder.skip(b.size));
    else E4_TRY(feeder.feed(b.head_and_content));
    zeros = b.is_hole() ? zeros + b.size : 0;
    at += b.head_and_content.size();
  }
  if (head.checksum) {
    if (in.size() - at < 4) return damaged(name, "the file ends in a checksum");
    at += 4;
  }
  return at;
}

}  // namespace

Result<std::uint64_t> decompress_skipping_holes(
    std::span<const std::byte> file, const std::string& name, std::uint64_t max_bytes,
    const std::function<Result<void>(std::uint64_t, std::span<const std::byte>)>& sink) {
  Feeder feeder(name, max_bytes, sink);
  for (file = E4_TRY(zstd::next_frame(file, name)); !file.empty(); file = E4_TRY(zstd::next_frame(file, name)))
    file = file.subspan(E4_TRY(decode_frame(file, name, feeder)));
  return feeder.position;
}

}  // namespace e4::image
