// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <string>

#include "base/result.h"

namespace e4::replay {

/// Saves the metadata of an unmounted file system as `stem`.qcow2.zst, through
/// e2image(8) and zstd. The device's cached blocks are written first.
Result<void> save_state(const std::string& device, const std::string& stem);

/// Compresses a file to another and removes it.
Result<void> compress_file(const std::string& from, const std::string& to);

}  // namespace e4::replay
