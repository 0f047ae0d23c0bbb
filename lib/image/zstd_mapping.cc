// SPDX-License-Identifier: GPL-2.0-only
#include "image/zstd_mapping.h"

// Block-level decoding: exported by libzstd, declared for static linking only since it may change between releases.
#define ZSTD_STATIC_LINKING_ONLY
#define ZSTD_DISABLE_DEPRECATE_WARNINGS
#include <sys/mman.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "image/zstd_frame.h"

namespace e4::image {
namespace {

using zstd::Block;
using zstd::damaged;

constexpr std::uint64_t kMaxMapping = std::uint64_t{64} << 40;

/// Anonymous memory as a device.
class MappedDevice final : public Device {
 public:
  MappedDevice(std::string name, std::byte* at, std::uint64_t mapped) : name_(std::move(name)), at_(at), mapped_(mapped) {}
  ~MappedDevice() override { ::munmap(at_, mapped_); }
  MappedDevice(const MappedDevice&) = delete;
  MappedDevice& operator=(const MappedDevice&) = delete;
  Result<void> read(std::uint64_t offset, std::span<std::byte> out) override {
    if (offset > bytes_ || out.size() > bytes_ - offset)
      return make_error(ErrorKind::corrupt, name_ + ": read past the end of the image");
    if (!out.empty()) std::memcpy(out.data(), at_ + offset, out.size());
    return {};
  }
  Result<void> write(std::uint64_t offset, std::span<const std::byte> data) override {
    if (offset > bytes_ || data.size() > bytes_ - offset)
      return make_error(ErrorKind::corrupt, name_ + ": write past the end of the image");
    if (!data.empty()) std::memcpy(at_ + offset, data.data(), data.size());
    return {};
  }
  Result<void> flush() override { return {}; }
  [[nodiscard]] std::uint64_t size() const override { return bytes_; }
  [[nodiscard]] bool writable() const override { return true; }
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::byte* at() const { return at_; }
  void set_size(std::uint64_t bytes) { bytes_ = bytes; }

 private:
  std::string name_;
  std::byte* at_;
  std::uint64_t mapped_;
  std::uint64_t bytes_ = 0;
};

/// An upper bound of the decompressed size, from the block heads alone. A compressed block says only at most.
Result<std::uint64_t> bound_bytes(std::span<const std::byte> in, const std::string& name) {
  std::uint64_t bytes = 0;
  for (in = E4_TRY(zstd::next_frame(in, name)); !in.empty(); in = E4_TRY(zstd::next_frame(in, name))) {
    const zstd::FrameHead head = E4_TRY(zstd::parse_frame_head(in, name));
    in = in.subspan(head.bytes);
    for (bool last = false; !last;) {
      const Block b = E4_TRY(zstd::parse_block(in, name));
      bytes += b.type == Block::Type::compressed ? zstd::kMaxBlockBytes : b.size;
      last = b.last;
      in = in.subspan(b.head_and_content.size());
    }
    if (head.checksum) {
      if (in.size() < 4) return damaged(name, "the file ends in a checksum");
      in = in.subspan(4);
    }
  }
  return bytes;
}

struct FreeContext {
  void operator()(ZSTD_DCtx* c) const { ZSTD_freeDCtx(c); }
};

/// Writes the block at `to` and returns how long its content is.
Result<std::size_t> decode_block(ZSTD_DCtx* context, const Block& b, std::byte* to, const std::string& name) {
  switch (b.type) {
    case Block::Type::rle:
      if (!b.is_hole()) std::memset(to, static_cast<int>(b.content()[0]), b.size);
      ZSTD_insertBlock(context, to, b.size);
      return b.size;
    case Block::Type::raw:
      if (b.size != 0) std::memcpy(to, b.content().data(), b.size);
      ZSTD_insertBlock(context, to, b.size);
      return b.size;
    case Block::Type::compressed: break;
  }
  const std::size_t n = ZSTD_decompressBlock(context, to, zstd::kMaxBlockBytes, b.content().data(), b.size);
  if (ZSTD_isError(n) != 0) return damaged(name, ZSTD_getErrorName(n));
  // The decoder may have used the room behind the content as scratch; a hole that follows must find zeros.
  std::memset(to + n, 0, zstd::kMaxBlockBytes - n);
  return n;
}

}  // namespace

Result<std::unique_ptr<Device>> map_zstd(std::span<const std::byte> in, const std::string& name) {
  const std::uint64_t bound = E4_TRY(bound_bytes(in, name));
  if (bound == 0) return damaged(name, "no content");
  if (bound > kMaxMapping) return std::unique_ptr<Device>();
  const std::uint64_t mapped = bound + zstd::kMaxBlockBytes;
  void* const at = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return std::unique_ptr<Device>();
  auto device = std::make_unique<MappedDevice>(name, static_cast<std::byte*>(at), mapped);
  const std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
  std::byte* to = device->at();
  for (in = E4_TRY(zstd::next_frame(in, name)); !in.empty(); in = E4_TRY(zstd::next_frame(in, name))) {
    const zstd::FrameHead head = E4_TRY(zstd::parse_frame_head(in, name));
    in = in.subspan(head.bytes);
    ZSTD_decompressBegin(context.get());
    for (bool last = false; !last;) {
      const Block b = E4_TRY(zstd::parse_block(in, name));
      to += E4_TRY(decode_block(context.get(), b, to, name));
      last = b.last;
      in = in.subspan(b.head_and_content.size());
    }
    if (head.checksum) in = in.subspan(4);
  }
  device->set_size(static_cast<std::uint64_t>(to - device->at()));
  return std::unique_ptr<Device>(std::move(device));
}

}  // namespace e4::image
