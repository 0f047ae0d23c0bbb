// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "orphan/mapping.h"
#include "orphan/volume.h"

namespace e4::orphan {

inline constexpr std::uint64_t kNoCluster = ~std::uint64_t{0};

/// Gives back every cluster of `runs` (logical order) and `meta` once, except
/// `keep` (the cluster in which the rest of the file ends). Returns how many.
/// Sole ownership has been proved; a cluster found free is an Error (corrupt).
Result<std::uint64_t> free_clusters(Volume& volume, const std::vector<Run>& runs, const std::vector<Blk>& meta,
                                    std::uint64_t keep = kNoCluster);

/// How many clusters that would be, without doing it.
std::uint64_t count_clusters(const Geometry& geo, const std::vector<Run>& runs, const std::vector<Blk>& meta,
                             std::uint64_t keep = kNoCluster);

/// The part of `runs` from logical block `end` on, and the cluster the part before ends in (kNoCluster: none).
struct Tail {
  std::vector<Run> runs;
  std::uint64_t keep = kNoCluster;
};
Tail runs_from(const Geometry& geo, const std::vector<Run>& runs, std::uint64_t end);

}  // namespace e4::orphan
