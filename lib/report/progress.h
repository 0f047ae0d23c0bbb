// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>

namespace e4::report {

/// How far a run is. One source, two faces: a bar for people, or lines
/// "PHASE CUR MAX LABEL" on a file descriptor, as fsck front ends read them.
/// The number of updates a second is bounded here, so callers may be generous.
class Progress {
 public:
  virtual ~Progress() = default;
  /// A phase begins; numbers start at 1.
  virtual void phase(int number, std::string_view label) = 0;
  /// `current` of `max` units of the phase are done.
  virtual void step(std::uint64_t current, std::uint64_t max) = 0;
  virtual void done() = 0;
};

std::unique_ptr<Progress> no_progress();
/// Lines on `fd`, which stays the caller's. Write errors silence it.
std::unique_ptr<Progress> descriptor_progress(int fd, std::string device);
/// A bar that overprints itself; `width`: columns of the terminal.
std::unique_ptr<Progress> bar_progress(std::ostream& out, std::string device, int width);

}  // namespace e4::report
