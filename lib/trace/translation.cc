// SPDX-License-Identifier: GPL-2.0-only
#include "trace/translation.h"

#include <algorithm>

namespace e4::trace {

void Translation::clear(std::uint64_t kernel, std::uint64_t len) {
  const std::uint64_t end = kernel + len;
  auto it = runs_.upper_bound(kernel);
  if (it != runs_.begin()) --it;
  while (it != runs_.end() && it->first < end) {
    const std::uint64_t from = it->first, to = it->first + it->second.len, ours = it->second.ours;
    if (to <= kernel) {
      ++it;
      continue;
    }
    it = runs_.erase(it);
    if (from < kernel) runs_[from] = {kernel - from, ours};
    if (to > end) runs_[end] = {to - end, ours == kNowhere ? kNowhere : ours + (end - from)};
    it = runs_.lower_bound(kernel);
  }
}

void Translation::set(std::uint64_t kernel, std::uint64_t len, std::uint64_t ours) {
  if (len == 0) return;
  clear(kernel, len);
  if (kernel != ours) runs_[kernel] = {len, ours};
}

std::optional<std::uint64_t> Translation::find(std::uint64_t kernel) const {
  auto it = runs_.upper_bound(kernel);
  if (it == runs_.begin()) return kernel;
  --it;
  if (it->first + it->second.len <= kernel) return kernel;
  if (it->second.ours == kNowhere) return std::nullopt;
  return it->second.ours + (kernel - it->first);
}

bool Translation::moved(std::uint64_t kernel) const {
  auto it = runs_.upper_bound(kernel);
  return it != runs_.begin() && (--it)->first + it->second.len > kernel;
}

}  // namespace e4::trace
