// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <string>
#include <vector>

#include "cli/io.h"

namespace e4::cli {

/// A tool: arguments without the program name, to an exit status.
using Tool = int (*)(const std::vector<std::string>& args, Io& io);

/// Runs `tool` with the process's streams and environment; the whole body of a
/// main(). The last catch: out of memory and anything thrown become one line
/// on stderr and exit_status::kOperational. SIGINT, SIGTERM, SIGHUP request
/// io.stop; a second one ends the process at once. SIGPIPE is ignored: a reader
/// that went away must not stop a repair half-way.
int run(int argc, char** argv, Tool tool);

/// The last catch alone, for tests.
int guarded(const std::string& name, const std::vector<std::string>& args, Io& io, Tool tool);

}  // namespace e4::cli
