// SPDX-License-Identifier: GPL-2.0-only
#include "mkfs/plan.h"

#include <ext2fs/ext2fs.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/crc32c.h"
#include "base/units.h"
#include "mkfs/choose.h"
#include "mkfs/size.h"
#include "mkfs/usage.h"
#include "orphan/format.h"

namespace e4::mkfs {

namespace {

constexpr std::uint32_t kMinBlock = 1024, kMaxBlock = 65536;
constexpr std::uint32_t kPage = 4096;                       // what a host that mounts the image has at least
constexpr std::uint64_t kMinJournalBlocks = 1024, kMaxJournalBlocks = 10240000;

Error usage(std::string text) { return make_error(ErrorKind::usage, std::move(text)); }

std::uint64_t magnitude(std::int64_t n) {  // of INT64_MIN too
  return n < 0 ? 0 - static_cast<std::uint64_t>(n) : static_cast<std::uint64_t>(n);
}

/// The steps of plan(), in order; each reads what the ones before decided.
class Planner {
 public:
  Planner(const Wishes& wishes, const Surroundings& world) : w_(wishes), world_(world) {}

  Result<Plan> run() {
    x_ = E4_TRY(parse_extended(w_.extended, world_.own_uid, world_.own_gid));
    j_ = E4_TRY(parse_journal(w_.journal));
    E4_TRY(sizes());
    E4_TRY(features());
    E4_TRY(groups());
    E4_TRY(inodes());
    E4_TRY(journal());
    E4_TRY(orphan_file());
    E4_TRY(identity());
    E4_TRY(rest());
    p_.features = choice_.bits();
    p_.super.s_feature_compat = p_.features.compat;
    p_.super.s_feature_incompat = p_.features.incompat;
    p_.super.s_feature_ro_compat = p_.features.ro_compat;
    p_.notes.insert(p_.notes.begin(), choice_.notes().begin(), choice_.notes().end());
    return std::move(p_);
  }

 private:
  const Wishes& w_;
  const Surroundings& world_;
  Extended x_;
  JournalWishes j_;
  Defaults d_;
  Choice choice_;
  Plan p_;
  std::uint32_t inode_bytes_ = 256;

  [[nodiscard]] std::uint64_t fs_bytes() const { return p_.blocks * p_.block_bytes; }

  /// Block size, size of the file system, defaults by type and usage.
  Result<void> sizes() {
    if (w_.revision != 1) return usage("revision " + std::to_string(w_.revision) + ": only revision 1 is made");
    if (w_.block_bytes) {
      const std::uint64_t b = magnitude(*w_.block_bytes);
      if (!is_power_of_two(b) || b < kMinBlock || b > kMaxBlock)
        return usage("block size " + std::to_string(b) + ": a power of two from 1024 to 65536 is needed");
    }
    p_.offset_bytes = x_.offset_bytes;
    std::uint64_t bytes = 0;
    if (w_.size) {
      const bool exact = w_.block_bytes && *w_.block_bytes > 0;
      auto parsed = parse_bytes(*w_.size, exact ? static_cast<std::uint64_t>(*w_.block_bytes) : kKiB);
      if (!parsed) return Error(std::move(parsed).error()).context("file system size");
      bytes = *parsed;
      if (bytes == 0) return usage("file system size 0");
      if (world_.block_device && bytes > world_.target_bytes)
        return make_error(ErrorKind::no_space, w_.image + " holds " + std::to_string(world_.target_bytes) +
                                                   " bytes; the file system would need " + std::to_string(bytes));
      if (bytes > static_cast<std::uint64_t>(INT64_MAX) - p_.offset_bytes) return usage("offset and size are too large");
    } else {
      if (!world_.exists) return usage("The file " + w_.image + " does not exist and no size was specified");
      bytes = world_.target_bytes;
      if (bytes == 0) return usage(w_.image + " is empty and no size was specified");
    }
    d_ = E4_TRY(look_up(w_.type, w_.usage, bytes));
    p_.usage = d_.usage;
    std::uint64_t block = static_cast<std::uint64_t>(d_.block_bytes);
    if (block < world_.sector_bytes) block = world_.sector_bytes;
    if (w_.block_bytes) {
      const std::uint64_t b = magnitude(*w_.block_bytes);
      block = *w_.block_bytes < 0 ? std::max(block, b) : b;
    }
    if (block < world_.sector_bytes || block > kMaxBlock)
      return usage("block size " + std::to_string(block) + ": the device's sectors have " +
                   std::to_string(world_.sector_bytes) + " bytes");
    p_.block_bytes = static_cast<std::uint32_t>(block);
    if (block > kPage)
      p_.notes.push_back("blocks of " + std::to_string(block) + " bytes: Linux before 6.19 mounts this only where pages are as large");
    p_.blocks = bytes / block;
    // A device's odd tail below a page would make the last block unreachable through a page cache of whole pages.
    if (!w_.size && block < kPage) p_.blocks &= ~(kPage / block - 1);
    if (p_.blocks == 0) return make_error(ErrorKind::no_space, "not one block fits into " + std::to_string(bytes) + " bytes");
    if (p_.blocks >= std::uint64_t{1} << 48) return usage("more than 2^48 blocks");
    return {};
  }

  Result<void> features() {
    choice_ = E4_TRY(Choice::make(d_.features, w_.features));
    if (w_.want_journal || !w_.journal.empty()) {
      if (choice_.asked_against("has_journal")) return usage("a journal was asked for and taken away (has_journal)");
      choice_.need("has_journal");
    }
    if (x_.orphan_file_size) {
      if (choice_.asked_against("orphan_file"))
        return usage("orphan_file_size was given, but feature 'orphan_file' was taken away");
      choice_.need("orphan_file");
    }
    if (x_.encoding) choice_.need("casefold");
    if (x_.resize) choice_.need("resize_inode");
    for (const std::string& text : w_.readers) {
      const auto reader = image::parse_reader(text);
      if (!reader) return usage("'" + text + "': not linux-VERSION, e2fsprogs-VERSION or grub-VERSION");
      E4_TRY(choice_.suit(*reader));
    }
    if (choice_.has("has_journal") && ext2fs_default_journal_size(p_.blocks) < 0) {
      const bool sized = j_.megabytes.has_value();
      E4_TRY(choice_.drop("has_journal", "the file system is too small for a journal (2048 blocks at least)" +
                                             std::string(sized ? " of any size" : "")));
    }
    inode_bytes_ = d_.inode_bytes;
    if (w_.inode_bytes) {
      if (!is_power_of_two(*w_.inode_bytes) || *w_.inode_bytes < 128 || *w_.inode_bytes > p_.block_bytes)
        return usage("inode size " + std::to_string(*w_.inode_bytes) + ": a power of two from 128 to the block size (" +
                     std::to_string(p_.block_bytes) + ") is needed");
      inode_bytes_ = static_cast<std::uint32_t>(*w_.inode_bytes);
    }
    E4_TRY(choice_.settle(inode_bytes_));
    if (p_.blocks > UINT32_MAX) {
      if (!choice_.has("64bit"))
        return usage(std::to_string(p_.blocks) + " blocks of " + std::to_string(p_.block_bytes) +
                     " bytes need feature '64bit' or larger blocks");
      E4_TRY(choice_.drop("resize_inode", "it cannot describe more than 2^32 blocks"));
    }
    return {};
  }

  Result<void> groups() {
    ext2_super_block& s = p_.super;
    s.s_rev_level = EXT2_DYNAMIC_REV;
    s.s_log_block_size = static_cast<std::uint32_t>(std::countr_zero(p_.block_bytes)) - 10;
    s.s_log_cluster_size = s.s_log_block_size;
    if (choice_.has("bigalloc")) {
      std::uint64_t cluster = std::uint64_t{16} * p_.block_bytes;
      if (w_.cluster_bytes) cluster = E4_TRY(parse_bytes(*w_.cluster_bytes, 1));
      if (!is_power_of_two(cluster) || cluster < p_.block_bytes || cluster > std::uint64_t{1} << 29)
        return usage("cluster size " + std::to_string(cluster) + ": a power of two from the block size (" +
                     std::to_string(p_.block_bytes) + ") to 2^29 is needed");
      p_.cluster_blocks = static_cast<std::uint32_t>(cluster / p_.block_bytes);
      s.s_log_cluster_size = static_cast<std::uint32_t>(std::countr_zero(cluster)) - 10;
    } else if (w_.cluster_bytes) {
      return usage("a cluster size needs feature 'bigalloc'");
    }
    ext2fs_blocks_count_set(&s, p_.blocks);
    if (w_.reserved_percent) {
      if (!(*w_.reserved_percent >= 0 && *w_.reserved_percent <= 50))
        return usage("reserved blocks: 0 to 50 percent, not " + std::to_string(*w_.reserved_percent));
      p_.reserved_percent = *w_.reserved_percent;
    }
    ext2fs_r_blocks_count_set(&s, static_cast<blk64_t>(p_.reserved_percent * static_cast<double>(p_.blocks) / 100.0));
    if (w_.group_blocks) {
      const std::uint64_t g = *w_.group_blocks;
      const std::uint64_t most = std::min<std::uint64_t>(std::uint64_t{8} * p_.block_bytes, 65528) * p_.cluster_blocks;
      if (g % 8 != 0 || g < 256 || g > most || g % p_.cluster_blocks != 0)
        return usage("blocks per group " + std::to_string(g) + ": a multiple of 8 and of the cluster from 256 to " +
                     std::to_string(most) + " is needed");
      s.s_blocks_per_group = static_cast<std::uint32_t>(g);
      s.s_clusters_per_group = static_cast<std::uint32_t>(g / p_.cluster_blocks);
    }
    if (choice_.has("flex_bg")) {
      const std::uint64_t flex = w_.flex_groups.value_or(16);
      if (!is_power_of_two(flex) || flex > std::uint64_t{1} << 30)
        return usage("flex_bg size " + std::to_string(flex) + ": a power of two is needed");
      s.s_log_groups_per_flex = static_cast<std::uint8_t>(std::countr_zero(flex));
    } else if (w_.flex_groups) {
      return usage("a flex_bg size needs feature 'flex_bg'");
    }
    p_.packed_meta_blocks = x_.packed_meta_blocks;
    if (p_.packed_meta_blocks && !choice_.has("flex_bg")) return usage("packed_meta_blocks needs feature 'flex_bg'");
    if (x_.num_backup_sb && !choice_.has("sparse_super2")) return usage("num_backup_sb needs feature 'sparse_super2'");
    if (choice_.has("sparse_super2")) {
      const unsigned n = x_.num_backup_sb.value_or(2);
      s.s_backup_bgs[0] = n >= 1 ? 1 : 0;
      s.s_backup_bgs[1] = n >= 2 ? ~0U : 0;  // the library puts the last group here
    }
    s.s_raid_stride = static_cast<std::uint16_t>(x_.stride_blocks);
    s.s_raid_stripe_width = x_.stripe_blocks;
    if (x_.resize) E4_TRY(room_to_grow());
    return {};
  }

  /// Descriptor blocks kept free so that the file system can grow to -E resize=.
  Result<void> room_to_grow() {
    const std::uint64_t most = E4_TRY(parse_bytes(*x_.resize, p_.block_bytes)) / p_.block_bytes;
    if (most <= p_.blocks)
      return usage("extended option 'resize=" + *x_.resize + "': must be larger than the file system (" +
                   std::to_string(p_.blocks) + " blocks)");
    if (most > UINT32_MAX) return usage("extended option 'resize=" + *x_.resize + "': more than 2^32 blocks");
    const std::uint64_t per_group =
        p_.super.s_blocks_per_group != 0 ? p_.super.s_blocks_per_group
                                         : std::min<std::uint64_t>(std::uint64_t{8} * p_.block_bytes, 65528) * p_.cluster_blocks;
    const std::uint64_t per_block = p_.block_bytes / (choice_.has("64bit") ? 64 : 32);
    const std::uint64_t now_blocks = ceil_div(ceil_div(p_.blocks, per_group), per_block);
    const std::uint64_t later = ceil_div(ceil_div(most, per_group), per_block);
    p_.super.s_reserved_gdt_blocks =
        static_cast<std::uint16_t>(std::min<std::uint64_t>(later - now_blocks, p_.block_bytes / 4));
    return {};
  }

  Result<void> inodes() {
    ext2_super_block& s = p_.super;
    s.s_inode_size = static_cast<std::uint16_t>(inode_bytes_);
    std::uint64_t ratio = d_.inode_ratio;
    if (w_.inode_ratio) {
      ratio = E4_TRY(parse_bytes(*w_.inode_ratio, 1));
      if (ratio < 1024 || ratio > 64 * kMiB)
        return usage("bytes per inode " + *w_.inode_ratio + ": 1024 to 67108864");
    } else {
      ratio = std::max<std::uint64_t>(ratio, std::uint64_t{p_.block_bytes} * p_.cluster_blocks);
    }
    std::uint64_t n = w_.inodes.value_or(fs_bytes() / ratio);
    if (n > UINT32_MAX) {
      if (w_.inodes || !choice_.has("64bit")) return usage(std::to_string(n) + " inodes: 2^32 - 1 is the most");
      n = UINT32_MAX;
    }
    if (w_.inodes && n == 0) return usage("0 inodes");
    if (n * inode_bytes_ >= fs_bytes())
      return make_error(ErrorKind::no_space, std::to_string(n) + " inodes of " + std::to_string(inode_bytes_) +
                                                 " bytes do not fit into " + std::to_string(p_.blocks) + " blocks");
    s.s_inodes_count = static_cast<std::uint32_t>(n);
    if (inode_bytes_ == 128) p_.notes.push_back("inodes of 128 bytes cannot hold dates beyond 2038");
    return {};
  }

  Result<void> journal() {
    if (!choice_.has("has_journal")) return {};
    const auto by_default = static_cast<std::uint64_t>(std::max(ext2fs_default_journal_size(p_.blocks), 0));
    p_.journal.blocks = by_default;
    if (j_.megabytes) {
      p_.journal.size_asked_for = true;
      p_.journal.blocks = *j_.megabytes * kMiB / p_.block_bytes;
      if (p_.journal.blocks < kMinJournalBlocks || p_.journal.blocks > kMaxJournalBlocks)
        return usage("journal size " + std::to_string(*j_.megabytes) + " MiB is " + std::to_string(p_.journal.blocks) +
                     " blocks: 1024 to 10240000 are possible");
    }
    if (choice_.has("fast_commit")) {
      p_.journal.fast_commit_blocks = j_.fast_commit_kilobytes ? *j_.fast_commit_kilobytes * kKiB / p_.block_bytes
                                                               : by_default / 64;
      if (p_.journal.fast_commit_blocks == 0) return usage("a fast commit area of 0 blocks");
    } else if (j_.fast_commit_kilobytes) {
      return usage("fast_commit_size needs feature 'fast_commit'");
    }
    if (p_.journal.blocks + p_.journal.fast_commit_blocks > p_.blocks / 2)
      return make_error(ErrorKind::no_space,
                        "a journal of " + std::to_string(p_.journal.blocks + p_.journal.fast_commit_blocks) +
                            " blocks is more than half of the file system (" + std::to_string(p_.blocks) + " blocks)");
    if (j_.location) {
      const std::uint64_t at = E4_TRY(parse_bytes(*j_.location, p_.block_bytes)) / p_.block_bytes;
      if (at >= p_.blocks) return usage("journal option 'location=" + *j_.location + "' is behind the end");
      p_.journal.location = at;
    }
    return {};
  }

  Result<void> orphan_file() {
    if (!choice_.has("orphan_file")) return {};
    p_.orphan_asked_for = choice_.asked_for("orphan_file");
    if (!x_.orphan_file_size) {
      p_.orphan_default = true;
      p_.orphan_file_blocks = orphan::default_orphan_file_blocks(p_.blocks, p_.block_bytes, p_.cluster_blocks);
      return {};
    }
    auto bytes = parse_bytes(*x_.orphan_file_size, p_.block_bytes);
    if (!bytes) return Error(std::move(bytes).error()).context("extended option 'orphan_file_size'");
    const std::uint64_t wanted = *bytes / p_.block_bytes;
    if (wanted == 0) return usage("extended option 'orphan_file_size=" + *x_.orphan_file_size + "': not one block");
    p_.orphan_file_blocks = orphan::clamp_orphan_file_blocks(wanted, p_.block_bytes, p_.cluster_blocks);
    if (p_.orphan_file_blocks < wanted)
      p_.notes.push_back("orphan file of " + std::to_string(wanted) + " blocks cut to " +
                         std::to_string(p_.orphan_file_blocks) +
                         ": kernels refuse more than 512 blocks or 8 MiB");
    return {};
  }

  Result<void> identity() {
    p_.now = world_.now == 0 ? 1 : world_.now;
    if (p_.now < 0 || p_.now >= std::int64_t{1} << 34) return usage("the clock shows a date outside 1970 to 2446");
    p_.uuid = world_.random_uuid;
    const bool fixed = w_.uuid && *w_.uuid != "random" && *w_.uuid != "time";
    if (w_.uuid && *w_.uuid == "clear") {
      p_.uuid = {};
    } else if (w_.uuid && *w_.uuid == "time") {
      time_uuid();
    } else if (fixed) {
      const auto parsed = parse_uuid(*w_.uuid);
      if (!parsed) return usage("'" + *w_.uuid + "' is not a UUID (or clear, random, time)");
      p_.uuid = *parsed;
    }
    p_.hash_seed = world_.random_hash_seed;
    if (x_.hash_seed) {
      p_.hash_seed = *x_.hash_seed;
    } else if (fixed && world_.time_is_fixed) {
      // Somebody wants the same image twice; a random seed would spoil it.
      for (std::uint32_t i = 0; i < 4; ++i) {
        const std::uint32_t word = crc32c(crc32c_le32(~0U, i), p_.uuid.data(), p_.uuid.size());
        std::memcpy(p_.hash_seed.data() + std::size_t{4} * i, &word, 4);
      }
    }
    p_.label = cut(w_.label.value_or(""), EXT2_LABEL_LEN, "label");
    p_.last_mounted = cut(w_.last_mounted.value_or(""), sizeof p_.super.s_last_mounted, "last mounted directory");
    return {};
  }

  std::string cut(std::string text, std::size_t most, const char* what) {
    if (text.size() <= most) return text;
    text.resize(most);
    p_.notes.push_back(std::string(what) + " too long; truncated to '" + text + "'");
    return text;
  }

  /// Version 1: 100 ns since 1582 in the first eight bytes, the rest random.
  void time_uuid() {
    const std::uint64_t ticks = (static_cast<std::uint64_t>(p_.now) + 12219292800ULL) * 10000000ULL;
    const std::uint32_t low = static_cast<std::uint32_t>(ticks);
    for (unsigned i = 0; i < 4; ++i) p_.uuid[i] = static_cast<std::uint8_t>(low >> (24 - 8 * i));
    for (unsigned i = 0; i < 2; ++i) p_.uuid[4 + i] = static_cast<std::uint8_t>(ticks >> (40 - 8 * i));
    for (unsigned i = 0; i < 2; ++i) p_.uuid[6 + i] = static_cast<std::uint8_t>(ticks >> (56 - 8 * i));
    p_.uuid[6] = static_cast<std::uint8_t>((p_.uuid[6] & 0x0F) | 0x10);
    p_.uuid[8] = static_cast<std::uint8_t>((p_.uuid[8] & 0x3F) | 0x80);
    p_.uuid[10] |= 1;  // multicast: not the address of a real card
  }

  Result<void> rest() {
    const std::string errors = w_.errors.value_or("continue");
    if (errors == "continue") p_.errors = EXT2_ERRORS_CONTINUE;
    else if (errors == "remount-ro") p_.errors = EXT2_ERRORS_RO;
    else if (errors == "panic") p_.errors = EXT2_ERRORS_PANIC;
    else return usage("error behavior '" + errors + "': continue, remount-ro or panic");

    const bool csum = choice_.has("metadata_csum") || choice_.has("uninit_bg");
    p_.discard = x_.discard.value_or(true);
    p_.assume_zeroed = x_.assume_zeroed.value_or(false);
    p_.lazy_itable = csum && x_.lazy_itable_init.value_or(true);
    p_.lazy_journal = x_.lazy_journal_init.value_or(false);
    // A hole in a regular file is known to be zero: then the kernel need not zero it after the first mount.
    p_.itable_reads_zero = csum && (!p_.lazy_itable || p_.assume_zeroed ||
                                    (p_.discard && !world_.block_device));
    p_.test_fs = x_.test_fs;
    p_.root_uid = x_.root_uid;
    p_.root_gid = x_.root_gid;
    p_.root_perms = x_.root_perms;
    if (x_.mmp_interval_seconds != 0 && !choice_.has("mmp")) return usage("mmp_update_interval needs feature 'mmp'");
    p_.super.s_mmp_update_interval = static_cast<std::uint16_t>(x_.mmp_interval_seconds);
    if (choice_.has("casefold")) {
      const std::string encoding = x_.encoding.value_or("utf8");
      if (encoding != "utf8" && encoding != "utf8-12.1") return usage("encoding '" + encoding + "': utf8 or utf8-12.1");
      p_.encoding = 1;  // EXT4_ENC_UTF8_12_1
      p_.encoding_flags = x_.encoding_strict ? 1 : 0;
    } else if (x_.encoding_strict) {
      return usage("encoding_flags needs an encoding");
    }
    return {};
  }
};

}  // namespace

Result<Plan> plan(const Wishes& wishes, const Surroundings& world) { return Planner(wishes, world).run(); }

}  // namespace e4::mkfs
