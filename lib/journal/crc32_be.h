// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace e4::journal {

/// CRC-32 with polynomial 0x04C11DB7, most significant bit first, start value
/// given, no final inversion: what v1 journals keep in h_chksum[0], and only
/// they. Eight bytes a step.
std::uint32_t crc32_be(std::uint32_t start, std::span<const std::byte> data);

}  // namespace e4::journal
