// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <functional>
#include <iosfwd>
#include <stop_token>
#include <string>

namespace e4::cli {

/// Everything a tool touches of the world outside its arguments and the image,
/// so that a test runs a whole tool in-process.
struct Io {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  bool in_is_terminal = false;
  bool out_is_terminal = false;
  int columns = 80;
  /// Value of an environment variable, empty if unset.
  std::function<std::string(const char*)> environment = [](const char*) { return std::string(); };
  /// Requested by SIGINT, SIGTERM and SIGHUP: finish the unit at hand, then
  /// end with exit_status::kCancelled.
  std::stop_token stop = {};
};

}  // namespace e4::cli
