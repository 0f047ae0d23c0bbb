// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "orphan/volume.h"

namespace e4::check {

/// Lets `change` edit the raw inode in the overlay, then puts its checksum right.
Result<void> edit_inode(orphan::Volume& volume, Ino ino, const std::function<void(std::span<std::byte>)>& change);

/// Puts inodes with links 0 that no list knows at the head of the legacy list,
/// so that the next transaction makes them orphans for whoever recovers after
/// a cut. Inodes that cannot be read are passed over.
Result<void> put_on_list(orphan::Volume& volume, const std::vector<Ino>& inodes);

}  // namespace e4::check
