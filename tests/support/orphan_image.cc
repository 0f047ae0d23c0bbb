// SPDX-License-Identifier: GPL-2.0-only
#include "support/orphan_image.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/crc32c.h"
#include "base/endian.h"
#include "image/filsys.h"

namespace e4::testing_support {
namespace {

using image::Filsys;

struct OrphanFile {
  Ino ino = 0;
  std::vector<Blk> blocks;
};

int collect_block(ext2_filsys, blk64_t* block, e2_blkcnt_t lblk, blk64_t, int, void* data) {
  if (lblk >= 0) static_cast<std::vector<Blk>*>(data)->push_back(*block);
  return 0;
}

Result<OrphanFile> find_orphan_file(Filsys& fs) {
  OrphanFile f;
  f.ino = fs.super().s_orphan_file_inum;
  E4_EXT2(ext2fs_block_iterate3(fs.raw(), f.ino, BLOCK_FLAG_READ_ONLY, nullptr, collect_block, &f.blocks), "orphan file");
  return f;
}

Result<void> write_slots(Filsys& fs, const OrphanFile& file, const std::vector<Ino>& in_file, bool csum) {
  const std::size_t per_block = (fs.block_bytes() - 8) / 4;
  const std::uint32_t seed = crc32c_le32(crc32c_le32(fs.csum_seed(), file.ino), 0);
  std::size_t next = 0;
  for (const Blk b : file.blocks) {
    std::vector<std::byte> data(fs.block_bytes());
    for (std::size_t s = 0; s < per_block && next < in_file.size(); ++s) store<le32>(data.data(), 4 * s, in_file[next++]);
    store<le32>(data.data(), fs.block_bytes() - 8, 0x0B10CA04U);
    if (csum) store<le32>(data.data(), fs.block_bytes() - 4, crc32c(crc32c_le64(seed, b), data.data(), 4 * per_block));
    E4_TRY(fs.device().write(b * fs.block_bytes(), data));
  }
  return {};
}

}  // namespace

Result<void> make_orphan_image(const std::string& path, const OrphanImage& what) {
  const std::uint64_t blocks = std::uint64_t{what.orphans} * (what.blocks_each + 1) + 65536;
  const std::string cmd =
      "mke2fs -Fq -t ext4 -b " + std::to_string(what.block_bytes) + " -I 256 -N " +
      std::to_string(what.orphans + 4096) + " -E lazy_itable_init=1,nodiscard,orphan_file_size=" +
      std::to_string(std::uint64_t{what.orphan_blocks} * what.block_bytes / 1024) + "k -O orphan_file," +
      (what.metadata_csum ? "" : "^") + "metadata_csum " + path + " " +
      std::to_string(blocks * what.block_bytes / 1024) + "k >/dev/null 2>&1";
  if (std::system(cmd.c_str()) != 0) return make_error(ErrorKind::usage, "did not run: " + cmd);
  auto device = E4_TRY(image::open_file(path, {.writable = true}));
  auto fs = E4_TRY(Filsys::open(*device, {.writable = true}));
  E4_TRY(fs.read_bitmaps());
  const OrphanFile file = E4_TRY(find_orphan_file(fs));
  const std::size_t room = file.blocks.size() * ((what.block_bytes - 8) / 4);

  std::vector<Ino> in_file;
  Ino ino = fs.super().s_first_ino, list_head = 0;
  blk64_t block = 0;
  for (std::uint32_t i = 0; i < what.orphans; ++i) {
    E4_EXT2(ext2fs_find_first_zero_inode_bitmap2(fs.raw()->inode_map, ino, fs.super().s_inodes_count, &ino), "inodes");
    ext2_inode_large inode{};
    inode.i_mode = LINUX_S_IFREG | 0600;
    inode.i_size = what.blocks_each * what.block_bytes;
    inode.i_blocks = what.blocks_each * (what.block_bytes / 512);
    inode.i_flags = EXT4_EXTENTS_FL;
    inode.i_extra_isize = 32;
    inode.i_generation = i;
    auto* words = reinterpret_cast<unsigned char*>(inode.i_block);
    store<le16>(words, 0, 0xF30AU);
    store<le16>(words, 2, what.blocks_each != 0 ? 1U : 0U);
    store<le16>(words, 4, 4U);
    if (what.blocks_each != 0) {
      E4_EXT2(ext2fs_find_first_zero_block_bitmap2(fs.raw()->block_map, std::max<blk64_t>(block, fs.super().s_first_data_block),
                                                   ext2fs_blocks_count(fs.raw()->super) - 1, &block),
              "blocks");
      // Runs are short of metadata only at group starts: step over what does not fit.
      while (ext2fs_test_block_bitmap_range2(fs.raw()->block_map, block, static_cast<blk_t>(what.blocks_each)) == 0)
        ++block;
      store<le16>(words, 16, what.blocks_each);
      store<le16>(words, 18, static_cast<std::uint32_t>(block >> 32));
      store<le32>(words, 20, static_cast<std::uint32_t>(block));
      ext2fs_block_alloc_stats_range(fs.raw(), block, what.blocks_each, +1);
      block += what.blocks_each;
    }
    if (in_file.size() < room) {
      in_file.push_back(ino);
    } else {
      inode.i_dtime = list_head;
      list_head = ino;
    }
    ext2fs_inode_alloc_stats2(fs.raw(), ino, +1, 0);
    E4_EXT2(ext2fs_write_inode_full(fs.raw(), ino, reinterpret_cast<ext2_inode*>(&inode), sizeof inode), "inode");
    ++ino;
  }
  E4_TRY(write_slots(fs, file, in_file, what.metadata_csum));
  fs.super().s_last_orphan = list_head;
  ext2fs_set_feature_orphan_present(&fs.super());
  ext2fs_mark_super_dirty(fs.raw());
  return fs.flush(true);
}

}  // namespace e4::testing_support
