// SPDX-License-Identifier: GPL-2.0-only
#include <fmt/core.h>

#include <bit>

#include "base/endian.h"
#include "image/filsys.h"

// Superblock sanity, before anything is computed from it. Every rule is one
// line; the first that is broken names the field and its value. Source:
// ext4_fs.h layout, the limits the kernel's ext4_fill_super (6.18) and
// libext2fs's ext2fs_open2 (1.47) enforce.
namespace e4::image {
namespace {

std::uint32_t le(std::uint32_t v) { return std::endian::native == std::endian::little ? v : byteswap(v); }
std::uint16_t le(std::uint16_t v) { return std::endian::native == std::endian::little ? v : byteswap(v); }

Error bad(const char* field, std::uint64_t value, const char* rule) {
  return make_error(ErrorKind::corrupt, fmt::format("superblock: {} is {}: {}", field, value, rule));
}

}  // namespace

Result<void> check_geometry(const ext2_super_block& s, std::uint64_t device_bytes) {
  if (le(s.s_magic) != EXT2_SUPER_MAGIC)
    return make_error(ErrorKind::corrupt, "superblock: bad magic number: not an ext2, ext3 or ext4 file system",
                      EXT2_ET_BAD_MAGIC);
  if (le(s.s_rev_level) > EXT2_MAX_SUPP_REV) return bad("s_rev_level", le(s.s_rev_level), "unknown revision");
  const std::uint32_t incompat = le(s.s_feature_incompat), ro_compat = le(s.s_feature_ro_compat);
  const bool bit64 = (incompat & EXT4_FEATURE_INCOMPAT_64BIT) != 0;
  const bool bigalloc = (ro_compat & EXT4_FEATURE_RO_COMPAT_BIGALLOC) != 0;
  if ((incompat & EXT3_FEATURE_INCOMPAT_JOURNAL_DEV) != 0)
    return make_error(ErrorKind::incompatible, "superblock: this is an external journal device, not a file system");
  if (le(s.s_log_block_size) > 6) return bad("s_log_block_size", le(s.s_log_block_size), "at most 6 (64 KiB)");
  const std::uint64_t bs = std::uint64_t{1024} << le(s.s_log_block_size);
  if (le(s.s_log_cluster_size) > 30 || (bigalloc && le(s.s_log_cluster_size) < le(s.s_log_block_size)) ||
      (!bigalloc && le(s.s_log_cluster_size) != le(s.s_log_block_size)))
    return bad("s_log_cluster_size", le(s.s_log_cluster_size), "does not fit the block size");
  const std::uint64_t ratio = std::uint64_t{1} << (le(s.s_log_cluster_size) - le(s.s_log_block_size));
  const std::uint64_t blocks =
      le(s.s_blocks_count) | (bit64 ? std::uint64_t{le(s.s_blocks_count_hi)} << 32 : 0);
  const std::uint64_t first = le(s.s_first_data_block);
  if (first > 1 || (first == 1 && bs != 1024) || (first == 0 && bs == 1024 && !bigalloc))
    return bad("s_first_data_block", first, "1 with 1 KiB blocks, else 0");
  if (blocks <= first || blocks > (std::uint64_t{1} << 48)) return bad("s_blocks_count", blocks, "out of range");
  if (device_bytes != 0 && blocks > device_bytes / bs)
    return bad("s_blocks_count", blocks, fmt::format("the device holds {} blocks", device_bytes / bs).c_str());
  const std::uint64_t cpg = le(s.s_clusters_per_group), bpg = le(s.s_blocks_per_group);
  if (bpg < 8 || bpg > 8 * bs * ratio || bpg % 8 != 0) return bad("s_blocks_per_group", bpg, "out of range");
  if (bigalloc && (cpg == 0 || cpg > 8 * bs || cpg * ratio != bpg))
    return bad("s_clusters_per_group", cpg, "does not fit s_blocks_per_group");
  std::uint64_t inode_bytes = EXT2_GOOD_OLD_INODE_SIZE, first_ino = EXT2_GOOD_OLD_FIRST_INO;
  if (le(s.s_rev_level) >= EXT2_DYNAMIC_REV) {
    inode_bytes = le(s.s_inode_size);
    first_ino = le(s.s_first_ino);
  }
  if (inode_bytes < EXT2_GOOD_OLD_INODE_SIZE || inode_bytes > bs || !std::has_single_bit(inode_bytes))
    return bad("s_inode_size", inode_bytes, "a power of two from 128 to the block size");
  if (first_ino < EXT2_GOOD_OLD_FIRST_INO) return bad("s_first_ino", first_ino, "at least 11");
  const std::uint64_t ipg = le(s.s_inodes_per_group), per_block = bs / inode_bytes;
  if (ipg < per_block || ipg > 8 * bs || ipg / per_block > bpg)
    return bad("s_inodes_per_group", ipg, "out of range");
  const std::uint64_t groups = (blocks - first + bpg - 1) / bpg;
  if (groups > UINT32_MAX || groups * ipg > UINT32_MAX)
    return bad("s_inodes_per_group", ipg, "more inodes than 32 bits can number");
  if (groups * ipg != le(s.s_inodes_count)) return bad("s_inodes_count", le(s.s_inodes_count), "groups x inodes a group");
  if (first_ino > le(s.s_inodes_count)) return bad("s_first_ino", first_ino, "past the last inode");
  std::uint64_t desc_bytes = EXT2_MIN_DESC_SIZE;
  if (bit64) {
    desc_bytes = le(s.s_desc_size);
    if (desc_bytes < EXT2_MIN_DESC_SIZE_64BIT || desc_bytes > 1024 || desc_bytes > bs || !std::has_single_bit(desc_bytes))
      return bad("s_desc_size", desc_bytes, "a power of two from 64 to 1024");
  }
  if (le(s.s_reserved_gdt_blocks) > bs / 4) return bad("s_reserved_gdt_blocks", le(s.s_reserved_gdt_blocks), "too many");
  const std::uint64_t desc_blocks = (groups + bs / desc_bytes - 1) / (bs / desc_bytes);
  if ((incompat & EXT2_FEATURE_INCOMPAT_META_BG) != 0) {
    if (le(s.s_first_meta_bg) > desc_blocks) return bad("s_first_meta_bg", le(s.s_first_meta_bg), "past the descriptors");
  } else if (desc_blocks + le(s.s_reserved_gdt_blocks) >= bpg && groups > 1) {
    return bad("s_reserved_gdt_blocks", le(s.s_reserved_gdt_blocks), "descriptors do not fit a group");
  }
  if (first + 1 + ((incompat & EXT2_FEATURE_INCOMPAT_META_BG) != 0 ? 0 : desc_blocks) > blocks)
    return bad("s_blocks_count", blocks, "smaller than its own descriptors");
  if (s.s_log_groups_per_flex > 31) return bad("s_log_groups_per_flex", s.s_log_groups_per_flex, "at most 31");
  return {};
}

}  // namespace e4::image
