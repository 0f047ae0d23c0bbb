// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>

// Plain aliases, not distinct classes: nearly every line of an allocator is
// arithmetic across these, so the unit is carried by the name ("_blocks",
// "_clusters", "_bytes" last) and by the alias in the signature.
namespace e4 {

using Blk = std::uint64_t;      // physical block number, in file-system blocks
using Lblk = std::uint32_t;     // logical block of a file, in file-system blocks
using GroupNo = std::uint32_t;  // block group number
using Ino = std::uint32_t;      // inode number, 1-based; 0 is "none"
using Tid = std::uint32_t;      // jbd2 transaction id, compared modulo 2^32

inline constexpr std::uint64_t kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB;

}  // namespace e4
