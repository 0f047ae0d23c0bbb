// SPDX-License-Identifier: GPL-2.0-only
#include "tests/support/fast_commit_builder.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "base/crc32c.h"

namespace e4::test {

using namespace journal;

FastCommitBuilder::FastCommitBuilder(LogImage& image) : image_(image), bs_(image.log->block_bytes()) {}

void FastCommitBuilder::put(std::uint16_t tag, std::uint32_t len, std::span<const std::byte> value) {
  FcTl tl{};
  tl.fc_tag = tag;
  tl.fc_len = static_cast<std::uint16_t>(len);
  const std::size_t at = bytes_.size();
  bytes_.resize(at + sizeof tl + len);
  std::memcpy(bytes_.data() + at, &tl, sizeof tl);
  std::ranges::copy(value, bytes_.begin() + static_cast<std::ptrdiff_t>(at + sizeof tl));
}

FastCommitBuilder& FastCommitBuilder::record(std::uint16_t tag, std::span<const std::byte> value) {
  const std::size_t used = bytes_.size() % bs_, left = bs_ - used;
  // Room for this record and for the header of a PAD behind it.
  if (used != 0 && sizeof(FcTl) + value.size() + sizeof(FcTl) > left) {
    const std::size_t at = bytes_.size();
    put(kFcPad, static_cast<std::uint32_t>(left - sizeof(FcTl)), {});
    crc_ = crc32c(crc_, bytes_.data() + at, bytes_.size() - at);
  }
  const std::size_t at = bytes_.size();
  put(tag, static_cast<std::uint32_t>(value.size()), value);
  crc_ = crc32c(crc_, bytes_.data() + at, bytes_.size() - at);
  return *this;
}

FastCommitBuilder& FastCommitBuilder::head(Tid tid, std::uint32_t features) {
  FcHead h{};
  h.fc_features = features;
  h.fc_tid = tid;
  return record(kFcHead, std::as_bytes(std::span(&h, 1)));
}

FastCommitBuilder& FastCommitBuilder::add_range(Ino ino, Lblk lblk, std::uint16_t len, Blk physical, bool unwritten) {
  FcAddRange r{};
  r.fc_ino = ino;
  r.ee_block = lblk;
  r.ee_len = static_cast<std::uint16_t>(unwritten ? len + 32768 : len);
  r.ee_start_hi = static_cast<std::uint16_t>(physical >> 32);
  r.ee_start_lo = static_cast<std::uint32_t>(physical);
  return record(kFcAddRange, std::as_bytes(std::span(&r, 1)));
}

FastCommitBuilder& FastCommitBuilder::del_range(Ino ino, Lblk lblk, std::uint32_t len) {
  FcDelRange r{};
  r.fc_ino = ino;
  r.fc_lblk = lblk;
  r.fc_len = len;
  return record(kFcDelRange, std::as_bytes(std::span(&r, 1)));
}

FastCommitBuilder& FastCommitBuilder::name_record(std::uint16_t tag, Ino parent, Ino ino, const std::string& name) {
  std::vector<std::byte> v(sizeof(FcDentry) + name.size());
  FcDentry d{};
  d.fc_parent_ino = parent;
  d.fc_ino = ino;
  std::memcpy(v.data(), &d, sizeof d);
  std::memcpy(v.data() + sizeof d, name.data(), name.size());
  return record(tag, v);
}

FastCommitBuilder& FastCommitBuilder::inode(Ino ino, std::span<const std::byte> raw) {
  std::vector<std::byte> v(4 + raw.size());
  store<le32>(v.data(), 0, ino);
  std::memcpy(v.data() + 4, raw.data(), raw.size());
  return record(kFcInode, v);
}

FastCommitBuilder& FastCommitBuilder::tail(Tid tid, std::uint32_t crc_error) {
  std::size_t left = bs_ - bytes_.size() % bs_;
  if (left < sizeof(FcTl) + sizeof(FcTail)) {
    const std::size_t at = bytes_.size();
    put(kFcPad, static_cast<std::uint32_t>(left - sizeof(FcTl)), {});
    crc_ = crc32c(crc_, bytes_.data() + at, bytes_.size() - at);
    left = bs_;
  }
  FcTl tl{};
  tl.fc_tag = kFcTail;
  tl.fc_len = static_cast<std::uint16_t>(left - sizeof tl);
  FcTail t{};
  t.fc_tid = tid;
  crc_ = crc32c(crc_, &tl, sizeof tl);
  crc_ = crc32c(crc_, &t, offsetof(FcTail, fc_crc));
  t.fc_crc = crc_ ^ crc_error;
  put(kFcTail, static_cast<std::uint32_t>(left - sizeof tl), std::as_bytes(std::span(&t, 1)));
  crc_ = 0;
  return *this;
}

void FastCommitBuilder::write() {
  const FastCommitArea area = fast_commit_area(image_.log->super());
  bytes_.resize((bytes_.size() + bs_ - 1) / bs_ * bs_);
  if (blocks() > area.blocks) throw std::runtime_error("fast commits larger than their area");
  for (std::uint32_t i = 0; i < blocks(); ++i) {
    if (!image_.log->write(image_.device, area.first + i, std::span(bytes_).subspan(i * bs_, bs_)))
      throw std::runtime_error("writing fast commits");
  }
}

}  // namespace e4::test
