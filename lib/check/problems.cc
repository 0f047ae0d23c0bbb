// SPDX-License-Identifier: GPL-2.0-only
#include "check/problems.h"

#include "base/assert.h"

namespace e4::check {

namespace {

using enum Problem;
using report::Severity;
constexpr Severity kNote = Severity::note, kPreen = Severity::preen, kError = Severity::error, kUnfixable = Severity::unfixable;

constexpr ProblemInfo kTable[] = {
    {super_damaged, "super-damaged", "Superblock is damaged ({why}); the copy in block {backup} verifies.", "Restore it from there?",
     Preen::halt, kError},
    {super_checksum, "super-checksum", "Superblock checksum is {stored}, should be {computed}, and there is no better copy.", "Fix?",
     Preen::halt, kError},
    {super_too_long, "super-too-long",
     "The file system has {blocks} blocks, but the device holds only {device} (bytes {from} to {to} are missing).", "", Preen::halt,
     kUnfixable},
    {super_extra_isize, "super-extra-isize", "Superblock field {field} is {value}, which no inode of {inode_bytes} bytes can have.",
     "Set it to 32?", Preen::halt, kError},
    {super_state_error, "super-state-error", "The file system is marked as having errors; only a full check may clear that.", "",
     Preen::note, kUnfixable},
    {super_state_not_clean, "super-state-not-clean", "The file system is not marked clean; only a full check may mark it so.",
     "", Preen::note, kUnfixable},
    {super_free_counts, "super-free-counts",
     "Superblock counts {blocks} free blocks and {inodes} free inodes, the groups {group_blocks} and {group_inodes}.", "Fix?",
     Preen::quiet, kPreen},
    {super_no_backup, "super-no-backup", "Superblock is damaged ({why}), and no backup of it verifies.", "", Preen::halt, kUnfixable},

    {feature_unknown_compat, "feature-unknown-compat",
     "Superblock has the unknown compatible feature {name} (bit {bit}): kernels that do not know it ignore it; nothing will be written.",
     "", Preen::note, kNote},
    {feature_unknown_ro_compat, "feature-unknown-ro-compat",
     "Superblock has the unknown feature {name} (ro_compat bit {bit}): kernels that do not know it mount read-only; nothing will be "
     "written.",
     "", Preen::note, kNote},
    {feature_unknown_incompat, "feature-unknown-incompat",
     "Superblock has the unknown incompatible feature {name} (bit {bit}): get a newer version of e4fsck; nothing will be written.", "",
     Preen::note, kUnfixable},
    {feature_two_csums, "feature-two-csums", "Features metadata_csum and uninit_bg (gdt_csum) exclude each other.", "Drop uninit_bg?",
     Preen::fix, kError},
    {feature_csum_seed, "feature-csum-seed", "Feature metadata_csum_seed is set without metadata_csum.", "Drop it?", Preen::fix, kError},
    {feature_64bit_no_extents, "feature-64bit-no-extents", "Feature 64bit is set without extents.", "Set extents?", Preen::fix, kError},
    {feature_resize_meta_bg, "feature-resize-meta-bg", "Features resize_inode and meta_bg exclude each other.", "", Preen::halt, kUnfixable},

    {journal_external, "journal-external", "External journal: {what}.", "", Preen::note, kUnfixable},
    {journal_external_idle, "journal-external-idle", "External journal: {what}. Nothing has to be replayed from it.", "", Preen::note, kNote},
    {journal_unusable, "journal-unusable", "The journal cannot be used: {what}.", "", Preen::halt, kUnfixable},
    {journal_unneeded, "journal-unneeded", "The journal cannot be used: {what}. It holds nothing that has to be replayed.", "", Preen::note,
     kUnfixable},
    {journal_recover_without, "journal-recover-without", "Superblock has needs_recovery set, but there is no journal.", "Clear it?",
     Preen::fix, kError},
    {journal_flag_lost, "journal-flag-lost",
     "Superblock has needs_recovery set and inode {ino} holds a journal that verifies, but feature has_journal is not set.", "Set it?",
     Preen::halt, kError},
    {journal_unannounced, "journal-unannounced",
     "Superblock has needs_recovery clear, but the journal holds {blocks} blocks of transactions {from} to {to}.", "Replay them?",
     Preen::halt, kError},
    {journal_failed, "journal-failed", "The journal's log cannot be followed: nothing of it was replayed and it is kept.", "", Preen::halt,
     kUnfixable},
    {journal_partial, "journal-partial",
     "The journal is damaged: transactions {from} to {to} can be replayed, {lost} blocks or transactions cannot.",
     "Replay what verifies and empty the log?", Preen::halt, kError},
    {journal_damage, "journal-damage", "Journal: {what}.", "", Preen::note, kNote},
    {journal_stale_commit, "journal-stale-commit", "Journal: {what}.", "", Preen::note, kNote},
    {journal_errno, "journal-errno", "The journal records error {errno}; the file system is marked as having errors.", "", Preen::note,
     kNote},
    {journal_backup_map, "journal-backup-map", "The journal inode is damaged; its copy in the superblock was used.", "", Preen::note,
     kUnfixable},
    {fast_commit_damage, "fast-commit-damage", "Fast commits: {what}.", "", Preen::note, kNote},
    {fast_commit_check, "fast-commit-check",
     "{records} fast-commit records were replayed; counts were corrected only for the inodes they touch.", "", Preen::note, kNote},

    {desc_checksum, "desc-checksum", "Descriptor of group {group} has checksum {stored}, should be {computed}.", "Fix?", Preen::fix, kError},
    {desc_location, "desc-location", "Descriptor of group {group}: {what} at block {block} is impossible.", "Take the backup's value?",
     Preen::halt, kError},
    {desc_location_lost, "desc-location-lost", "Descriptor of group {group}: {what} at block {block} is impossible, and no backup knows better.",
     "", Preen::halt, kUnfixable},
    {desc_overlap, "desc-overlap", "Descriptor of group {group}: {what} at block {block} lies on other metadata.", "", Preen::halt,
     kUnfixable},
    {desc_unused, "desc-unused", "Descriptor of group {group} has {value} unused inodes, of {limit} that can be.", "Fix?", Preen::fix,
     kError},
    {desc_uninit_flags, "desc-uninit-flags", "Descriptor of group {group} is marked uninitialised without the checksum feature.", "Fix?",
     Preen::fix, kError},
    {desc_uninit_last, "desc-uninit-last", "The last group's block bitmap is marked uninitialised.", "", Preen::note, kUnfixable},
    {desc_counts, "desc-counts", "Descriptor of group {group}: {what} is {value}, of {limit} that can be.", "Recompute?", Preen::fix,
     kError},
    {group_free_blocks, "group-free-blocks", "Free blocks count wrong for group #{group} ({stored}, counted={counted}).", "Fix?", Preen::fix,
     kError},
    {group_free_inodes, "group-free-inodes", "Free inodes count wrong for group #{group} ({stored}, counted={counted}).", "Fix?", Preen::fix,
     kError},
    {block_bitmap_checksum, "block-bitmap-checksum",
     "Block bitmap of group {group} does not match its checksum; only a full check can prove it.", "", Preen::note, kUnfixable},
    {inode_bitmap_checksum, "inode-bitmap-checksum",
     "Inode bitmap of group {group} does not match its checksum; only a full check can prove it.", "", Preen::note, kUnfixable},
    {bitmap_unreadable, "bitmap-unreadable", "Bitmaps of group {group} cannot be read: {why}.", "", Preen::note, kUnfixable},

    {orphan_no_journal, "orphan-no-journal", "Superblock has orphan_file, but no journal, which it needs.", "Remove the orphan file?",
     Preen::fix, kError},
    {orphan_no_feature, "orphan-no-feature", "Feature orphan_present is set, but feature orphan_file is not.", "Clear it?", Preen::fix,
     kError},
    {orphan_file_lost, "orphan-file-lost", "Superblock names inode {named} as orphan file, which is not one ({why}), and none was found.",
     "Drop the feature?", Preen::fix, kError},
    {orphan_file_found, "orphan-file-found",
     "Superblock names inode {named} as orphan file, which is not one ({why}); inode {found} is the orphan file.", "Use it?", Preen::fix,
     kError},
    {orphan_file_unproved, "orphan-file-unproved", "Orphan file (inode {named}) cannot be trusted ({why}); it is not touched.", "",
     Preen::note, kUnfixable},
    {orphan_inode, "orphan-inode", "Orphan file (inode {named}): the inode is damaged ({why}).", "Fix?", Preen::fix, kError},
    {orphan_size, "orphan-size", "Orphan file (inode {named}) size is {size}, its blocks are {bytes} bytes.", "Fix?", Preen::fix, kError},
    {orphan_hole, "orphan-hole", "Orphan file (inode {named}) is damaged ({why}).", "Recreate?", Preen::fix, kError},
    {orphan_too_big, "orphan-too-big", "Orphan file (inode {named}) is {blocks} blocks, kernels accept at most {limit}.", "Shrink it?",
     Preen::fix, kError},
    {orphan_magic, "orphan-magic", "Orphan file (inode {named}) block {lblk} has no magic.", "Clear?", Preen::fix, kError},
    {orphan_checksum, "orphan-checksum", "Orphan file (inode {named}) block {lblk} has a bad checksum ({stored}, should be {computed}).",
     "Fix?", Preen::fix, kError},
    {orphan_named_file, "orphan-named-file", "Orphan file (inode {named}) has a name in a directory.", "", Preen::note, kUnfixable},
    {orphan_block_owner, "orphan-block-owner", "Orphan file (inode {named}) holds a block that is metadata or marked free.", "", Preen::note,
     kUnfixable},
    {orphan_present_stale, "orphan-present-stale", "Feature orphan_present is set, but the orphan file is empty.", "Clear?", Preen::quiet,
     kPreen},
    {orphans_waiting, "orphans-waiting", "{count} orphaned inodes wait for release, though the file system says it needs no recovery.",
     "Release them?", Preen::quiet, kPreen},
    {orphan_leftover, "orphan-leftover", "Inode {named} is an orphan file, but feature orphan_file is not set.", "Set it?", Preen::fix,
     kError},
    {orphan_stray, "orphan-stray", "Inode {named} is allocated, but neither a file nor an orphan; what it held is left to the full check.",
     "", Preen::note, kUnfixable},

    {orphan_range, "orphan-range", "Orphan entry {where} names inode {ino}, past the last inode.", "Clear?", Preen::fix, kError},
    {orphan_reserved, "orphan-reserved", "Orphan entry {where} names the reserved inode {ino}.", "Clear?", Preen::fix, kError},
    {orphan_special, "orphan-special", "Orphan entry {where} names inode {ino}, which the file system itself uses.", "Clear?", Preen::fix,
     kError},
    {orphan_free, "orphan-free", "Orphan entry {where} names inode {ino}, which is free.", "Clear?", Preen::fix, kError},
    {orphan_duplicate, "orphan-duplicate", "Orphan entry {where} names inode {ino} a second time.", "Clear?", Preen::fix, kError},
    {orphan_type, "orphan-type", "Orphan entry {where} names inode {ino}, whose type no orphan can have.",
     "Clear?", Preen::fix, kError},
    {orphan_invalid, "orphan-invalid", "Orphan entry {where} names inode {ino}, which is no orphan ({why}).", "Clear?", Preen::fix, kError},
    {orphan_named, "orphan-named", "Orphan inode {ino} has link count 0, but names in directories.", "Set the link count?", Preen::fix,
     kError},
    {orphan_left, "orphan-left", "Orphan inode {ino} ({where}) cannot be released safely ({why}).", "", Preen::note, kUnfixable},
    {orphan_obstacle, "orphan-obstacle", "Who owns which block cannot be proved: {what}.", "", Preen::note, kNote},
    {orphan_list_broken, "orphan-list-broken", "Orphan list: {after} points to inode {ino}, which is {why}.", "Cut the list there?",
     Preen::fix, kError},
    {orphan_list_loop, "orphan-list-loop", "Orphan list is a loop: {after} points back to inode {ino}.", "Cut the list there?", Preen::fix,
     kError},
};

consteval bool in_order() {
  std::size_t i = 0;
  for (const ProblemInfo& p : kTable)
    if (static_cast<std::size_t>(p.problem) != i++) return false;
  return i == static_cast<std::size_t>(count);
}
static_assert(in_order(), "the table has one line for each Problem, in its order");

}  // namespace

const ProblemInfo& info_of(Problem problem) {
  E4_ASSERT(problem < Problem::count);
  return kTable[static_cast<std::size_t>(problem)];
}

std::span<const ProblemInfo> all_problems() { return kTable; }

}  // namespace e4::check
