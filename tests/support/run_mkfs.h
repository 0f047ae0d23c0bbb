// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <map>
#include <string>
#include <vector>

namespace e4::testing_support {

/// What a tool run in-process said.
struct ToolRun {
  int status = -1;
  std::string out, err;
};

/// e4mkfs in this process, with an environment of its own.
ToolRun run_mkfs(const std::vector<std::string>& args, const std::map<std::string, std::string>& environment = {});

/// The same with a person at a terminal who types `answer`.
ToolRun run_mkfs_at_terminal(const std::vector<std::string>& args, const std::string& answer);

}  // namespace e4::testing_support
