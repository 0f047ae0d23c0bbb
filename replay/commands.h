// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include "cli/io.h"
#include "replay/options.h"

// One function a command: its options, to an exit status. An Error is printed
// by the caller and means "could not".
namespace e4::replay {

Result<int> cmd_compare(const CompareOptions& options, cli::Io& io);
Result<int> cmd_info(const InfoOptions& options, cli::Io& io);
Result<int> cmd_policies(const PoliciesOptions& options, cli::Io& io);
Result<int> cmd_record(const RecordOptions& options, cli::Io& io);
Result<int> cmd_run(const RunOptions& options, cli::Io& io);
Result<int> cmd_what_if(const WhatIfOptions& options, cli::Io& io);
Result<int> cmd_report(const ReportOptions& options, cli::Io& io);
Result<int> cmd_generate(const GenerateOptions& options, cli::Io& io);
Result<int> cmd_step(const StepOptions& options, cli::Io& io);
Result<int> cmd_sweep(const SweepOptions& options, cli::Io& io);
Result<int> cmd_merge(const MergeOptions& options, cli::Io& io);
Result<int> cmd_materialize(const MaterializeOptionsLine& options, cli::Io& io);

}  // namespace e4::replay
