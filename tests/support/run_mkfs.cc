// SPDX-License-Identifier: GPL-2.0-only
#include "tests/support/run_mkfs.h"

#include <sstream>

#include "cli/run.h"
#include "mkfs/mkfs.h"

namespace e4::testing_support {

namespace {

ToolRun run(const std::vector<std::string>& args, const std::map<std::string, std::string>& environment, bool terminal,
            const std::string& answer) {
  std::istringstream in(answer);
  std::ostringstream out, err;
  cli::Io io{.in = in, .out = out, .err = err, .in_is_terminal = terminal, .out_is_terminal = terminal,
             .environment = [&](const char* name) {
               const auto it = environment.find(name);
               return it == environment.end() ? std::string() : it->second;
             }};
  ToolRun r;
  r.status = cli::guarded("e4mkfs", args, io, mkfs::run);
  r.out = out.str();
  r.err = err.str();
  return r;
}

}  // namespace

ToolRun run_mkfs(const std::vector<std::string>& args, const std::map<std::string, std::string>& environment) {
  return run(args, environment, false, "");
}

ToolRun run_mkfs_at_terminal(const std::vector<std::string>& args, const std::string& answer) {
  return run(args, {}, true, answer);
}

}  // namespace e4::testing_support
