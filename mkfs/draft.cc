// SPDX-License-Identifier: GPL-2.0-only
#include "mkfs/draft.h"

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"

namespace e4::mkfs {

namespace {

constexpr std::uint64_t kSuperOffset = 1024, kSuperBytes = 1024;
constexpr std::size_t kRunBytes = kMiB;  // how much goes out in one write

bool all_zero(std::span<const std::byte> data) {
  return data.empty() || (data[0] == std::byte{0} && std::memcmp(data.data(), data.data() + 1, data.size() - 1) == 0);
}

}  // namespace

Draft::Draft(std::string name, std::uint64_t bytes, std::uint32_t block_bytes)
    : name_(std::move(name)), bytes_(bytes), block_bytes_(block_bytes) {}

Result<void> Draft::read(std::uint64_t offset, std::span<std::byte> out) {
  if (out.size() > bytes_ || offset > bytes_ - out.size())
    return make_error(ErrorKind::corrupt, name_ + ": read at byte " + std::to_string(offset) + " is past the end");
  while (!out.empty()) {
    const std::size_t at = offset % block_bytes_;
    const std::size_t n = std::min<std::size_t>(out.size(), block_bytes_ - at);
    if (const auto it = kept_.find(offset / block_bytes_); it != kept_.end())
      std::memcpy(out.data(), it->second->data() + at, n);
    else
      std::memset(out.data(), 0, n);
    offset += n;
    out = out.subspan(n);
  }
  return {};
}

Result<void> Draft::write(std::uint64_t offset, std::span<const std::byte> data) {
  if (data.size() > bytes_ || offset > bytes_ - data.size())
    return make_error(ErrorKind::corrupt, name_ + ": write at byte " + std::to_string(offset) + " is past the end");
  std::vector<std::byte> whole;
  while (!data.empty()) {
    const Blk block = offset / block_bytes_;
    const std::size_t at = offset % block_bytes_;
    const std::size_t n = std::min<std::size_t>(data.size(), block_bytes_ - at);
    std::span<const std::byte> content = data.first(n);
    if (n != block_bytes_) {
      whole.assign(block_bytes_, std::byte{0});
      if (const auto it = kept_.find(block); it != kept_.end()) whole = *it->second;
      std::memcpy(whole.data() + at, data.data(), n);
      content = whole;
    }
    if (all_zero(content)) {
      kept_.erase(block);
      mark_zeroed(block, block + 1);
    } else {
      keep(block, content);
    }
    offset += n;
    data = data.subspan(n);
  }
  return {};
}

Result<void> Draft::zero(Blk first, std::uint64_t blocks) {
  const std::uint64_t all = bytes_ / block_bytes_;
  if (blocks > all || first > all - blocks)
    return make_error(ErrorKind::corrupt, name_ + ": zeroing is past the end").at_block(first);
  if (blocks == 0) return {};
  if (blocks < kept_.size()) {
    for (Blk b = first; b < first + blocks; ++b) kept_.erase(b);
  } else {
    std::erase_if(kept_, [&](const auto& k) { return k.first >= first && k.first < first + blocks; });
  }
  mark_zeroed(first, first + blocks);
  return {};
}

void Draft::keep(Blk block, std::span<const std::byte> data) {
  mark_kept(block);
  const std::uint32_t sum = crc32c(~0U, data);
  const auto [from, to] = by_sum_.equal_range(sum);
  for (auto it = from; it != to;) {
    const Content same = it->second.lock();
    if (same == nullptr) {
      it = by_sum_.erase(it);
      continue;
    }
    if (std::memcmp(same->data(), data.data(), data.size()) == 0) {
      kept_[block] = same;
      return;
    }
    ++it;
  }
  auto fresh = std::make_shared<const std::vector<std::byte>>(data.begin(), data.end());
  by_sum_.emplace(sum, fresh);
  kept_[block] = std::move(fresh);
}

void Draft::mark_zeroed(Blk first, Blk end) {
  auto it = zeroed_.upper_bound(first);
  if (it != zeroed_.begin() && std::prev(it)->second >= first) {
    --it;
    first = it->first;
    end = std::max(end, it->second);
    it = zeroed_.erase(it);
  }
  while (it != zeroed_.end() && it->first <= end) {
    end = std::max(end, it->second);
    it = zeroed_.erase(it);
  }
  zeroed_.emplace_hint(it, first, end);
}

void Draft::mark_kept(Blk block) {
  auto it = zeroed_.upper_bound(block);
  if (it == zeroed_.begin()) return;
  --it;
  if (it->second <= block) return;
  const auto [first, end] = *it;
  zeroed_.erase(it);
  if (first < block) zeroed_.emplace(first, block);
  if (block + 1 < end) zeroed_.emplace(block + 1, end);
}

std::uint64_t Draft::zeroed_blocks() const {
  std::uint64_t n = 0;
  for (const auto& [first, end] : zeroed_) n += end - first;
  return n;
}

std::uint64_t Draft::distinct_blocks() const {
  return static_cast<std::uint64_t>(
      std::ranges::count_if(by_sum_, [](const auto& entry) { return !entry.second.expired(); }));
}

Result<std::uint64_t> Draft::commit(image::Device& target, const Commit& how) const {
  if (target.size() < bytes_)
    return make_error(ErrorKind::no_space, target.name() + " holds " + std::to_string(target.size()) +
                                               " bytes; the file system needs " + std::to_string(bytes_));
  std::uint64_t written = 0;
  const auto put = [&](std::uint64_t offset, std::span<const std::byte> data) -> Result<void> {
    if (how.stop.stop_requested()) return make_error(ErrorKind::cancelled, "stopped; " + target.name() + " holds no file system now");
    E4_TRY(target.write(offset, data));
    written += data.size();
    return {};
  };
  const std::vector<std::byte> zeros(kRunBytes);
  bool reads_zero = how.reads_zero;
  if (!reads_zero) {
    E4_TRY(put(kSuperOffset, std::span(zeros).first(kSuperBytes)));
    E4_TRY(target.flush());
  }
  if (how.discard && E4_TRY(target.discard(0, bytes_))) reads_zero = true;
  if (!reads_zero) {
    for (const auto& [first, end] : zeroed_) {
      const std::uint64_t stop_at = std::min(end * block_bytes_, bytes_);
      for (std::uint64_t at = first * block_bytes_; at < stop_at; at += kRunBytes)
        E4_TRY(put(at, std::span(zeros).first(std::min<std::uint64_t>(kRunBytes, stop_at - at))));
    }
  }

  std::vector<Blk> order;
  order.reserve(kept_.size());
  for (const auto& entry : kept_) order.push_back(entry.first);
  std::ranges::sort(order);
  std::vector<std::byte> run, super(kSuperBytes);
  std::uint64_t run_at = 0;
  for (std::size_t i = 0; i <= order.size(); ++i) {
    const bool ends = i == order.size() || order[i] * block_bytes_ != run_at + run.size() || run.size() >= kRunBytes;
    if (ends && !run.empty()) {
      // The superblock's own bytes stay zero until everything else is safe.
      const std::uint64_t from = std::max(run_at, kSuperOffset);
      const std::uint64_t to = std::min<std::uint64_t>(run_at + run.size(), kSuperOffset + kSuperBytes);
      if (from < to) {
        std::memcpy(super.data() + (from - kSuperOffset), run.data() + (from - run_at), to - from);
        std::memset(run.data() + (from - run_at), 0, to - from);
      }
      E4_TRY(put(run_at, run));
      run.clear();
    }
    if (i == order.size()) break;
    if (run.empty()) run_at = order[i] * block_bytes_;
    const Content& content = kept_.at(order[i]);
    run.insert(run.end(), content->begin(), content->end());
  }
  E4_TRY(target.flush());
  E4_TRY(target.write(kSuperOffset, super));
  written += super.size();
  E4_TRY(target.flush());
  return written;
}

}  // namespace e4::mkfs
