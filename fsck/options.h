// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "check/options.h"
#include "cli/io.h"

namespace e4::fsck {

struct Options {
  check::Options check;
  std::string image;
  std::optional<int> progress_fd;  // -C; 0: a bar on stdout; negative: silent
  bool verbose = false;
  bool json = false;
};

/// Parses what e2fsck(8) takes and a little more. An exit status instead of
/// options: it was -h or -V (0), wrong (16), or two of -p, -n and -y (8, as
/// e2fsck); what there is to say has been said on io.
std::variant<Options, int> parse(const std::vector<std::string>& args, cli::Io& io);

}  // namespace e4::fsck
