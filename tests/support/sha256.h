// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstddef>
#include <string>

namespace e4::testing_support {

/// SHA-256 (FIPS 180-4) in hex: what the recordings name contents by.
std::string sha256_hex(const void* data, std::size_t bytes);

}  // namespace e4::testing_support
