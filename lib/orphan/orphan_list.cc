// SPDX-License-Identifier: GPL-2.0-only
#include "orphan/orphan_list.h"

#include "orphan/inode.h"
#include "orphan/ownership.h"
#include "orphan/record.h"
#include "orphan/validity.h"

namespace e4::orphan {

std::string_view to_string(ListReport::End end) {
  switch (end) {
    case ListReport::End::clean: return "clean";
    case ListReport::End::loop: return "loop";
    case ListReport::End::range: return "range";
    case ListReport::End::reserved: return "reserved";
    case ListReport::End::free: return "free";
    case ListReport::End::unreadable: return "unreadable";
  }
  return "";
}

Result<ListReport> read_orphan_list(Volume& volume) {
  ListReport list;
  InodeTable inodes(volume);
  Ino next = volume.last_orphan();
  if (next == 0) return list;
  InodeSet seen(volume.geo().inodes_count);
  const auto end = [&](ListReport::End how) {
    list.end = how;
    list.bad = next;
    return list;
  };
  while (next != 0) {
    const std::uint32_t wrong = number_reasons(volume, next);
    if ((wrong & kRange) != 0) return end(ListReport::End::range);
    if ((wrong & (kReserved | kSpecial)) != 0) return end(ListReport::End::reserved);
    if (!seen.insert(next)) return end(ListReport::End::loop);
    const auto used = volume.inode_in_use(next);
    if (!used) return end(ListReport::End::unreadable);
    if (!*used) return end(ListReport::End::free);
    const auto raw = inodes.view(next);
    if (!raw || !inode_checksum_ok(volume.geo(), next, *raw)) return end(ListReport::End::unreadable);
    list.inodes.push_back(next);
    list.before = next;
    next = InodeView(*raw).dtime();
  }
  list.before = 0;
  return list;
}

}  // namespace e4::orphan
