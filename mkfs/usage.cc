// SPDX-License-Identifier: GPL-2.0-only
#include "mkfs/usage.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "base/units.h"

namespace e4::mkfs {

namespace {

struct Usage {
  std::string_view name;
  std::int64_t block_bytes;   // 0: leave
  std::uint64_t inode_ratio;  // 0: leave
  std::uint32_t inode_bytes;  // 0: leave
};
constexpr std::array kUsages = {
    Usage{"floppy", 1024, 8192, 0},        Usage{"small", 1024, 4096, 0},     Usage{"default", 0, 0, 0},
    Usage{"big", 0, 32768, 0},             Usage{"huge", 0, 65536, 0},        Usage{"news", 0, 4096, 0},
    Usage{"largefile", -1, 1048576, 0},    Usage{"largefile4", -1, 4194304, 0}, Usage{"hurd", 4096, 0, 128},
};

constexpr std::string_view kBase[] = {"sparse_super", "large_file", "filetype", "resize_inode", "dir_index", "ext_attr"};
// metadata_csum_seed is not among them: GRUB before 2.12 refuses to read it, and the orphan file does not need it.
constexpr std::string_view kExt4[] = {"has_journal",   "extent", "huge_file", "flex_bg",     "metadata_csum",
                                      "64bit",         "dir_nlink", "extra_isize", "orphan_file"};

void add(image::FeatureBits& bits, std::string_view name) {
  const auto bit = image::parse_feature(name);
  if (bit) bits.word(bit->word) |= bit->mask;
}

}  // namespace

Result<Defaults> look_up(const std::string& type, const std::vector<std::string>& usage, std::uint64_t fs_bytes) {
  Defaults d;
  for (const std::string_view name : kBase) add(d.features, name);
  if (type == "ext3") {
    add(d.features, "has_journal");
  } else if (type == "ext4") {
    for (const std::string_view name : kExt4) add(d.features, name);
  } else if (type != "ext2") {
    return make_error(ErrorKind::usage, "unknown type '" + type + "': one of ext2, ext3, ext4");
  }
  d.usage = usage;
  if (d.usage.empty()) {
    constexpr std::uint64_t kTiB = 1024 * kGiB;
    d.usage.push_back(fs_bytes < 3 * kMiB     ? "floppy"
                      : fs_bytes < 512 * kMiB ? "small"
                      : fs_bytes < 4 * kTiB   ? "default"
                      : fs_bytes < 16 * kTiB  ? "big"
                                              : "huge");
  }
  for (const std::string& name : d.usage) {
    const auto u = std::ranges::find(kUsages, std::string_view(name), &Usage::name);
    if (u == kUsages.end()) {
      std::string known;
      for (const Usage& k : kUsages) known += (known.empty() ? "" : ", ") + std::string(k.name);
      return make_error(ErrorKind::usage, "unknown usage type '" + name + "': one of " + known);
    }
    if (u->block_bytes != 0) d.block_bytes = u->block_bytes;
    if (u->inode_ratio != 0) d.inode_ratio = u->inode_ratio;
    if (u->inode_bytes != 0) d.inode_bytes = u->inode_bytes;
  }
  if (d.block_bytes < 0) d.block_bytes = 4096;
  return d;
}

}  // namespace e4::mkfs
