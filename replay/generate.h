// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace e4::replay {

struct GenerateOptions {
  std::string workload;
  std::string image;                // start image; empty: one is made with e4mkfs
  std::string size = "1G";          // of the image that is made
  std::uint32_t block_bytes = 4096; // ... and its blocks
  std::string output;               // recording directory to make
  std::uint64_t seed = 1;
  std::uint32_t cpus = 2;
  std::uint32_t count = 0;          // how many files, steps or loops; 0: the workload's own default
  unsigned fill_percent = 80;       // ageing: how full it gets
  std::vector<std::string> set;     // name=value: tunables and mount options
  bool json = false;
};

struct WorkloadInfo {
  const char* name;
  const char* what;
  std::uint32_t count;              // default
};
const std::vector<WorkloadInfo>& workloads();

struct Generated {
  std::uint64_t events = 0, decisions = 0;
  std::uint64_t free_blocks = 0;
  std::string stopped;              // why it ended early; empty: it did not
};

/// Makes a synthetic recording: the same seed gives the same bytes. The
/// decisions are those of our allocator with the default policies.
Result<Generated> generate(const GenerateOptions& options);

}  // namespace e4::replay
