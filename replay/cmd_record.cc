// SPDX-License-Identifier: GPL-2.0-only
#include <ostream>

#include "replay/commands.h"
#include "replay/recorder.h"
#include "replay/replay.h"

namespace e4::replay {

Result<int> cmd_record(const RecordOptions& options, cli::Io& io) {
  const Recorded r = E4_TRY(record(options, io.stop, [&](const std::string& line) { io.err << "e4replay: " << line << "\n"; }));
  for (const std::string& n : r.notes) io.err << "e4replay: note: " << n << "\n";
  io.out << options.output << ": " << r.events << " events, " << r.lost << " lost\n";
  return r.lost == 0 ? kSame : kDiffers;
}

}  // namespace e4::replay
