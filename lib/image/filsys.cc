// SPDX-License-Identifier: GPL-2.0-only
#include "image/filsys.h"

extern "C" {  // its header has no guard of its own for C++
#include <et/com_err.h>
}

#include <cstring>
#include <mutex>
#include <utility>

#include "base/endian.h"
#include "image/io_manager.h"

namespace e4::image {
namespace {

void load_error_table() {
  static std::once_flag once;
  std::call_once(once, [] { initialize_ext2_error_table(); });
}

}  // namespace

Error ext2_error(long code, std::string text, Where where) {
  load_error_table();
  ErrorKind kind = ErrorKind::corrupt;
  if (code < 0x7F2BB700L) kind = ErrorKind::io;  // a plain errno
  if (code == EXT2_ET_UNSUPP_FEATURE || code == EXT2_ET_RO_UNSUPP_FEATURE) kind = ErrorKind::incompatible;
  if (code == EXT2_ET_BLOCK_ALLOC_FAIL || code == EXT2_ET_INODE_ALLOC_FAIL) kind = ErrorKind::no_space;
  return make_error(kind, std::move(text), code, where);
}

Result<Filsys> Filsys::open(Device& device, FilsysOptions options) {
  load_error_table();
  // Geometry first: libext2fs trusts some of these numbers while it opens.
  ext2_super_block super{};
  const std::uint64_t at =
      options.superblock == 0 ? SUPERBLOCK_OFFSET : options.superblock * std::uint64_t{options.block_bytes};
  if (options.superblock != 0 && options.block_bytes == 0)
    return make_error(ErrorKind::usage, "a backup superblock needs the block size");
  auto r = device.read(at, std::as_writable_bytes(std::span(&super, 1)));
  if (!r) return Error(std::move(r).error()).context("superblock");
  E4_TRY(check_geometry(super, options.writable ? device.size() : 0));

  int flags = EXT2_FLAG_64BITS | EXT2_FLAG_SKIP_MMP | EXT2_FLAG_SOFTSUPP_FEATURES;
  if (options.writable) flags |= EXT2_FLAG_RW;
  if (options.ignore_checksums) flags |= EXT2_FLAG_IGNORE_CSUM_ERRORS;
  if (options.any_features) flags |= EXT2_FLAG_FORCE;
  Filsys f;
  f.device_ = &device;
  const std::string name = device_channel_name(device);
  const errcode_t code =
      ext2fs_open2(name.c_str(), nullptr, flags, static_cast<int>(options.superblock), options.block_bytes,
                   device_io_manager(), &f.fs_);
  if (code != 0) {
    f.fs_ = nullptr;
    return ext2_error(code, device.name() + ": cannot open the file system");
  }
  return f;
}

Result<Filsys> Filsys::create(Device& device, const ext2_super_block& wishes) {
  load_error_table();
  ext2_super_block param = wishes;
  Filsys f;
  f.device_ = &device;
  const std::string name = device_channel_name(device);
  const errcode_t code = ext2fs_initialize(name.c_str(), EXT2_FLAG_64BITS, &param, device_io_manager(), &f.fs_);
  if (code != 0) {
    f.fs_ = nullptr;
    return ext2_error(code, device.name() + ": cannot lay out the file system");
  }
  return f;
}

Filsys::Filsys(Filsys&& o) noexcept : fs_(std::exchange(o.fs_, nullptr)), device_(o.device_) {}

Filsys& Filsys::operator=(Filsys&& o) noexcept {
  if (this != &o) {
    if (fs_ != nullptr) ext2fs_free(fs_);
    fs_ = std::exchange(o.fs_, nullptr);
    device_ = o.device_;
  }
  return *this;
}

Filsys::~Filsys() {
  if (fs_ != nullptr) ext2fs_free(fs_);
}

Result<void> Filsys::read_bitmaps() {
  E4_EXT2(ext2fs_read_bitmaps(fs_), device_->name() + ": bitmaps");
  return {};
}

Result<void> Filsys::flush(bool backups) {
  const auto saved = fs_->flags & EXT2_FLAG_MASTER_SB_ONLY;
  if (!backups) fs_->flags |= EXT2_FLAG_MASTER_SB_ONLY;
  const errcode_t code = ext2fs_flush(fs_);
  if (saved == 0) fs_->flags &= ~EXT2_FLAG_MASTER_SB_ONLY;
  if (code != 0) return ext2_error(code, device_->name() + ": flush");
  return {};
}

}  // namespace e4::image
