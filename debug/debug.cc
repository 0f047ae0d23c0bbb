// SPDX-License-Identifier: GPL-2.0-only
#include "debug/debug.h"

#include <fstream>
#include <istream>
#include <ostream>

#include "cli/exit_status.h"
#include "debug/commands.h"
#include "debug/options.h"
#include "debug/session.h"

namespace e4::debug {
namespace {

constexpr int kCommandFailed = 1;

/// Blank lines and lines that start with '#' are nothing.
Result<void> read_commands(std::istream& in, std::vector<std::string>& out) {
  for (std::string line; std::getline(in, line);) {
    const auto first = line.find_first_not_of(" \t\r");
    if (first != std::string::npos && line[first] != '#') out.push_back(line.substr(first));
  }
  return {};
}

Result<std::vector<std::string>> all_commands(const Options& options, cli::Io& io) {
  std::vector<std::string> list = options.commands;
  if (!options.command_file) return list;
  if (*options.command_file == "-") {
    E4_TRY(read_commands(io.in, list));
    return list;
  }
  std::ifstream file(*options.command_file);
  if (!file) return make_error(ErrorKind::io, *options.command_file + ": cannot be read");
  E4_TRY(read_commands(file, list));
  return list;
}

int run_commands(Session& session, const std::vector<std::string>& list, cli::Io& io) {
  int status = cli::exit_status::kOk;
  for (const std::string& line : list) {
    if (io.stop.stop_requested()) return cli::exit_status::kCancelled;
    const auto done = execute(session, line);
    io.out << std::flush;
    if (done) continue;
    io.err << "e4debug: " << line << ": " << done.error().message() << '\n';
    status = kCommandFailed;
    if (session.options().stop) break;
  }
  return status;
}

}  // namespace

int run(const std::vector<std::string>& args, cli::Io& io) {
  const auto options = parse_options(args);
  if (!options) {
    io.err << "e4debug: " << options.error().message() << '\n';
    return cli::exit_status::kUsage;
  }
  if (options->done) {
    io.out << options->text;
    return cli::exit_status::kOk;
  }
  const auto list = all_commands(*options, io);
  if (!list) {
    io.err << "e4debug: " << list.error().message() << '\n';
    return cli::exit_status::kOperational;
  }
  const auto session = Session::open(*options, io);
  if (!session) {
    io.err << "e4debug: " << session.error().message() << '\n';
    return cli::exit_status::kOperational;
  }
  for (const std::string& name : (*session)->unknown_features())
    io.err << "e4debug: " << options->image << ": unknown feature " << name << ": looking only\n";
  return run_commands(**session, *list, io);
}

}  // namespace e4::debug
