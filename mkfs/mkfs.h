// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <string>
#include <vector>

#include "cli/io.h"

namespace e4::mkfs {

/// e4mkfs: arguments without the program name, to mke2fs's exit status: 0 made
/// (or shown, -n), 1 anything else, with one line on io.err that says why.
int run(const std::vector<std::string>& args, cli::Io& io);

}  // namespace e4::mkfs
