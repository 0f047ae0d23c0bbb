// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <functional>
#include <stop_token>
#include <string>

#include "base/result.h"
#include "replay/options.h"

namespace e4::replay {

struct Recorded {
  std::uint64_t events = 0, lost = 0;
  int command_status = 0;
  std::vector<std::string> notes;
};

/// Makes a recording of a mounted ext4 file system.
///
/// The file system is unmounted, its start state saved (e2image: metadata
/// only), and mounted again with tracing on, so that the allocator's state at
/// the start is what the image says: no preallocations, no group loaded. Then
/// the command runs (in the mount point), or time passes until `stop`. At the
/// end it is synced, mb_groups is read, it is unmounted, the end state saved,
/// and it is mounted again as it was found.
/// Whatever happens: tracing ends, the instance is gone, the file system is
/// mounted again; a recording that was not finished is removed.
/// `say`: one line of progress each.
Result<Recorded> record(const RecordOptions& options, std::stop_token stop, const std::function<void(const std::string&)>& say);

}  // namespace e4::replay
