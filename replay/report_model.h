// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// What a report page shows, and nothing about how it looks: filled by the
// commands that replay, read by report_html.
namespace e4::replay {

/// One slice of the trace's own time.
struct TimelineSlice {
  double at_s = 0;                    // start of the slice, seconds from the first event
  std::uint64_t decisions = 0;        // allocations completed in it
  std::uint64_t groups_scanned = 0;   // groups looked at by them
  std::uint64_t lock_waits = 0;       // times a lock was waited for or skipped
};

struct CriterionRow {
  std::string name;                   // the kernel's name (CR_POWER2_ALIGNED ...), or "goal", "preallocation"
  std::uint64_t decisions = 0;        // allocations it satisfied
  std::uint64_t groups = 0;           // groups considered in it
};

/// One bar of a free-run histogram: runs of 2^order .. 2^(order+1)-1 clusters.
struct FreeRunBar {
  unsigned order = 0;
  std::uint64_t runs = 0, clusters = 0;
};

struct LatencyPoint {
  double percentile = 0;              // 0..100
  double nanoseconds = 0;
};

struct FileRow {
  std::uint32_t ino = 0;
  std::uint64_t blocks = 0;
  std::uint64_t extents = 0;
};

/// One replay of one file system under one set of policies.
struct ReportRun {
  std::string name;                                        // "linux-6.18", "busy-groups=wait" ...
  std::vector<std::pair<std::string, std::string>> facts;  // shown as a list, in order
  double decisions_per_s = 0, cpu_s = 0, wall_s = 0;
  std::uint64_t decisions = 0;
  std::uint64_t groups_scanned = 0;
  std::uint64_t lock_waits = 0;
  double extents_per_file = 0;
  double locality = 0;                                     // share of a file's extents in its first group, 0..1
  std::vector<TimelineSlice> timeline;
  std::vector<CriterionRow> criteria;
  std::vector<LatencyPoint> latency;
  std::vector<float> used_before, used_after;              // share in use of each cell of the disk, 0..1
  std::vector<FreeRunBar> free_before, free_after;
  std::vector<FileRow> files;                              // most fragmented first
};

struct ReportModel {
  std::string title;
  std::string subtitle;
  std::string verdict;                                     // in words; may be empty
  std::vector<ReportRun> runs;                             // one, or several side by side (what-if)
};

}  // namespace e4::replay
