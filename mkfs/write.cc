// SPDX-License-Identifier: GPL-2.0-only
#include "mkfs/write.h"

#include <ext2fs/ext2fs.h>

#include <cstring>
#include <optional>

#include "image/filsys.h"
#include "mkfs/quota.h"
#include "orphan/format.h"

namespace e4::mkfs {

namespace {

/// The steps of build(), in order, over one libext2fs handle.
class Builder {
 public:
  Builder(const Plan& plan, Draft& draft, image::Filsys fs)
      : p_(plan), draft_(draft), filsys_(std::move(fs)), fs_(filsys_.raw()) {}

  Result<Built> run() {
    identity();
    E4_TRY(clear_edges());
    E4_TRY(group_tables());
    E4_TRY(inode_tables());
    E4_TRY(first_inodes());
    if (ext2fs_has_feature_resize_inode(fs_->super) != 0)
      E4_EXT2(ext2fs_create_resize_inode(fs_), "reserving blocks for online resize");
    E4_TRY(journal());
    E4_TRY(multi_mount_block());
    E4_TRY(orphan_file());
    E4_TRY(quotas());
    E4_TRY(settle());
    for (GroupNo g = 1; g < fs_->group_desc_count; ++g)
      if (ext2fs_bg_has_super(fs_, g) != 0) b_.backups.push_back(ext2fs_group_first_block2(fs_, g));
    b_.groups = fs_->group_desc_count;
    E4_TRY(filsys_.flush(/*backups=*/true));
    E4_TRY(draft_.read(SUPERBLOCK_OFFSET, std::as_writable_bytes(std::span(&b_.super, 1))));
    return std::move(b_);
  }

 private:
  const Plan& p_;
  Draft& draft_;
  image::Filsys filsys_;
  ext2_filsys fs_;
  Built b_;

  void identity() {
    ext2_super_block& s = *fs_->super;
    fs_->now = p_.now;
    s.s_mkfs_time = s.s_lastcheck = static_cast<std::uint32_t>(p_.now);
    s.s_mkfs_time_hi = s.s_lastcheck_hi = s.s_wtime_hi = static_cast<std::uint8_t>(p_.now >> 32);
    std::memcpy(s.s_uuid, p_.uuid.data(), p_.uuid.size());
    std::memcpy(s.s_hash_seed, p_.hash_seed.data(), p_.hash_seed.size());
    s.s_def_hash_version = EXT2_HASH_HALF_MD4;
    s.s_flags |= EXT2_FLAGS_SIGNED_HASH;  // the same on every host, whatever its char is
    if (p_.test_fs) s.s_flags |= EXT2_FLAGS_TEST_FILESYS;
    s.s_creator_os = EXT2_OS_LINUX;
    s.s_errors = p_.errors;
    s.s_max_mnt_count = -1;
    s.s_checkinterval = 0;
    s.s_default_mount_opts = EXT2_DEFM_XATTR_USER | EXT2_DEFM_ACL;
    std::memcpy(s.s_volume_name, p_.label.data(), p_.label.size());
    std::memcpy(s.s_last_mounted, p_.last_mounted.data(), p_.last_mounted.size());
    s.s_encoding = p_.encoding;
    s.s_encoding_flags = p_.encoding_flags;
    if (ext2fs_has_feature_metadata_csum(&s) != 0) s.s_checksum_type = EXT2_CRC32C_CHKSUM;
    ext2fs_init_csum_seed(fs_);
    if (ext2fs_has_feature_csum_seed(&s) != 0) s.s_checksum_seed = fs_->csum_seed;
    fs_->stride = s.s_raid_stride;
    fs_->umask = 077;
  }

  /// Where other file systems and RAID keep their signatures: the boot sectors and the last 64 KiB.
  Result<void> clear_edges() {
    E4_TRY(draft_.zero(0, 1));
    const std::uint64_t blocks = ext2fs_blocks_count(fs_->super);
    const std::uint64_t tail = 65536 / p_.block_bytes;
    if (blocks > tail) E4_TRY(draft_.zero(blocks - tail, tail));
    return {};
  }

  Result<void> group_tables() {
    if (p_.packed_meta_blocks) {
      E4_TRY(packed_tables());
    } else {
      for (GroupNo g = 0; g < fs_->group_desc_count; ++g)
        E4_EXT2(ext2fs_allocate_group_table(fs_, g, nullptr), "group " + std::to_string(g) + ": allocating tables");
    }
    E4_EXT2(ext2fs_convert_subcluster_bitmap(fs_, &fs_->block_map), "counting clusters");
    std::uint64_t used = fs_->super->s_first_data_block;
    for (GroupNo g = 0; g < fs_->group_desc_count; ++g) used += used_clusters(g);
    fs_->super->s_overhead_clusters = static_cast<std::uint32_t>(used);
    return {};
  }

  /// Clusters of a group that the block bitmap marks, counted run by run.
  [[nodiscard]] std::uint64_t used_clusters(GroupNo g) const {
    const blk64_t first = ext2fs_group_first_block2(fs_, g), last = ext2fs_group_last_block2(fs_, g);
    std::uint64_t used = 0;
    for (blk64_t at = first; at <= last;) {
      blk64_t from = 0, to = 0;
      if (ext2fs_find_first_set_block_bitmap2(fs_->block_map, at, last, &from) != 0) break;
      if (ext2fs_find_first_zero_block_bitmap2(fs_->block_map, from, last, &to) != 0) to = last + 1;
      used += (to - first + p_.cluster_blocks - 1) / p_.cluster_blocks - (from - first) / p_.cluster_blocks;
      at = to;
    }
    return used;
  }

  /// With bigalloc the library counted blocks while tables were allocated, not clusters.
  void count_clusters() {
    std::uint64_t free_clusters = 0;
    for (GroupNo g = 0; g < fs_->group_desc_count; ++g) {
      const std::uint64_t blocks = static_cast<std::uint64_t>(ext2fs_group_blocks_count(fs_, g));
      const std::uint64_t left = (blocks + p_.cluster_blocks - 1) / p_.cluster_blocks - used_clusters(g);
      ext2fs_bg_free_blocks_count_set(fs_, g, static_cast<std::uint32_t>(left));
      free_clusters += left;
    }
    ext2fs_free_blocks_count_set(fs_->super, free_clusters * p_.cluster_blocks);
  }

  /// All block bitmaps, then all inode bitmaps, then all tables, from the start of the file system on.
  Result<void> packed_tables() {
    blk64_t goal = fs_->super->s_first_data_block;
    const auto take = [&](blk_t blocks, blk64_t& at) -> Result<void> {
      const blk64_t last = ext2fs_blocks_count(fs_->super) - 1;
      E4_EXT2(ext2fs_get_free_blocks2(fs_, goal, last, blocks, fs_->block_map, &at), "packing tables");
      ext2fs_block_alloc_stats_range(fs_, at, blocks, +1);
      goal = at + blocks;
      return {};
    };
    for (GroupNo g = 0; g < fs_->group_desc_count; ++g) {
      blk64_t at = 0;
      E4_TRY(take(1, at));
      ext2fs_block_bitmap_loc_set(fs_, g, at);
    }
    for (GroupNo g = 0; g < fs_->group_desc_count; ++g) {
      blk64_t at = 0;
      E4_TRY(take(1, at));
      ext2fs_inode_bitmap_loc_set(fs_, g, at);
    }
    for (GroupNo g = 0; g < fs_->group_desc_count; ++g) {
      blk64_t at = 0;
      E4_TRY(take(fs_->inode_blocks_per_group, at));
      ext2fs_inode_table_loc_set(fs_, g, at);
    }
    return {};
  }

  Result<void> inode_tables() {
    for (GroupNo g = 0; g < fs_->group_desc_count; ++g) {
      if (p_.itable_reads_zero) ext2fs_bg_flags_set(fs_, g, EXT2_BG_INODE_ZEROED);
      if (p_.itable_reads_zero || !p_.lazy_itable)
        E4_TRY(draft_.zero(ext2fs_inode_table_loc(fs_, g), fs_->inode_blocks_per_group));
    }
    return {};
  }

  Result<void> first_inodes() {
    E4_EXT2(ext2fs_mkdir(fs_, EXT2_ROOT_INO, EXT2_ROOT_INO, nullptr), "creating the root directory");
    ext2_inode root{};
    E4_EXT2(ext2fs_read_inode(fs_, EXT2_ROOT_INO, &root), "root directory");
    // mkdir obeys the umask meant for lost+found.
    root.i_mode = static_cast<std::uint16_t>(LINUX_S_IFDIR | p_.root_perms.value_or(0755));
    root.i_uid = static_cast<std::uint16_t>(p_.root_uid);
    ext2fs_set_i_uid_high(root, static_cast<std::uint16_t>(p_.root_uid >> 16));
    root.i_gid = static_cast<std::uint16_t>(p_.root_gid);
    ext2fs_set_i_gid_high(root, static_cast<std::uint16_t>(p_.root_gid >> 16));
    E4_EXT2(ext2fs_write_inode(fs_, EXT2_ROOT_INO, &root), "root directory");

    E4_EXT2(ext2fs_mkdir(fs_, EXT2_ROOT_INO, 0, "lost+found"), "creating lost+found");
    E4_EXT2(ext2fs_lookup(fs_, EXT2_ROOT_INO, "lost+found", 10, nullptr, &b_.lost_found_inum), "lost+found");
    // Room for e2fsck to reconnect files without allocating: 16 KiB, two blocks at least, no indirect block.
    for (std::uint32_t n = 1; n < EXT2_NDIR_BLOCKS && (n < 2 || n * p_.block_bytes < 16 * kKiB); ++n)
      E4_EXT2(ext2fs_expand_dir(fs_, b_.lost_found_inum), "expanding lost+found");

    for (Ino ino = EXT2_ROOT_INO + 1; ino < EXT2_FIRST_INODE(fs_->super); ++ino)
      ext2fs_inode_alloc_stats2(fs_, ino, +1, 0);
    ext2fs_inode_alloc_stats2(fs_, EXT2_BAD_INO, +1, 0);
    E4_EXT2(ext2fs_update_bb_inode(fs_, nullptr), "bad block inode");
    return {};
  }

  Result<void> journal() {
    if (p_.journal.blocks == 0) return {};
    if (!p_.journal.size_asked_for && ext2fs_default_journal_size(ext2fs_blocks_count(fs_->super)) < 0)
      return make_error(ErrorKind::no_space, "no room for a journal; take feature 'has_journal' away");
    ext2fs_journal_params params{};
    params.num_journal_blocks = static_cast<blk_t>(p_.journal.blocks);
    params.num_fc_blocks = static_cast<blk_t>(p_.journal.fast_commit_blocks);
    b_.journal_blocks = p_.journal.blocks + p_.journal.fast_commit_blocks;
    b_.fast_commit_blocks = p_.journal.fast_commit_blocks;
    const blk64_t free_blocks = ext2fs_free_blocks_count(fs_->super);
    if (b_.journal_blocks > free_blocks / 2)
      return make_error(ErrorKind::no_space, "a journal of " + std::to_string(b_.journal_blocks) +
                                                 " blocks would take more than half of the " +
                                                 std::to_string(free_blocks) + " free blocks");
    // The library would write every zero of the log; the draft only needs to know where they belong.
    E4_EXT2(ext2fs_add_journal_inode3(fs_, &params, p_.journal.location.value_or(~blk64_t{0}),
                                      EXT2_MKJOURNAL_NO_MNT_CHECK | EXT2_MKJOURNAL_LAZYINIT),
            "creating the journal");
    if (!p_.lazy_journal) E4_TRY(zero_log());
    fs_->super->s_overhead_clusters +=
        static_cast<std::uint32_t>((b_.journal_blocks + p_.cluster_blocks - 1) / p_.cluster_blocks);
    return {};
  }

  /// All of the log but its superblock.
  Result<void> zero_log() {
    struct Run {
      Draft* draft;
      blk64_t first = 0, blocks = 0;
      std::optional<Error> error;
      void end() {
        if (blocks == 0 || error) return;
        if (auto r = draft->zero(first, blocks); !r) error = std::move(r).error();
      }
    } run{&draft_, 0, 0, {}};
    const auto visit = [](ext2_filsys, blk64_t* block, e2_blkcnt_t logical, blk64_t, int, void* context) {
      Run& r = *static_cast<Run*>(context);
      if (logical == 0) return 0;
      if (*block != r.first + r.blocks) {
        r.end();
        r.first = *block;
        r.blocks = 0;
      }
      ++r.blocks;
      return 0;
    };
    E4_EXT2(ext2fs_block_iterate3(fs_, EXT2_JOURNAL_INO, BLOCK_FLAG_DATA_ONLY | BLOCK_FLAG_READ_ONLY, nullptr, visit, &run),
            "walking the journal");
    run.end();
    if (run.error) return *run.error;
    return {};
  }

  Result<void> multi_mount_block() {
    if (ext2fs_has_feature_mmp(fs_->super) == 0) return {};
    E4_EXT2(ext2fs_mmp_init(fs_), "creating the MMP block");
    // The library leaves this host's name in it: nobody's business, and another image on every host.
    std::vector<std::byte> block(p_.block_bytes);
    const std::uint64_t at = fs_->super->s_mmp_block * std::uint64_t{p_.block_bytes};
    E4_TRY(draft_.read(at, block));
    mmp_struct mmp{};
    std::memcpy(&mmp, block.data(), sizeof mmp);
    std::memset(mmp.mmp_nodename, 0, sizeof mmp.mmp_nodename);
    std::memset(mmp.mmp_bdevname, 0, sizeof mmp.mmp_bdevname);
    mmp.mmp_time = static_cast<std::uint64_t>(p_.now);
    E4_EXT2(ext2fs_mmp_csum_set(fs_, &mmp), "MMP block");
    std::memcpy(block.data(), &mmp, sizeof mmp);
    return draft_.write(at, block);
  }

  Result<void> settle() {
    // What the library counted as written while it built; the same on every run.
    fs_->super->s_kbytes_written = draft_.kept_blocks() * p_.block_bytes / 1024;
    fs_->super->s_state |= EXT2_VALID_FS;
    if (p_.cluster_blocks > 1) count_clusters();
    if (ext2fs_has_group_desc_csum(fs_) != 0)
      for (GroupNo g = 0; g < fs_->group_desc_count; ++g) ext2fs_group_desc_csum_set(fs_, g);
    ext2fs_mark_super_dirty(fs_);
    ext2fs_mark_ib_dirty(fs_);
    ext2fs_mark_bb_dirty(fs_);
    return {};
  }

  Result<void> orphan_file() {
    if (p_.orphan_file_blocks == 0) return {};
    // The last group may have been cut: the default follows what is really there.
    b_.orphan_file_blocks = p_.orphan_default ? orphan::default_orphan_file_blocks(ext2fs_blocks_count(fs_->super),
                                                                                   p_.block_bytes, p_.cluster_blocks)
                                              : p_.orphan_file_blocks;
    const blk64_t free_blocks = ext2fs_free_blocks_count(fs_->super);
    if (b_.orphan_file_blocks > free_blocks)
      return make_error(ErrorKind::no_space, "an orphan file of " + std::to_string(b_.orphan_file_blocks) +
                                                 " blocks does not fit into " + std::to_string(free_blocks) +
                                                 " free blocks");
    E4_EXT2(ext2fs_create_orphan_file(fs_, b_.orphan_file_blocks), "creating the orphan file");
    b_.orphan_inum = fs_->super->s_orphan_file_inum;
    return {};
  }
  /// Usage files for users and groups, and for projects with feature project.
  Result<void> quotas() {
    ext2_super_block& s = *fs_->super;
    if (ext2fs_has_feature_quota(&s) == 0) return {};
    std::uint64_t space[2] = {};
    for (const Ino ino : {Ino{EXT2_ROOT_INO}, Ino{b_.lost_found_inum}}) {
      ext2_inode inode{};
      E4_EXT2(ext2fs_read_inode(fs_, ino, &inode), "counting what the root directory uses");
      space[ino != EXT2_ROOT_INO] = ext2fs_inode_i_blocks(fs_, &inode) * 512;
    }
    const auto usages = [&](std::uint32_t root_id) {
      if (root_id == 0) return std::vector<QuotaUsage>{{0, 2, space[0] + space[1]}};
      return std::vector<QuotaUsage>{{0, 1, space[1]}, {root_id, 1, space[0]}};
    };
    s.s_usr_quota_inum = EXT4_USR_QUOTA_INO;
    s.s_grp_quota_inum = EXT4_GRP_QUOTA_INO;
    E4_TRY(system_file(s.s_usr_quota_inum, quota_file(QuotaKind::user, usages(p_.root_uid)), "user quota"));
    E4_TRY(system_file(s.s_grp_quota_inum, quota_file(QuotaKind::group, usages(p_.root_gid)), "group quota"));
    if (ext2fs_has_feature_project(&s) == 0) return {};
    ext2_ino_t ino = 0;
    E4_EXT2(ext2fs_new_inode(fs_, EXT2_ROOT_INO, LINUX_S_IFREG | 0600, nullptr, &ino), "project quota");
    ext2fs_inode_alloc_stats2(fs_, ino, +1, 0);
    s.s_prj_quota_inum = ino;
    return system_file(ino, quota_file(QuotaKind::project, usages(0)), "project quota");
  }

  /// A regular file that no directory names, in an inode already marked as used.
  Result<void> system_file(ext2_ino_t ino, const std::vector<std::byte>& content, const char* what) {
    ext2_inode inode{};
    inode.i_mode = LINUX_S_IFREG | 0600;
    inode.i_links_count = 1;
    if (ext2fs_has_feature_extents(fs_->super) != 0) inode.i_flags = EXT4_EXTENTS_FL;
    E4_EXT2(ext2fs_write_new_inode(fs_, ino, &inode), what);
    ext2_file_t file = nullptr;
    E4_EXT2(ext2fs_file_open(fs_, ino, EXT2_FILE_WRITE, &file), what);
    unsigned written = 0;
    const errcode_t error = ext2fs_file_write(file, content.data(), static_cast<unsigned>(content.size()), &written);
    const errcode_t closed = ext2fs_file_close(file);
    E4_EXT2(error != 0 ? error : closed, what);
    // Nobody edits it by hand, and it belongs to no time but the one it was made at.
    E4_EXT2(ext2fs_read_inode(fs_, ino, &inode), what);
    inode.i_flags |= EXT2_IMMUTABLE_FL;
    inode.i_atime = inode.i_ctime = inode.i_mtime = static_cast<std::uint32_t>(p_.now);
    E4_EXT2(ext2fs_write_inode(fs_, ino, &inode), what);
    return {};
  }
};

}  // namespace

Result<Built> build(const Plan& plan, Draft& draft) {
  image::Filsys fs = E4_TRY(image::Filsys::create(draft, plan.super));
  return Builder(plan, draft, std::move(fs)).run();
}

}  // namespace e4::mkfs
