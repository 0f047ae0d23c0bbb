// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace e4::testing_support {

/// What a finished child process was and cost.
struct ChildRun {
  int status = -1;  // exit status, or 128 + signal; 127 when it could not be started
  double wall_s = 0, user_s = 0, system_s = 0;
  std::uint64_t peak_kib = 0;
  [[nodiscard]] double cpu_s() const { return user_s + system_s; }
};

/// Runs argv (searched in PATH), both outputs to `output_path`, and waits.
ChildRun run_child(const std::vector<std::string>& argv, const std::string& output_path = "/dev/null");

}  // namespace e4::testing_support
