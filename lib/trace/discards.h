// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/units.h"

namespace e4::trace {

/// Runs that discarding threads hold back while the device works: from
/// ext4_trim_extent to the thread's next event of any kind, the end of its work
/// (workqueue_execute_end) at the latest. A thread holds one run at a time.
class Discards {
 public:
  /// Numbers for held runs; transactions never get there.
  static constexpr Tid kFirst = 0x80000000;

  /// The thread takes a run out of use. Its run before has ended (ended()).
  Tid start(std::int32_t pid) {
    held_.emplace_back(pid, next_);
    return next_++;
  }
  /// An event of this thread: the run it held until now, if any.
  std::optional<Tid> ended(std::int32_t pid) {
    const auto it = std::find_if(held_.begin(), held_.end(), [&](const auto& h) { return h.first == pid; });
    if (it == held_.end()) return std::nullopt;
    const Tid tid = it->second;
    held_.erase(it);
    return tid;
  }
  [[nodiscard]] bool empty() const { return held_.empty(); }

 private:
  std::vector<std::pair<std::int32_t, Tid>> held_;
  Tid next_ = kFirst;
};

}  // namespace e4::trace
