// SPDX-License-Identifier: GPL-2.0-only
#include "orphan/freeing.h"

namespace e4::orphan {
namespace {

/// Each distinct cluster once: within a file the blocks of a cluster are logical neighbours.
template <class Each>
Result<void> each_cluster(const Geometry& geo, const std::vector<Run>& runs, const std::vector<Blk>& meta,
                          std::uint64_t keep, Each&& each) {
  std::uint64_t last = keep;
  const auto one = [&](Blk first, std::uint32_t blocks) -> Result<void> {
    const std::uint64_t end = geo.cluster_of(first + blocks - 1);
    for (std::uint64_t c = geo.cluster_of(first); c <= end; ++c) {
      if (c == last) continue;
      last = c;
      E4_TRY(each(geo.first_data_block + c * geo.cluster_blocks));
    }
    return {};
  };
  for (const Run& r : runs) E4_TRY(one(r.physical, r.blocks));
  for (const Blk b : meta) E4_TRY(one(b, 1));
  return {};
}

}  // namespace

Result<std::uint64_t> free_clusters(Volume& volume, const std::vector<Run>& runs, const std::vector<Blk>& meta,
                                    std::uint64_t keep) {
  std::uint64_t n = 0;
  E4_TRY(each_cluster(volume.geo(), runs, meta, keep, [&](Blk b) -> Result<void> {
    ++n;
    return volume.free_cluster(b);
  }));
  return n;
}

std::uint64_t count_clusters(const Geometry& geo, const std::vector<Run>& runs, const std::vector<Blk>& meta,
                             std::uint64_t keep) {
  std::uint64_t n = 0;
  const auto counted = each_cluster(geo, runs, meta, keep, [&n](Blk) -> Result<void> {
    ++n;
    return {};
  });
  return counted ? n : 0;
}

Tail runs_from(const Geometry& geo, const std::vector<Run>& runs, std::uint64_t end) {
  Tail tail;
  for (const Run& r : runs) {
    if (r.logical + r.blocks <= end) {
      tail.keep = geo.cluster_of(r.physical + r.blocks - 1);
      continue;
    }
    if (r.logical >= end) {
      tail.runs.push_back(r);
      continue;
    }
    const auto kept = static_cast<std::uint32_t>(end - r.logical);
    tail.keep = geo.cluster_of(r.physical + kept - 1);
    tail.runs.push_back({end, r.physical + kept, r.blocks - kept, r.unwritten});
  }
  return tail;
}

}  // namespace e4::orphan
