// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include "base/units.h"
#include "check/judge.h"

namespace e4::check {

struct Options {
  Mode mode = Mode::read_only;
  bool force = false;             // -f: every group's bitmaps are counted, not only those recovery touched
  Blk superblock = 0;             // -b: block number of a backup superblock to use; 0: the primary
  std::uint32_t block_bytes = 0;  // -B: block size that -b counts in; 0: found out
  std::string undo_path = {};     // -z: undo file; empty: none
  std::uint64_t now = 0;          // seconds since 1970, for every time that is written
  std::stop_token stop = {};      // requested: finish the unit at hand and end
};

}  // namespace e4::check
