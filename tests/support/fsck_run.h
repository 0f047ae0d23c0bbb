// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace e4::testing_support {

struct FsckRun {
  int status = -1;
  std::string out, err;
};
/// Runs e4fsck in this process. `answers`: what a user at a terminal types;
/// without them there is no terminal. Time is fixed by E2FSCK_TIME, so two
/// runs over the same image write the same bytes.
FsckRun e4fsck(const std::vector<std::string>& args, const std::string* answers = nullptr);
/// The JSON document of `e4fsck ... --json`; throws when it is not one.
nlohmann::json e4fsck_json(std::vector<std::string> args);

struct ProcessRun {
  int status = -1;
  std::string output;  // both streams
};
/// Another program, its output kept.
ProcessRun run_tool(const std::vector<std::string>& argv);
/// `e2fsck -fn IMAGE`, the independent second opinion.
ProcessRun e2fsck_fn(const std::string& image);
/// debugfs -w with these commands, in order; throws when debugfs does not run.
void debugfs(const std::string& image, const std::vector<std::string>& commands);
/// A sparse file of `size` ("32M") formatted with mke2fs and these options.
void mke2fs(const std::string& image, const std::string& size, const std::vector<std::string>& options);
/// Unpacks a .zst to a sparse file.
void unzstd(const std::string& source, const std::string& target);
void copy_file(const std::string& from, const std::string& to);

inline constexpr long long kFixedTime = 1'800'000'000;

}  // namespace e4::testing_support
