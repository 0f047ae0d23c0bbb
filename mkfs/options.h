// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "mkfs/wishes.h"

namespace e4::mkfs {

/// What the command line came to.
struct Options {
  Wishes wishes;
  bool done = false;  // --help or -V: print `text` and end well
  std::string text;
};

/// Arguments without the program name. Errors (usage).
Result<Options> parse_options(const std::vector<std::string>& args);

}  // namespace e4::mkfs
