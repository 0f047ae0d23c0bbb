// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/units.h"

namespace e4::orphan {

/// Where an orphan was found.
enum class Source : std::uint8_t {
  list,      // the chain from s_last_orphan through i_dtime
  file,      // a slot of the orphan file
  unlisted,  // allocated with links 0 and on neither (after a fast-commit replay)
};

/// What the entry is.
enum class State : std::uint8_t { erase, truncate, drop, invalid };

/// What recovery will do about it.
enum class Action : std::uint8_t {
  erase,      // free inode and blocks, clear the entry
  truncate,   // cut what lies past i_size, clear the entry
  drop,       // clear the entry, do not touch the inode
  fix_links,  // names exist: set i_links_count to their number, clear the entry
  leave,      // entry and inode stay for the full check
};

/// Why an entry is not simply erased or truncated; a set of bits.
enum Reason : std::uint32_t {
  kRange = 1U << 0,         // number above s_inodes_count
  kReserved = 1U << 1,      // below s_first_ino
  kSpecial = 1U << 2,       // journal, quota, orphan file, lost+found
  kFree = 1U << 3,          // its bit in the inode bitmap is clear
  kDuplicate = 1U << 4,     // seen before, on the list or in the file
  kLoop = 1U << 5,          // the list comes back to an inode it has passed
  kUnreadable = 1U << 6,    // inode table, mapping or attributes cannot be read
  kWrongType = 1U << 7,     // mode of no known type, or linked and not truncatable
  kNamed = 1U << 8,         // links 0, yet a directory entry names it
  kCsum = 1U << 9,          // inode checksum wrong
  kShared = 1U << 10,       // a block of it is metadata, another inode's, free, or out of range
  kUnproved = 1U << 11,     // ownership could not be proved: another inode or group is unreadable
  kNotEmpty = 1U << 12,     // a directory that still has entries
  kVerity = 1U << 13,       // fs-verity: the tree lies past i_size on purpose
  kCovered = 1U << 14,      // nothing lies past i_size
  kBadNext = 1U << 15,      // list: i_dtime is no inode number; the chain ends here
  kGroup = 1U << 16,        // descriptor or bitmap of its group is damaged
  kReferenced = 1U << 17,   // an attribute inode something still refers to
};
/// "range", "reserved", ... for each bit, in bit order.
std::vector<std::string_view> reason_names(std::uint32_t reasons);
std::string_view to_string(Source source);
std::string_view to_string(State state);    // delete, truncate, drop, invalid
std::string_view to_string(Action action);  // delete, truncate, drop, fix-links, leave

/// One entry of list or file. Sizes in bytes unless the name says otherwise.
struct Record {
  static constexpr std::uint32_t kNone = ~0U;
  Ino ino = 0;
  std::uint32_t block = kNone;  // logical block of the orphan file
  std::uint32_t slot = kNone;   // within that block; list: position from the head
  std::uint32_t reasons = 0;    // bits of Reason
  std::uint32_t uid = 0, gid = 0, flags = 0, generation = 0, dtime = 0;
  std::uint32_t project = 0;
  std::uint16_t mode = 0, links = 0;
  Source source = Source::file;
  State state = State::invalid;
  Action action = Action::leave;
  bool done = false;            // release() has dealt with it
  std::uint64_t size_bytes = 0;
  std::uint64_t held_bytes = 0;  // i_blocks
  std::uint64_t back_bytes = 0;  // what its action gives back, attribute blocks and inodes included
  std::uint32_t ea_refs = 0;     // attribute inodes its attributes refer to
};

using PathMap = std::unordered_map<Ino, std::vector<std::string>>;

}  // namespace e4::orphan
