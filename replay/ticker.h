// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "cli/io.h"

namespace e4::replay {

/// Progress of a replay on standard error: events a second and time left, for
/// everything that takes longer than two seconds, on a terminal only.
class Ticker {
 public:
  Ticker(cli::Io& io, std::string what);
  /// False when the user asked to stop.
  bool tick(std::uint64_t done, std::optional<std::uint64_t> total);
  /// Clears the line.
  void done();

 private:
  using Clock = std::chrono::steady_clock;
  cli::Io& io_;
  std::string what_;
  Clock::time_point started_, last_;
  bool shown_ = false;
};

}  // namespace e4::replay
