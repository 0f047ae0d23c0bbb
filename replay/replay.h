// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <string>
#include <vector>

#include "cli/io.h"

namespace e4::replay {

/// e4replay: arguments without the program name, to an exit status.
int run(const std::vector<std::string>& args, cli::Io& io);

/// Exit statuses beyond fsck's: compare and everything that compares.
inline constexpr int kSame = 0;
inline constexpr int kDiffers = 1;
inline constexpr int kCouldNot = 8;

}  // namespace e4::replay
