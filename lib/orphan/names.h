// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "orphan/ownership.h"
#include "orphan/record.h"
#include "orphan/volume.h"

namespace e4::orphan {

/// One name in a directory. `name` is raw bytes.
struct DirEntry {
  Ino ino = 0;
  std::string_view name;
};

/// Calls `visit` for every entry in use of a directory's blocks or inline data,
/// "." and ".." included; `visit` returns false to stop. `problem` is set (and the
/// walk goes on with the next block) when a block is no directory block.
Result<void> for_each_entry(Volume& volume, Ino directory, const std::function<bool(const DirEntry&)>& visit,
                            std::string& problem);

/// The first entry that is neither "." nor ".."; empty name: there is none.
struct DirContent {
  std::string first_name;
  Ino first_ino = 0;
  std::string problem;
};
Result<DirContent> look_into_directory(Volume& volume, Ino directory);

/// Names found for the inodes asked for.
struct FoundName {
  Ino directory = 0;
  std::string name;
};
using NameMap = std::unordered_map<Ino, std::vector<FoundName>>;

/// One pass over `directories`.
Result<NameMap> find_names(Volume& volume, const std::vector<Ino>& directories, const InodeSet& wanted);

/// Full paths of the names found; a parent chain that is broken gives "<12>/name".
Result<PathMap> resolve_paths(Volume& volume, const NameMap& names);

}  // namespace e4::orphan
