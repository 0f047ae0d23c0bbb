// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "orphan/orphan_file.h"
#include "orphan/orphan_list.h"
#include "orphan/record.h"
#include "orphan/volume.h"

namespace e4::orphan {

struct ClassifyOptions {
  /// Look for directory entries that name an orphan with links 0.
  enum class Names : std::uint8_t {
    never,
    automatic,  // when there are orphans and the directories are at most 1 GiB
    always,
  } names = Names::automatic;
  bool paths = false;          // also look up the paths of linked orphans
  bool find_unlisted = false;  // also allocated inodes with links 0 on no list (after fast commits)
  bool prove_ownership = true; // scan the mappings of all inodes in use; without it nothing with blocks is released
};

struct Ledger;

struct Totals {
  std::uint64_t listed = 0;  // on the legacy list
  std::uint64_t in_file = 0;
  std::uint64_t unlisted = 0;
  std::uint64_t erase = 0, truncate = 0, drop = 0, fix_links = 0, leave = 0;
  std::uint64_t back_bytes = 0;
};

/// Everything pending, judged before anything is changed (Linux 6.18 order:
/// list head to tail, then blocks and slots). The plan release() follows.
struct Plan {
  std::vector<Record> records;
  FileReport file;
  ListReport list;
  PathMap paths;               // for linked or named orphans, when looked for
  bool names_checked = false;  // directories were scanned
  bool ownership_proved = true;  // false: an inode or group in use could not be read
  std::vector<Ino> shared_quota_files;  // not sole owners of their blocks: the release leaves them alone
  std::vector<std::string> obstacles;  // what stood in the way of the proof, one line each (at most 16)
  std::shared_ptr<const Ledger> ledger;  // what the orphans share with others: attribute blocks and inodes
  [[nodiscard]] Totals totals() const;
  [[nodiscard]] bool empty() const { return records.empty(); }
};

Result<Plan> classify(Volume& volume, const ClassifyOptions& options = {});

}  // namespace e4::orphan
