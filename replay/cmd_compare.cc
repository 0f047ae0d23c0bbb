// SPDX-License-Identifier: GPL-2.0-only
#include <ostream>

#include "replay/commands.h"
#include "replay/comparison.h"
#include "replay/replay.h"
#include "replay/ticker.h"

namespace e4::replay {

Result<int> cmd_compare(const CompareOptions& options, cli::Io& io) {
  Ticker ticker(io, "compare");
  const Comparison c = E4_TRY(compare(options, [&](std::uint64_t done, std::optional<std::uint64_t> total) {
    return ticker.tick(done, total);
  }));
  ticker.done();
  io.out << (options.json ? comparison_json(c) : comparison_text(c, options.verbose));
  return c.all_identical() ? kSame : kDiffers;
}

}  // namespace e4::replay
