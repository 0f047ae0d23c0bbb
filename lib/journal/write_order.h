// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <vector>

#include "base/units.h"
#include "image/overlay.h"

namespace e4::journal {

/// Sorts blocks that have to go out in place, without a log, into steps such
/// that a run cut between or inside steps is repeated safely by the next:
/// bitmaps and descriptors, blocks of files, inode tables, orphan file,
/// superblock. A flush belongs between steps. Steps may be empty.
std::vector<std::vector<Blk>> in_place_steps(image::Overlay& overlay, const std::vector<Blk>& blocks);

}  // namespace e4::journal
