// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>

#include "orphan/volume.h"

namespace e4::orphan {

/// What speaks against an inode *number*, before the inode is looked at:
/// kRange, kReserved, kSpecial (facts: the kernel refuses all three).
std::uint32_t number_reasons(const Volume& volume, Ino ino);

}  // namespace e4::orphan
