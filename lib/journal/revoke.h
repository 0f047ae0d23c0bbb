// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/units.h"
#include "journal/format.h"
#include "journal/superblock.h"

namespace e4::journal {

/// How many records a revoke block holds; nothing if r_count is smaller than
/// its header or reaches into the tail (the kernel gives the log up then).
std::optional<std::uint32_t> revoke_records(std::span<const std::byte> block, const LogFormat& format);
/// Record `i` < revoke_records(block, format).
Blk revoke_record(std::span<const std::byte> block, const LogFormat& format, std::uint32_t i);

/// How many records fit one block.
std::uint32_t revokes_per_block(const LogFormat& format);
/// Fills a whole revoke block, sealed if the format says so.
void write_revoke(std::span<std::byte> block, const LogFormat& format, Tid tid, std::span<const Blk> blocks);

}  // namespace e4::journal
