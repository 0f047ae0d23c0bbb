// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <optional>

#include "alloc/types.h"

namespace e4::alloc {

/// What normalization needs to know.
struct NormalizeInput {
  Lblk lblk = 0;                  // first block wanted (cluster aligned)
  std::uint32_t len_clusters = 0; // wanted
  std::uint64_t i_size = 0;       // bytes
  Lblk lleft = 0, lright = 0;
  Blk pleft = 0, pright = 0;
  /// End of the inode's nearest live preallocation to the left of lblk, start
  /// of the nearest to the right; file blocks.
  std::optional<std::uint64_t> left_pa_end, right_pa_start;
};

struct Normalized {
  std::uint64_t start = 0;        // file block
  std::uint64_t size_blocks = 0;
  std::optional<Blk> goal;        // physical goal by a neighbour: probe it exactly
};

/// Widens a request of a large file to the range worth preallocating
/// (kernel: ext4_mb_normalize_request): by file size, cut by neighbours, the
/// group size and existing preallocations. Never loses lblk.
Normalized normalize(const Geometry& geometry, const NormalizeInput& in);

}  // namespace e4::alloc
