// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace e4::debug {

/// What the command line came to.
struct Options {
  std::string image;
  bool writable = false;
  std::vector<std::string> commands;        // -R, in order
  std::optional<std::string> command_file;  // -f; "-" is standard input
  bool stop = false;                        // end at the first command that fails
  bool json = false, journal = false;       // for every command that knows them
  std::uint32_t block_bytes = 0;            // with superblock
  std::uint64_t superblock = 0;
  std::optional<std::string> undo;
  bool done = false;                        // --help or -V: print `text` and end well
  std::string text;
};

/// Arguments without the program name. Errors (usage).
Result<Options> parse_options(const std::vector<std::string>& args);

}  // namespace e4::debug
