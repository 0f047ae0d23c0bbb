// SPDX-License-Identifier: GPL-2.0-only
#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "image/container.h"

namespace e4::image {
namespace {

constexpr std::size_t kPageBytes = 4096;
using Page = std::array<std::byte, kPageBytes>;

bool all_zero(std::span<const std::byte> s) {
  return s.empty() || (s[0] == std::byte{0} && std::memcmp(s.data(), s.data() + 1, s.size() - 1) == 0);
}

}  // namespace

struct SparseDevice::Pages {
  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> map;
  std::vector<std::uint64_t> sorted;  // page numbers for next_data(); stale when its size differs from the map's
};

SparseDevice::SparseDevice(std::string name, std::uint64_t bytes)
    : name_(std::move(name)), bytes_(bytes), pages_(std::make_unique<Pages>()) {}
SparseDevice::~SparseDevice() = default;

std::uint64_t SparseDevice::resident_bytes() const { return pages_->map.size() * kPageBytes; }

Result<void> SparseDevice::read(std::uint64_t offset, std::span<std::byte> out) {
  if (offset > bytes_ || out.size() > bytes_ - offset)
    return make_error(ErrorKind::corrupt, name_ + ": read past the end of the image");
  while (!out.empty()) {
    const std::size_t within = offset % kPageBytes;
    const std::size_t n = std::min(out.size(), kPageBytes - within);
    const auto it = pages_->map.find(offset / kPageBytes);
    if (it == pages_->map.end()) std::memset(out.data(), 0, n);
    else std::memcpy(out.data(), it->second->data() + within, n);
    offset += n;
    out = out.subspan(n);
  }
  return {};
}

Result<void> SparseDevice::write(std::uint64_t offset, std::span<const std::byte> data) {
  if (offset > bytes_ || data.size() > bytes_ - offset)
    return make_error(ErrorKind::corrupt, name_ + ": write past the end of the image");
  while (!data.empty()) {
    const std::size_t within = offset % kPageBytes;
    const std::size_t n = std::min(data.size(), kPageBytes - within);
    const auto part = data.first(n);
    auto it = pages_->map.find(offset / kPageBytes);
    if (it == pages_->map.end() && !all_zero(part)) {
      it = pages_->map.emplace(offset / kPageBytes, std::make_unique<Page>()).first;
      it->second->fill(std::byte{0});
    }
    if (it != pages_->map.end()) std::memcpy(it->second->data() + within, part.data(), n);
    offset += n;
    data = data.subspan(n);
  }
  return {};
}

Result<std::uint64_t> SparseDevice::next_data(std::uint64_t offset) {
  auto& sorted = pages_->sorted;
  if (sorted.size() != pages_->map.size()) {
    sorted.clear();
    for (const auto& [page, data] : pages_->map) sorted.push_back(page);
    std::sort(sorted.begin(), sorted.end());
  }
  const auto it = std::lower_bound(sorted.begin(), sorted.end(), offset / kPageBytes);
  return it == sorted.end() ? bytes_ : std::min(std::max(offset, *it * kPageBytes), bytes_);
}

Result<bool> SparseDevice::discard(std::uint64_t offset, std::uint64_t bytes) {
  if (offset > bytes_ || bytes > bytes_ - offset) return false;
  const std::uint64_t end = offset + bytes;
  pages_->sorted.clear();
  for (std::uint64_t page = (offset + kPageBytes - 1) / kPageBytes; page < end / kPageBytes; ++page) pages_->map.erase(page);
  const std::array<std::byte, kPageBytes> zeros{};
  if (offset % kPageBytes != 0) {
    const std::uint64_t n = std::min(bytes, kPageBytes - offset % kPageBytes);
    E4_TRY(write(offset, std::span(zeros).first(n)));
  }
  if (end % kPageBytes != 0 && end / kPageBytes * kPageBytes >= offset)
    E4_TRY(write(end / kPageBytes * kPageBytes, std::span(zeros).first(end % kPageBytes)));
  return true;
}

}  // namespace e4::image
