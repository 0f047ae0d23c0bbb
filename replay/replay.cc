// SPDX-License-Identifier: GPL-2.0-only
#include "replay/replay.h"

#include <ostream>

#include "cli/exit_status.h"
#include "replay/commands.h"

namespace e4::replay {
namespace {

struct Dispatch {
  cli::Io& io;
  Result<int> operator()(std::monostate) const { return make_error(ErrorKind::usage, "which command?"); }
  Result<int> operator()(const CompareOptions& o) const { return cmd_compare(o, io); }
  Result<int> operator()(const InfoOptions& o) const { return cmd_info(o, io); }
  Result<int> operator()(const PoliciesOptions& o) const { return cmd_policies(o, io); }
  Result<int> operator()(const RecordOptions& o) const { return cmd_record(o, io); }
  Result<int> operator()(const RunOptions& o) const { return cmd_run(o, io); }
  Result<int> operator()(const WhatIfOptions& o) const { return cmd_what_if(o, io); }
  Result<int> operator()(const ReportOptions& o) const { return cmd_report(o, io); }
  Result<int> operator()(const GenerateOptions& o) const { return cmd_generate(o, io); }
  Result<int> operator()(const StepOptions& o) const { return cmd_step(o, io); }
  Result<int> operator()(const SweepOptions& o) const { return cmd_sweep(o, io); }
  Result<int> operator()(const MergeOptions& o) const { return cmd_merge(o, io); }
  Result<int> operator()(const MaterializeOptionsLine& o) const { return cmd_materialize(o, io); }
};

}  // namespace

int run(const std::vector<std::string>& args, cli::Io& io) {
  auto options = parse_options(args);
  if (!options) {
    io.err << "e4replay: " << options.error().message() << "\n";
    return cli::exit_status::kUsage;
  }
  if (!options->text.empty()) {
    io.out << options->text;
    return kSame;
  }
  auto status = std::visit(Dispatch{io}, options->command);
  if (status) {
    io.out.flush();
    if (!io.out) {
      io.err << "e4replay: cannot write the output\n";
      return kCouldNot;
    }
    return *status;
  }
  io.err << "e4replay: " << status.error().message() << "\n";
  if (status.error().kind == ErrorKind::cancelled) return cli::exit_status::kCancelled;
  return kCouldNot;
}

}  // namespace e4::replay
