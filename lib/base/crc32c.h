// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace e4 {

/// Raw CRC-32C (reflected polynomial 0x82F63B78): caller-supplied start value,
/// no final inversion, as ext4 and jbd2 use it. Uses the CPU's crc32
/// instruction where there is one. Self test: start ~0 over "123456789" is 0x1CF96D7C.
std::uint32_t crc32c(std::uint32_t start, const void* data, std::size_t bytes);

inline std::uint32_t crc32c(std::uint32_t start, std::span<const std::byte> data) {
  return crc32c(start, data.data(), data.size());
}
/// crc32c over one little-endian 32-bit or 64-bit number.
std::uint32_t crc32c_le32(std::uint32_t start, std::uint32_t value);
std::uint32_t crc32c_le64(std::uint32_t start, std::uint64_t value);

namespace detail {
/// The portable table version, for tests and CPUs without the instruction.
std::uint32_t crc32c_portable(std::uint32_t start, const void* data, std::size_t bytes);
}  // namespace detail

}  // namespace e4
