// SPDX-License-Identifier: GPL-2.0-only
#pragma once

namespace e4 {

/// The source line that made an error, for `-d` output and tests. clang 14
/// has no std::source_location, so it comes through the builtins.
struct Where {
  const char* file = "";
  int line = 0;
  static constexpr Where here(const char* f = __builtin_FILE(), int l = __builtin_LINE()) { return {f, l}; }
};

}  // namespace e4
