// SPDX-License-Identifier: GPL-2.0-only
#include "alloc/normalize.h"

#include <algorithm>

namespace e4::alloc {

namespace {

struct Window {
  std::uint64_t start_bytes, size_bytes;
};

Window size_class(const Geometry& g, std::uint64_t size, std::uint64_t lblk, std::uint64_t len_blocks) {
  constexpr std::uint64_t kBounds[] = {16 * kKiB, 32 * kKiB, 64 * kKiB, 128 * kKiB, 256 * kKiB, 512 * kKiB, kMiB};
  for (const std::uint64_t bound : kBounds)
    if (size <= bound) return {0, bound};
  // "2 * block size <= limit": the largest window a small block size allows.
  const std::uint64_t pair = 2 * std::uint64_t{g.block_bytes};
  const std::uint64_t offset = lblk * g.block_bytes;
  const auto window = [offset](std::uint64_t bytes) { return Window{offset & ~(bytes - 1), bytes}; };
  if (size <= 4 * kMiB || pair <= 2 * kKiB) return window(2 * kMiB);
  if (size <= 8 * kMiB || pair <= 4 * kKiB) return window(4 * kMiB);
  if (len_blocks <= 8 * kMiB / g.block_bytes || pair <= 8 * kKiB) return window(8 * kMiB);
  return {offset, len_blocks * g.block_bytes};
}

}  // namespace

Normalized normalize(const Geometry& g, const NormalizeInput& in) {
  constexpr std::uint64_t kMaxLblk = 0xFFFFFFFFULL;
  const std::uint64_t lblk = in.lblk;
  const std::uint64_t len = std::uint64_t{in.len_clusters} << g.cluster_bits;
  const std::uint64_t size_bytes = std::max((lblk + len) * g.block_bytes, in.i_size);
  const Window w = size_class(g, size_bytes, lblk, len);
  std::uint64_t start = w.start_bytes / g.block_bytes;
  std::uint64_t size = w.size_bytes / g.block_bytes;

  // The block wanted must stay within one group's worth of the start.
  start = std::max(start, lblk - lblk % g.blocks_per_group);
  if (start + size > kMaxLblk) size = kMaxLblk - start;
  if (in.pleft != 0 && start <= in.lleft) {
    const std::uint64_t cut = std::uint64_t{in.lleft} + 1 - start;
    size = size > cut ? size - cut : 0;
    start = std::uint64_t{in.lleft} + 1;
  }
  if (in.pright != 0 && start + size > in.lright) size = in.lright > start ? in.lright - start : 0;
  size = std::min<std::uint64_t>(size, g.blocks_per_group);

  std::uint64_t end = start + size;
  if (in.left_pa_end) start = std::max(start, *in.left_pa_end);
  if (in.right_pa_start) end = std::min(end, *in.right_pa_start);
  // Neighbours of a consistent file never cut the wanted block away; a
  // hostile recording's may: then the request itself is the window.
  if (start > lblk || end <= lblk) {
    start = lblk;
    end = lblk + std::max<std::uint64_t>(1, std::min<std::uint64_t>(len, g.blocks_per_group));
  }
  size = end - start;

  Normalized out{start, size, std::nullopt};
  const auto exists = [&g](Blk b) { return b >= g.first_data_block && b < g.blocks_count; };
  if (in.pright != 0 && in.lright == start + size && in.pright >= size && exists(in.pright - size))
    out.goal = in.pright - size;
  if (in.pleft != 0 && std::uint64_t{in.lleft} + 1 == start && exists(in.pleft + 1)) out.goal = in.pleft + 1;
  return out;
}

}  // namespace e4::alloc
