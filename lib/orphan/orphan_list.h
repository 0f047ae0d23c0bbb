// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "orphan/volume.h"

namespace e4::orphan {

/// The legacy chain: s_last_orphan, then each inode's i_dtime, 0 ends it.
struct ListReport {
  enum class End : std::uint8_t {
    clean,     // reached 0
    loop,      // came back to an inode it had passed
    range,     // next is above s_inodes_count
    reserved,  // next is below s_first_ino, or special
    free,      // next is not allocated
    unreadable // the inode cannot be read
  };
  std::vector<Ino> inodes;  // valid members, head first
  End end = End::clean;
  Ino bad = 0;     // the number the chain broke at
  Ino before = 0;  // the member that pointed to it; 0: the superblock
};
std::string_view to_string(ListReport::End end);

/// Walks the chain; bounded by s_inodes_count, each inode once.
Result<ListReport> read_orphan_list(Volume& volume);

}  // namespace e4::orphan
