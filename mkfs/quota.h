// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace e4::mkfs {

enum class QuotaKind { user, group, project };

/// What one user, group or project uses.
struct QuotaUsage {
  std::uint32_t id = 0;
  std::uint64_t inodes = 0, bytes = 0;
};

/// A quota file (format 2, revision 1: 64-bit limits) without limits, as the
/// kernel and e2fsck read it. In blocks of 1 KiB, whatever the file system's:
/// header and info; then a tree of four levels of 256 references, keyed by the
/// bytes of the id from the highest on; its leaves name data blocks of 72-byte
/// entries. At most 14 usages, one data block. Grace periods are a week.
std::vector<std::byte> quota_file(QuotaKind kind, const std::vector<QuotaUsage>& usages);

}  // namespace e4::mkfs
