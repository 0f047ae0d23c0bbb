// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <string>
#include <vector>

#include "check/pipeline.h"
#include "cli/io.h"

namespace e4::fsck {

/// The whole tool. Returns its exit status.
int fsck(const std::vector<std::string>& args, cli::Io& io);

/// e4fsck(8), "EXIT STATUS": 4 when something is left, else 1 when a finding
/// was repaired, else 0 (replaying the journal and releasing orphans is no
/// repair); 8 added when the run ended early; 12 when an unknown feature kept
/// us from writing or looking; 32 added when the user stopped it.
int exit_status_of(const check::Outcome& outcome);

}  // namespace e4::fsck
