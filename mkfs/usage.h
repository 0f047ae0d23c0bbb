// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "image/features.h"

namespace e4::mkfs {

/// What a file system of a type and usage starts from. The table is built in:
/// no /etc/mke2fs.conf is read, so the same command gives the same image on
/// every host. The numbers are those of e2fsprogs's shipped configuration.
struct Defaults {
  image::FeatureBits features;
  std::int64_t block_bytes = 4096;  // -1: the largest Linux mounts everywhere, 4096
  std::uint64_t inode_ratio = 16384;
  std::uint32_t inode_bytes = 256;
  std::vector<std::string> usage;   // the usage types that were applied
};

/// `type`: ext2, ext3, ext4. `usage`: what -T named; when empty it is chosen
/// by `fs_bytes`: floppy below 3 MiB, small below 512 MiB, default, big from
/// 4 TiB, huge from 16 TiB. Errors (usage): an unknown type or usage.
Result<Defaults> look_up(const std::string& type, const std::vector<std::string>& usage, std::uint64_t fs_bytes);

}  // namespace e4::mkfs
