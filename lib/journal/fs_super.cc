// SPDX-License-Identifier: GPL-2.0-only
#include "journal/fs_super.h"

#include <ext2fs/ext2_fs.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/crc32c.h"
#include "base/endian.h"

namespace e4::journal {

namespace {

static_assert(sizeof(ext2_super_block) == 1024);

// first error: one stretch of the superblock; last error: another; the high
// time bytes and error codes sit elsewhere, one byte each.
struct Stretch {
  std::size_t from, to;
};
constexpr Stretch kFirst{offsetof(ext2_super_block, s_first_error_time), offsetof(ext2_super_block, s_last_error_time)};
constexpr Stretch kLast{offsetof(ext2_super_block, s_last_error_time), offsetof(ext2_super_block, s_mount_opts)};
static_assert(kFirst.from == 0x198 && kFirst.to == 0x1CC && kLast.to == 0x200);

std::uint64_t time_at(std::span<const std::byte> raw, std::size_t low, std::size_t high) {
  return load<le32>(raw.data(), low) | static_cast<std::uint64_t>(std::to_integer<std::uint8_t>(raw[high])) << 32;
}
std::uint64_t first_time(std::span<const std::byte> raw) {
  return time_at(raw, offsetof(ext2_super_block, s_first_error_time), offsetof(ext2_super_block, s_first_error_time_hi));
}
std::uint64_t last_time(std::span<const std::byte> raw) {
  return time_at(raw, offsetof(ext2_super_block, s_last_error_time), offsetof(ext2_super_block, s_last_error_time_hi));
}

}  // namespace

Result<FsSuper> FsSuper::parse(std::span<const std::byte> bytes) {
  FsSuper s;
  if (bytes.size() < s.raw_.size()) return make_error(ErrorKind::corrupt, "superblock cut short");
  std::memcpy(s.raw_.data(), bytes.data(), s.raw_.size());
  if (load<le16>(s.raw_.data(), offsetof(ext2_super_block, s_magic)) != EXT2_SUPER_MAGIC) {
    return make_error(ErrorKind::corrupt, "superblock: bad magic");
  }
  return s;
}

Result<FsSuper> FsSuper::read(image::Device& device) {
  std::array<std::byte, 1024> bytes{};
  E4_TRY(device.read(kFsSuperOffset, bytes));
  return parse(bytes);
}

Result<void> FsSuper::write(image::Device& device) {
  seal();
  return device.write(kFsSuperOffset, raw_);
}

std::uint32_t FsSuper::log_block_size() const {
  return load<le32>(raw_.data(), offsetof(ext2_super_block, s_log_block_size));
}

Blk FsSuper::blocks_count() const {
  Blk n = load<le32>(raw_.data(), offsetof(ext2_super_block, s_blocks_count));
  if (load<le32>(raw_.data(), offsetof(ext2_super_block, s_feature_incompat)) & EXT4_FEATURE_INCOMPAT_64BIT) {
    n |= static_cast<Blk>(load<le32>(raw_.data(), offsetof(ext2_super_block, s_blocks_count_hi))) << 32;
  }
  return n;
}

bool FsSuper::recover() const {
  return (load<le32>(raw_.data(), offsetof(ext2_super_block, s_feature_incompat)) & EXT3_FEATURE_INCOMPAT_RECOVER) != 0;
}

void FsSuper::set_recover(bool on) {
  constexpr std::uint32_t kBit = EXT3_FEATURE_INCOMPAT_RECOVER;
  const std::uint32_t now = load<le32>(raw_.data(), offsetof(ext2_super_block, s_feature_incompat));
  store<le32>(raw_.data(), offsetof(ext2_super_block, s_feature_incompat), on ? now | kBit : now & ~kBit);
}

void FsSuper::set_error_state() {
  const std::uint32_t now = load<le16>(raw_.data(), offsetof(ext2_super_block, s_state));
  store<le16>(raw_.data(), offsetof(ext2_super_block, s_state), now | EXT2_ERROR_FS);
}

void FsSuper::merge_errors(const FsSuper& before) {
  const auto take = [&](Stretch s) { std::copy_n(before.raw_.begin() + s.from, s.to - s.from, raw_.begin() + s.from); };
  const auto take_byte = [&](std::size_t at) { raw_[at] = before.raw_[at]; };
  if (load<le16>(before.raw_.data(), offsetof(ext2_super_block, s_state)) & EXT2_ERROR_FS) set_error_state();
  const std::uint64_t first_before = first_time(before.raw_), first_now = first_time(raw_);
  if (first_before != 0 && (first_now == 0 || first_before <= first_now)) {
    take(kFirst);
    take_byte(offsetof(ext2_super_block, s_first_error_time_hi));
    take_byte(offsetof(ext2_super_block, s_first_error_errcode));
  }
  const std::uint64_t last_before = last_time(before.raw_);
  if (last_before != 0 && last_before >= last_time(raw_)) {
    take(kLast);
    take_byte(offsetof(ext2_super_block, s_last_error_time_hi));
    take_byte(offsetof(ext2_super_block, s_last_error_errcode));
  }
  constexpr std::size_t kCount = offsetof(ext2_super_block, s_error_count);
  store<le32>(raw_.data(), kCount, std::max(load<le32>(raw_.data(), kCount), load<le32>(before.raw_.data(), kCount)));
}

void FsSuper::seal() {
  if ((load<le32>(raw_.data(), offsetof(ext2_super_block, s_feature_ro_compat)) & EXT4_FEATURE_RO_COMPAT_METADATA_CSUM) == 0) return;
  constexpr std::size_t kAt = offsetof(ext2_super_block, s_checksum);
  store<le32>(raw_.data(), kAt, crc32c(~0U, raw_.data(), kAt));
}

FsSuper recovered_super(const FsSuper* before, FsSuper after, bool damaged) {
  if (before != nullptr) after.merge_errors(*before);
  if (damaged) after.set_error_state();
  return after;
}

Result<FsSuper> logged_super(image::Device& device, const Log& log, std::uint32_t n) {
  std::vector<std::byte> block(log.block_bytes());
  E4_TRY(log.read(device, n, block));
  return FsSuper::parse(std::span<const std::byte>(block).subspan(super_offset(log.block_bytes())));
}

}  // namespace e4::journal
