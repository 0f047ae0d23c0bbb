// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

namespace e4::trace {

/// Where the kernel's clusters lie in a run that has gone its own way: runs of
/// clusters whose place differs; everything else lies where the kernel has it.
/// Cluster numbers count from the first data block, over all groups.
class Translation {
 public:
  static constexpr std::uint64_t kNowhere = ~std::uint64_t{0};

  /// The kernel's [kernel, kernel + len) lies at [ours, ...) here, or nowhere.
  void set(std::uint64_t kernel, std::uint64_t len, std::uint64_t ours);
  /// The kernel's range is free again: it means what it says.
  void clear(std::uint64_t kernel, std::uint64_t len);
  /// Our cluster for the kernel's; nothing if it is nowhere.
  [[nodiscard]] std::optional<std::uint64_t> find(std::uint64_t kernel) const;
  [[nodiscard]] bool moved(std::uint64_t kernel) const;
  [[nodiscard]] bool empty() const { return runs_.empty(); }

  /// Calls f(our first cluster, len) for each run of the kernel's range that is somewhere here.
  template <class F>
  void each(std::uint64_t kernel, std::uint64_t len, F&& f) const {
    while (len > 0) {
      auto it = runs_.upper_bound(kernel);
      const auto next = it;
      std::uint64_t n = len;
      std::uint64_t ours = kernel;
      if (it != runs_.begin() && (--it)->first + it->second.len > kernel) {
        n = std::min(len, it->first + it->second.len - kernel);
        ours = it->second.ours == kNowhere ? kNowhere : it->second.ours + (kernel - it->first);
      } else if (next != runs_.end()) {
        n = std::min(len, next->first - kernel);
      }
      if (ours != kNowhere) f(ours, n);
      kernel += n;
      len -= n;
    }
  }

 private:
  struct Run {
    std::uint64_t len, ours;
  };
  std::map<std::uint64_t, Run> runs_;
};

}  // namespace e4::trace
