// SPDX-License-Identifier: GPL-2.0-only
#include "support/crash_device.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace e4::testing_support {

std::shared_ptr<const Bytes> load_bytes(const std::string& path) {
  std::ifstream f(path, std::ios::binary | std::ios::ate);
  if (!f) throw std::runtime_error("cannot read " + path);
  auto bytes = std::make_shared<Bytes>(static_cast<std::size_t>(f.tellg()));
  f.seekg(0);
  f.read(reinterpret_cast<char*>(bytes->data()), static_cast<std::streamsize>(bytes->size()));
  return bytes;
}

CrashDevice::CrashDevice(std::shared_ptr<const Bytes> base) : base_(std::move(base)) {}

Result<void> CrashDevice::read(std::uint64_t offset, std::span<std::byte> out) {
  if (out.size() > size() || offset > size() - out.size()) return make_error(ErrorKind::corrupt, name_ + ": read past the end");
  std::memcpy(out.data(), base_->data() + offset, out.size());
  if (live_.empty() || out.empty()) return {};
  for (auto it = live_.lower_bound(offset / kPageBytes); it != live_.end() && it->first * kPageBytes < offset + out.size(); ++it) {
    const std::uint64_t from = std::max(offset, it->first * kPageBytes);
    const std::uint64_t to = std::min<std::uint64_t>(offset + out.size(), it->first * kPageBytes + it->second->size());
    if (from < to) std::memcpy(out.data() + (from - offset), it->second->data() + (from - it->first * kPageBytes), to - from);
  }
  return {};
}

Result<void> CrashDevice::write(std::uint64_t offset, std::span<const std::byte> data) {
  if (data.size() > size() || offset > size() - data.size()) return make_error(ErrorKind::corrupt, name_ + ": write past the end");
  while (!data.empty()) {
    if (cut_ || left_ == 0) {
      cut_ = true;
      return errno_error(EIO, name_ + ": the power is gone");
    }
    const std::uint64_t page = offset / kPageBytes, at = offset % kPageBytes;
    const std::size_t n = std::min<std::size_t>(data.size(), kPageBytes - at);
    auto content = std::make_shared<Bytes>(std::min<std::uint64_t>(kPageBytes, size() - page * kPageBytes));
    const auto it = live_.find(page);
    const std::byte* old = it != live_.end() ? it->second->data() : base_->data() + page * kPageBytes;
    std::memcpy(content->data(), old, content->size());
    std::memcpy(content->data() + at, data.data(), n);
    live_[page] = content;
    pending_.push_back({page, content});
    ++writes_;
    if (left_ != ~std::uint64_t{0}) --left_;
    data = data.subspan(n);
    offset += n;
  }
  return {};
}

Result<void> CrashDevice::flush() {
  if (cut_ || left_ == 0) {
    cut_ = true;
    return errno_error(EIO, name_ + ": the power is gone");
  }
  for (Piece& p : pending_) durable_[p.page] = std::move(p.content);
  pending_.clear();
  return {};
}

std::unique_ptr<CrashDevice> CrashDevice::after_cut(Random* rng) const {
  auto d = std::make_unique<CrashDevice>(base_);
  if (rng == nullptr) {
    d->live_ = live_;
  } else {
    d->live_ = durable_;
    for (const Piece& p : pending_)
      if (rng->one_in(2)) d->live_[p.page] = p.content;
  }
  d->durable_ = d->live_;
  return d;
}

std::vector<std::uint64_t> CrashDevice::pages() const {
  std::vector<std::uint64_t> v;
  for (const auto& [page, content] : live_) v.push_back(page);
  return v;
}

}  // namespace e4::testing_support
