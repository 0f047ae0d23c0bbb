// SPDX-License-Identifier: GPL-2.0-only
#include "replay/tree_plan.h"

#include <algorithm>

namespace e4::replay {
namespace {

constexpr std::uint32_t kRootEntries = 4;
constexpr std::uint32_t kRunMax = 32768, kUnwrittenMax = 32767;

/// Joins neighbours and cuts at the format's limits and at the file's end.
std::vector<MappedRun> normal_form(const std::vector<MappedRun>& runs, Lblk size_blocks) {
  std::vector<MappedRun> joined;
  for (MappedRun r : runs) {
    if (r.lblk < size_blocks && std::uint64_t{r.lblk} + r.len_blocks > size_blocks) {
      MappedRun head = r;
      head.len_blocks = size_blocks - r.lblk;
      joined.push_back(head);
      r.lblk += head.len_blocks;
      r.pblk += head.len_blocks;
      r.len_blocks -= head.len_blocks;
    }
    r.unwritten = r.unwritten || r.lblk >= size_blocks;
    joined.push_back(r);
  }
  std::vector<MappedRun> out;
  for (const MappedRun& r : joined) {
    if (!out.empty()) {
      MappedRun& q = out.back();
      if (q.unwritten == r.unwritten && std::uint64_t{q.lblk} + q.len_blocks == r.lblk && q.pblk + q.len_blocks == r.pblk) {
        q.len_blocks += r.len_blocks;
        continue;
      }
    }
    out.push_back(r);
  }
  std::vector<MappedRun> legal;
  for (MappedRun r : out) {
    const std::uint32_t most = r.unwritten ? kUnwrittenMax : kRunMax;
    while (r.len_blocks > most) {
      MappedRun head = r;
      head.len_blocks = most;
      legal.push_back(head);
      r.lblk += most;
      r.pblk += most;
      r.len_blocks -= most;
    }
    legal.push_back(r);
  }
  return legal;
}

std::uint64_t total(const std::vector<std::uint32_t>& levels) {
  std::uint64_t n = 0;
  for (const auto c : levels) n += c;
  return n;
}

}  // namespace

std::vector<std::uint32_t> tree_levels(std::uint64_t entries, std::uint32_t capacity) {
  std::vector<std::uint32_t> levels;
  while (entries > kRootEntries) {
    entries = (entries + capacity - 1) / capacity;
    levels.insert(levels.begin(), static_cast<std::uint32_t>(entries));
  }
  return levels;
}

TreePlan plan_tree(std::vector<MappedRun> runs, std::vector<Blk> meta, std::vector<MappedRun> loose, Lblk size_blocks,
                   std::uint32_t capacity, std::uint32_t cluster_blocks) {
  std::sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) { return a.lblk < b.lblk; });
  std::vector<MappedRun> mapped;
  std::uint64_t end = 0;
  for (MappedRun r : runs) {
    if (r.lblk < end) {
      loose.push_back(r);
      continue;
    }
    end = std::uint64_t{r.lblk} + r.len_blocks;
    mapped.push_back(r);
  }
  std::uint64_t behind = std::max<std::uint64_t>(end, size_blocks) + 1;  // a gap, so that it never joins the data
  auto append = [&](Blk pblk, std::uint32_t len) {
    const std::uint64_t offset = pblk % cluster_blocks;
    behind = (behind + cluster_blocks - 1) / cluster_blocks * cluster_blocks + offset;
    mapped.push_back({static_cast<Lblk>(behind), pblk, len, true});
    behind += len;
  };
  std::sort(loose.begin(), loose.end(), [](const auto& a, const auto& b) { return a.pblk < b.pblk; });
  for (const auto& r : loose) append(r.pblk, r.len_blocks);

  std::sort(meta.begin(), meta.end());
  TreePlan plan;
  for (;;) {
    plan.runs = normal_form(mapped, size_blocks);
    std::vector<std::uint32_t> levels = tree_levels(plan.runs.size(), capacity);
    // A tree block where the inode would do is legal: the kernel does not take depth back either.
    if (levels.empty() && !plan.runs.empty() && !meta.empty()) levels = {1};
    // Too many tree blocks: first let leaves be emptier, then turn one into a run and look again.
    while (total(levels) < meta.size() && !levels.empty() && levels.back() < plan.runs.size()) {
      std::vector<std::uint32_t> wider = tree_levels(levels.back() + std::uint64_t{1}, capacity);
      wider.push_back(levels.back() + 1);
      if (levels.size() == 1 && wider.size() > 1 && total(wider) > meta.size()) break;
      if (total(wider) > meta.size()) break;
      levels = std::move(wider);
    }
    if (total(levels) < meta.size()) {
      append(meta.back(), cluster_blocks);
      meta.pop_back();
      continue;
    }
    plan.extra_needed = static_cast<std::uint32_t>(total(levels) - meta.size());
    plan.levels.clear();
    std::size_t next = 0;
    for (const std::uint32_t count : levels) {
      auto& level = plan.levels.emplace_back();
      for (std::uint32_t i = 0; i < count; ++i) level.push_back(next < meta.size() ? meta[next++] : Blk{0});
    }
    return plan;
  }
}

}  // namespace e4::replay
