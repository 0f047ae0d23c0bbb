// SPDX-License-Identifier: GPL-2.0-only
#include <algorithm>
#include <cstring>

#include "check/session.h"

// The end of a run: totals of the superblock, its time of writing, backups
// when features changed, and then everything that is still dirty goes out.
namespace e4::check {

using report::arg;

namespace {

constexpr std::size_t kInodes = 0x00, kFreeInodes = 0x10, kWtime = 0x30, kCompat = 0x5C, kIncompat = 0x60, kRoCompat = 0x64,
                      kOrphanInum = 0x280;
// What a backup may have different, as e2fsck compares them.
constexpr std::uint32_t kIncompatLoose = EXT3_FEATURE_INCOMPAT_RECOVER | EXT3_FEATURE_INCOMPAT_EXTENTS;
constexpr std::uint32_t kRoCompatLoose = EXT2_FEATURE_RO_COMPAT_LARGE_FILE | EXT4_FEATURE_RO_COMPAT_DIR_NLINK | 0x10000;

Result<void> fix_totals(Session& s, SuperCopy& super) {
  Groups groups(*s.overlay, *s.fs);
  Blk clusters = 0;
  std::uint64_t inodes = 0;
  for (GroupNo g = 0; g < groups.count(); ++g) {
    const Desc d = E4_TRY(groups.read(g));
    clusters += d.free_clusters;
    inodes += d.free_inodes;
  }
  // Descriptors count clusters, the superblock blocks.
  const Blk blocks = clusters << s.fs->raw()->cluster_ratio_bits;
  const bool differs = blocks != super.free_blocks_count() || inodes != super.u32(kFreeInodes);
  // The kernel writes these totals only now and then; after a crash they need not agree.
  if (differs && (s.recovered || s.verdict.orphans.released() != 0 ||
                  s.judge.found(Problem::super_free_counts, {},
                                {arg("blocks", super.free_blocks_count()), arg("inodes", std::uint64_t{super.u32(kFreeInodes)}),
                                 arg("group_blocks", blocks), arg("group_inodes", inodes)}))) {
    super.set_free_blocks_count(blocks);
    super.set_u32(kFreeInodes, static_cast<std::uint32_t>(inodes));
  }
  s.verdict.counts.inodes = super.u32(kInodes);
  s.verdict.counts.free_inodes = inodes;
  s.verdict.counts.blocks = super.blocks_count();
  s.verdict.counts.free_blocks = blocks;
  return {};
}

/// Backups carry features and the orphan file's inode number; they follow when
/// we changed those.
Result<void> update_backups(Session& s, const SuperCopy& super) {
  const SuperCopy disk = E4_TRY(SuperCopy::read(*s.base));
  const auto same = [&](std::size_t at, std::uint32_t loose) { return ((super.u32(at) ^ disk.u32(at)) & ~loose) == 0; };
  if (!s.super_restored && same(kCompat, 0) && same(kIncompat, kIncompatLoose) && same(kRoCompat, kRoCompatLoose) && same(kOrphanInum, 0))
    return {};
  const ext2_filsys fs = s.fs->raw();
  for (GroupNo g = 1; g < fs->group_desc_count; ++g) {
    if (ext2fs_bg_has_super(fs, g) == 0) continue;
    SuperCopy copy = super;
    copy.set_u16(0x5A, static_cast<std::uint16_t>(g));
    copy.set_u32(kIncompat, copy.u32(kIncompat) & ~std::uint32_t{EXT3_FEATURE_INCOMPAT_RECOVER});
    copy.seal();
    E4_TRY(copy.write(*s.overlay, ext2fs_group_first_block2(fs, g) * s.overlay->block_bytes()));
  }
  return {};
}

/// Forgets edits that came back to what the image has, so that they cost
/// nothing, and returns how many blocks really differ.
Result<std::uint64_t> drop_unchanged(Session& s) {
  const std::uint32_t bs = s.overlay->block_bytes();
  std::vector<std::byte> old(bs);
  std::uint64_t differ = 0;
  for (const Blk b : s.overlay->dirty_blocks()) {
    E4_TRY(s.base->read(b * bs, old));
    const auto now = E4_TRY(s.overlay->view(b));
    if (std::memcmp(old.data(), now.data(), bs) != 0) ++differ;
    else s.overlay->forget(b);
  }
  for (const auto& a : s.overlay->aliases()) {
    E4_TRY(s.base->read(a.block * bs, old));
    const auto now = E4_TRY(s.overlay->view(a.block));
    if (std::memcmp(old.data(), now.data(), bs) != 0) ++differ;
  }
  return differ;
}

/// A superblock nobody can read comes first: without it no crash in between
/// could be recovered from. It announces the log when that has something in it.
Result<void> write_readable_super(Session& s) {
  const SuperCopy disk = E4_TRY(SuperCopy::read(*s.base));
  if (why_unusable(disk).empty()) return {};
  SuperCopy super = E4_TRY(SuperCopy::read(*s.overlay));
  const std::uint32_t incompat = super.u32(kIncompat) & ~std::uint32_t{EXT3_FEATURE_INCOMPAT_RECOVER};
  super.set_u32(kIncompat, incompat | (s.plan.has_work() ? std::uint32_t{EXT3_FEATURE_INCOMPAT_RECOVER} : 0));
  super.seal();
  E4_TRY(super.write(*s.base));
  return s.base->flush();
}

Result<void> begin(Session& s) {
  if (s.committer) return {};
  E4_TRY(write_readable_super(s));
  const bool no_log = s.plan.verdict == journal::Verdict::failed || s.plan.verdict == journal::Verdict::external;
  s.committer = E4_TRY(journal::Committer::begin(s.plan, *s.overlay, {.empty_damaged_log = s.empty_damaged_log || no_log, .in_place = no_log}));
  return {};
}

}  // namespace

Result<void> commit(Session& s) {
  if (!s.judge.writes()) return {};
  if (!s.committer) E4_TRY(drop_unchanged(s));
  E4_TRY(begin(s));
  return s.committer->commit();
}

Result<void> finish_phase(Session& s) {
  if (s.abandoned || !s.fs) return {};
  SuperCopy super = E4_TRY(SuperCopy::read(*s.overlay));
  const SuperCopy before = super;
  E4_TRY(fix_totals(s, super));
  if (!(super == before)) {
    super.seal();
    E4_TRY(super.write(*s.overlay));
  }
  E4_TRY(update_backups(s, super));
  std::uint64_t differ = E4_TRY(drop_unchanged(s));
  const bool wrote = s.committer && s.committer->stats().bytes_written != 0;
  if (differ != 0 || wrote) {
    super = E4_TRY(SuperCopy::read(*s.overlay));
    if (const auto now = static_cast<std::uint32_t>(s.options.now); now != 0) super.set_u32(kWtime, now);
    super.seal();
    E4_TRY(super.write(*s.overlay));
    differ = E4_TRY(drop_unchanged(s));
  }
  s.verdict.changed = differ != 0 || wrote;
  s.verdict.bytes_would_write = s.judge.writes() ? 0 : differ * s.overlay->block_bytes();
  if (!s.judge.writes() || (!s.verdict.changed && !s.committer)) return {};
  E4_TRY(begin(s));
  E4_TRY(s.committer->finish());
  s.verdict.bytes_written = s.committer->stats().bytes_written;
  return {};
}

}  // namespace e4::check
