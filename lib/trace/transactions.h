// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "base/units.h"

namespace e4::trace {

/// Which transaction a free belongs to, without the handle events (which few
/// traces have): the running one, and that changes exactly at
/// jbd2_commit_flushing, since no handle can start between locking and
/// flushing. Transactions get numbers of our own, so the first one needs no
/// look ahead for its id.
class Transactions {
 public:
  /// The running transaction.
  [[nodiscard]] Tid running() const { return running_; }
  /// jbd2_commit_flushing of `tid`: it takes no more frees.
  void flushing(Tid tid) {
    last_ = tid;
    if (closing_.size() >= kMaxClosing) closing_.erase(closing_.begin());
    closing_.emplace_back(tid, running_++);
  }
  /// jbd2_end_commit of `tid`: the transaction whose frees come back, if it had any.
  std::optional<Tid> ended(Tid tid) {
    for (auto it = closing_.begin(); it != closing_.end(); ++it)
      if (it->first == tid) {
        const Tid ours = it->second;
        closing_.erase(it);
        return ours;
      }
    // Its flushing event was lost: what is running now was freed before it at the latest in part. A commit that was
    // under way when the trace began holds no free of this trace.
    if (last_ && static_cast<std::int32_t>(tid - *last_) > 0) return running_++;
    return std::nullopt;
  }

 private:
  static constexpr std::size_t kMaxClosing = 64;
  Tid running_ = 1;
  std::optional<Tid> last_;
  std::vector<std::pair<Tid, Tid>> closing_;
};

}  // namespace e4::trace
