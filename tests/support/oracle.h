// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace e4::testing_support {

/// The folder of recorded images (E4_CORPUS, or ../shared/corpus beside the
/// working directory); empty when there is none.
std::string corpus_folder();

/// "Free blocks: ..." and "Free inodes: ..." of every group as dumpe2fs prints
/// them, and the totals of its superblock (in blocks).
struct FreeSpace {
  std::vector<std::string> lists;
  unsigned long long free_blocks = 0, free_inodes = 0;
};
FreeSpace free_space(const std::string& image);
std::string sha256_of_lists(const std::vector<std::string>& lists);

/// What the image holds at each path, in the form compare_files() takes.
nlohmann::json describe_files(const std::string& image, const std::vector<std::string>& paths);
/// Compares what the image holds at each path of `files` (entries as in
/// oracle.json: type, links, owner, size, sectors, content, target, device,
/// attributes) with what is recorded. Returns one line a difference.
std::vector<std::string> compare_files(const std::string& image, const nlohmann::json& files);
/// Every path in the image, sorted.
std::vector<std::string> all_paths(const std::string& image);

}  // namespace e4::testing_support
