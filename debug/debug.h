// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <string>
#include <vector>

#include "cli/io.h"

namespace e4::debug {

/// e4debug(8): looks into an image and edits its orphan machinery. Status 0;
/// 1 when a command failed (named on io.err); 8 when the image cannot be
/// opened; 16 on wrong usage.
int run(const std::vector<std::string>& args, cli::Io& io);

}  // namespace e4::debug
