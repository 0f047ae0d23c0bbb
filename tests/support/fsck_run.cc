// SPDX-License-Identifier: GPL-2.0-only
#include "support/fsck_run.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "cli/run.h"
#include "fsck/fsck.h"
#include "support/child.h"
#include "support/temp_dir.h"

namespace e4::testing_support {

namespace {

std::string slurp(const std::string& path) {
  std::ifstream f(path, std::ios::binary);
  std::ostringstream s;
  s << f.rdbuf();
  return s.str();
}

void must(const ProcessRun& r, const std::string& what) {
  if (r.status != 0) throw std::runtime_error(fmt::format("{}: exit {}\n{}", what, r.status, r.output));
}

}  // namespace

FsckRun e4fsck(const std::vector<std::string>& args, const std::string* answers) {
  std::istringstream in(answers != nullptr ? *answers : "");
  std::ostringstream out, err;
  cli::Io io{.in = in,
             .out = out,
             .err = err,
             .in_is_terminal = answers != nullptr,
             .out_is_terminal = answers != nullptr,
             .environment = [](const char* name) {
               return std::strcmp(name, "E2FSCK_TIME") == 0 ? std::to_string(kFixedTime) : std::string();
             }};
  const int status = cli::guarded("e4fsck", args, io, fsck::fsck);
  return {status, out.str(), err.str()};
}

nlohmann::json e4fsck_json(std::vector<std::string> args) {
  args.emplace_back("--json");
  const FsckRun r = e4fsck(args);
  auto j = nlohmann::json::parse(r.out, nullptr, false);
  if (j.is_discarded()) throw std::runtime_error("not JSON: " + r.out + r.err);
  if (j["exit_status"] != r.status) throw std::runtime_error("exit status in the document differs from the process's");
  return j;
}

ProcessRun run_tool(const std::vector<std::string>& argv) {
  const TempDir dir;
  const std::string log = dir / "log";
  const ChildRun r = run_child(argv, log);
  return {r.status, slurp(log)};
}

ProcessRun e2fsck_fn(const std::string& image) { return run_tool({"e2fsck", "-fn", image}); }

void debugfs(const std::string& image, const std::vector<std::string>& commands) {
  const TempDir dir;
  const std::string script = dir / "script";
  std::ofstream f(script);
  for (const std::string& c : commands) f << c << '\n';
  f.close();
  must(run_tool({"debugfs", "-w", "-f", script, image}), "debugfs " + image);
}

void mke2fs(const std::string& image, const std::string& size, const std::vector<std::string>& options) {
  std::vector<std::string> argv = {"mke2fs", "-Fq"};
  argv.insert(argv.end(), options.begin(), options.end());
  argv.push_back(image);
  argv.push_back(size);
  must(run_tool(argv), "mke2fs");
}

void unzstd(const std::string& source, const std::string& target) {
  must(run_tool({"zstd", "-d", "-q", "-f", "--sparse", source, "-o", target}), "zstd -d " + source);
}

void copy_file(const std::string& from, const std::string& to) { must(run_tool({"cp", "--sparse=always", from, to}), "cp"); }

}  // namespace e4::testing_support
