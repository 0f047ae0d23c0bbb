// SPDX-License-Identifier: GPL-2.0-only
#include "image/zstd_holes.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "base/endian.h"

namespace e4::image {
namespace {

constexpr std::uint32_t kMagic = 0xFD2FB528;
constexpr std::uint32_t kSkippable = 0x184D2A50;
constexpr std::size_t kMaxBlockBytes = 128 * 1024;

struct FrameHead {
  std::size_t bytes = 0;         // of the head itself
  std::uint64_t window = 0;
  std::uint8_t window_descriptor = 0;
  bool checksum = false;
};

Error damaged(const std::string& name, const char* what) {
  return make_error(ErrorKind::corrupt, name + ": zstd: " + what);
}

Result<FrameHead> parse_head(std::span<const std::byte> in, const std::string& name) {
  if (in.size() < 6) return damaged(name, "the file ends in a frame head");
  const auto at = [&](std::size_t i) { return static_cast<std::uint8_t>(in[i]); };
  const std::uint8_t descriptor = at(4);
  const bool single_segment = (descriptor & 0x20) != 0;
  constexpr std::array<std::size_t, 4> kDictBytes{0, 1, 2, 4};
  std::size_t size_bytes = std::size_t{1} << (descriptor >> 6);
  if ((descriptor >> 6) == 0) size_bytes = single_segment ? 1 : 0;
  const std::size_t dict_bytes = kDictBytes[descriptor & 3];
  FrameHead h;
  h.bytes = 5 + (single_segment ? 0 : 1) + dict_bytes + size_bytes;
  h.checksum = (descriptor & 4) != 0;
  if (in.size() < h.bytes) return damaged(name, "the file ends in a frame head");
  for (std::size_t i = 0; i < dict_bytes; ++i)
    if (at(5 + (single_segment ? 0 : 1) + i) != 0) return damaged(name, "needs a dictionary");
  if (single_segment) {
    std::uint64_t content = 0;
    for (std::size_t i = 0; i < size_bytes; ++i) content |= std::uint64_t{at(5 + dict_bytes + i)} << (8 * i);
    if (size_bytes == 2) content += 256;
    unsigned log = 10;
    while (log < 31 && (std::uint64_t{1} << log) < content) ++log;
    h.window_descriptor = static_cast<std::uint8_t>((log - 10) << 3);
  } else {
    h.window_descriptor = at(5);
  }
  const std::uint64_t base = std::uint64_t{1} << (10 + (h.window_descriptor >> 3));
  h.window = base + base / 8 * (h.window_descriptor & 7);
  if (h.window > (std::uint64_t{1} << 31)) return damaged(name, "window larger than 2 GiB");
  return h;
}

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
  const FrameHead head = E4_TRY(parse_head(in, name));
  feeder.start_frame();
  std::array<std::byte, 6> own{};
  store<le32>(own.data(), 0, kMagic);
  own[5] = std::byte{head.window_descriptor};
  E4_TRY(feeder.feed(own));
  std::size_t at = head.bytes;
  std::uint64_t zeros = 0;  // produced by the RLE blocks just before
  for (bool last = false; !last;) {
    if (in.size() - at < 3) return damaged(name, "the file ends in a block head");
    const std::uint32_t word = static_cast<std::uint32_t>(in[at]) | static_cast<std::uint32_t>(in[at + 1]) << 8 |
                               static_cast<std::uint32_t>(in[at + 2]) << 16;
    last = (word & 1) != 0;
    const unsigned type = word >> 1 & 3;
    const std::uint32_t size = word >> 3;
    const std::size_t content = type == 1 ? 1 : size;
    if (type == 3 || size > kMaxBlockBytes) return damaged(name, "block of an unknown type or size");
    if (in.size() - at - 3 < content) return damaged(name, "the file ends in a block");
    const bool hole = type == 1 && in[at + 3] == std::byte{0};
    if (hole && zeros > head.window) E4_TRY(feeder.skip(size));
    else E4_TRY(feeder.feed(in.subspan(at, 3 + content)));
    zeros = hole ? zeros + size : 0;
    at += 3 + content;
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
  while (!file.empty()) {
    if (file.size() < 8) return damaged(name, "trailing bytes that are no frame");
    const auto magic = load<le32>(file.data());
    if ((magic & 0xFFFFFFF0U) == kSkippable) {
      const std::uint64_t n = std::uint64_t{8} + load<le32>(file.data(), 4);
      if (n > file.size()) return damaged(name, "the file ends in a skippable frame");
      file = file.subspan(n);
      continue;
    }
    if (magic != kMagic) return damaged(name, "not a zstd frame");
    file = file.subspan(E4_TRY(decode_frame(file, name, feeder)));
  }
  return feeder.position;
}

}  // namespace e4::image
