// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "alloc/allocator.h"
#include "trace/free_run.h"
#include "trace/script.h"

namespace e4::trace {

/// A histogram of times, fifteen steps to a doubling, so 5 per cent wide.
class LatencyHistogram {
 public:
  void add(std::uint64_t ns);
  void merge(const LatencyHistogram& other);
  /// Nanoseconds below which `percent` of the samples lie; 0 without samples.
  [[nodiscard]] double percentile(double percent) const;
  [[nodiscard]] std::uint64_t samples() const { return samples_; }

 private:
  static constexpr unsigned kSteps = 16;
  std::array<std::uint64_t, 64 * kSteps> counts_{};
  std::uint64_t samples_ = 0;
};

enum class Mapping : std::uint8_t {
  inode,  // an inode's events on one thread, inodes spread evenly
  cpu,    // ... on the thread of the CPU that first worked on it
};

struct RunOptions {
  unsigned threads = 1;           // 1..1024
  Mapping mapping = Mapping::inode;
  unsigned slices = 60;           // of the timeline
  unsigned latency_every = 1;     // measure every n-th request
};

struct RunSlice {
  std::uint64_t decisions = 0, groups_scanned = 0, lock_waits = 0;
};
struct RunFile {
  std::uint64_t blocks = 0, extents = 0;
  std::uint64_t in_first_group = 0;  // extents in the group of the file's first one
};

struct RunResult {
  double wall_s = 0, cpu_s = 0;
  std::uint64_t operations = 0, decisions = 0, frees = 0, refused = 0, no_space = 0;
  std::uint64_t free_errors = 0;
  /// By criterion 0..5; [6] goal probe, [7] preallocation.
  std::array<std::uint64_t, 8> decisions_by{}, groups_by{};
  LatencyHistogram latency;
  std::vector<RunSlice> timeline;
  std::unordered_map<Ino, RunFile> files;  // that exist at the end and got blocks in the run
  alloc::Stats stats;                      // of the run alone
};

/// Runs a script on an allocator, as fast as it goes. An inode's events keep
/// their order; a commit takes effect when every thread has passed it. Threads
/// are started, and then released together; reading the script is not timed.
Result<RunResult> run_script(const Script& script, alloc::Allocator& allocator, const RunOptions& options);

}  // namespace e4::trace
