// SPDX-License-Identifier: GPL-2.0-only
#include "replay/commands.h"

namespace e4::replay {

Result<int> cmd_record(const RecordOptions&, cli::Io&) { return make_error(ErrorKind::incompatible, "record: not built in"); }

}  // namespace e4::replay
