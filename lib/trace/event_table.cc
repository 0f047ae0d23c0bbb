// SPDX-License-Identifier: GPL-2.0-only
#include "trace/event_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>

namespace e4::trace {
namespace {

#define E4_FIELD(name, member) \
  Field { name, offsetof(Event, member), sizeof(Event::member) }
#define E4_FIELD_AS(name, member, form) \
  Field { name, offsetof(Event, member), sizeof(Event::member), form }

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"

constexpr Field kIno = E4_FIELD("ino", ino);
constexpr Field kGroup = E4_FIELD("group", extent.group);

constexpr std::array kRequest{
    kIno, E4_FIELD_AS("flags", req.flags, Form::hint_flags), E4_FIELD("len", req.len), E4_FIELD("logical", req.logical),
    E4_FIELD("goal", req.goal), E4_FIELD("lleft", req.lleft), E4_FIELD("lright", req.lright),
    E4_FIELD("pleft", req.pleft), E4_FIELD("pright", req.pright)};
constexpr std::array kAllocate{
    kIno, E4_FIELD_AS("flags", req.flags, Form::hint_flags), E4_FIELD("len", req.len), E4_FIELD("block", req.block),
    E4_FIELD("logical", req.logical), E4_FIELD("goal", req.goal), E4_FIELD("lleft", req.lleft),
    E4_FIELD("lright", req.lright), E4_FIELD("pleft", req.pleft), E4_FIELD("pright", req.pright)};
constexpr std::array kAlloc{
    kIno,
    E4_FIELD("orig_group", alloc.orig.group), E4_FIELD("orig_start", alloc.orig.start),
    E4_FIELD("orig_len", alloc.orig.len), E4_FIELD("orig_logical", alloc.orig.logical),
    E4_FIELD("goal_group", alloc.goal.group), E4_FIELD("goal_start", alloc.goal.start),
    E4_FIELD("goal_len", alloc.goal.len), E4_FIELD("goal_logical", alloc.goal.logical),
    E4_FIELD("result_group", alloc.result.group), E4_FIELD("result_start", alloc.result.start),
    E4_FIELD("result_len", alloc.result.len), E4_FIELD("result_logical", alloc.result.logical),
    E4_FIELD("found", alloc.found), E4_FIELD("groups", alloc.groups),
    E4_FIELD_AS("cr", alloc.cr, Form::criterion), E4_FIELD_AS("flags", alloc.flags, Form::hint_flags),
    E4_FIELD("tail", alloc.tail), E4_FIELD_AS("buddy", alloc.buddy, Form::power)};
constexpr std::array kPrealloc{
    kIno,
    E4_FIELD("orig_group", alloc.orig.group), E4_FIELD("orig_start", alloc.orig.start),
    E4_FIELD("orig_len", alloc.orig.len), E4_FIELD("orig_logical", alloc.orig.logical),
    E4_FIELD("result_group", alloc.result.group), E4_FIELD("result_start", alloc.result.start),
    E4_FIELD("result_len", alloc.result.len), E4_FIELD("result_logical", alloc.result.logical)};
constexpr std::array kNewPa{kIno, E4_FIELD("pa_pstart", pa.pstart), E4_FIELD("pa_len", pa.len),
                            E4_FIELD("pa_lstart", pa.lstart)};
constexpr std::array kInodeLen{kIno, E4_FIELD("len", discard.len)};
constexpr std::array kFreedExtent{kIno, E4_FIELD("result_group", extent.group), E4_FIELD("result_start", extent.start),
                                  E4_FIELD("result_len", extent.len)};
constexpr std::array kReleaseInodePa{kIno, E4_FIELD("block", pa.pstart), E4_FIELD("count", pa.len)};
constexpr std::array kReleaseGroupPa{E4_FIELD("pa_pstart", pa.pstart), E4_FIELD("pa_len", pa.len)};
constexpr std::array kNeeded{E4_FIELD("needed", discard.len)};
constexpr std::array kFreeBlocks{kIno, E4_FIELD_AS("mode", free.mode, Form::octal), E4_FIELD("block", free.block),
                                 E4_FIELD("count", free.count), E4_FIELD_AS("flags", free.flags, Form::free_flags)};
constexpr std::array kTrim{kGroup, E4_FIELD("start", extent.start), E4_FIELD("len", extent.len)};
constexpr std::array kDaReserve{kIno, E4_FIELD("reserve_blocks", da.blocks),
                                E4_FIELD("reserved_data_blocks", da.reserved)};
constexpr std::array kDaUpdate{kIno, E4_FIELD("used_blocks", da.blocks),
                               E4_FIELD("reserved_data_blocks", da.reserved)};
constexpr std::array kDaRelease{kIno, E4_FIELD("freed_blocks", da.blocks),
                                E4_FIELD("reserved_data_blocks", da.reserved)};
constexpr std::array kRequestInode{E4_FIELD("dir", inode.dir), E4_FIELD_AS("mode", inode.mode, Form::octal)};
constexpr std::array kAllocateInode{kIno, E4_FIELD("dir", inode.dir), E4_FIELD_AS("mode", inode.mode, Form::octal)};
constexpr std::array kFreeInode{kIno, E4_FIELD_AS("mode", inode.mode, Form::octal)};
constexpr std::array kInode{kIno};
constexpr std::array kUnlink{kIno, E4_FIELD("size", range.pos)};
constexpr std::array kNewSize{kIno, E4_FIELD("new_size", range.pos)};
constexpr std::array kRemoveSpace{kIno, E4_FIELD("start", remove.start), E4_FIELD("end", remove.end)};
constexpr std::array kWriteBegin{kIno, E4_FIELD("pos", range.pos), E4_FIELD("len", range.len)};
constexpr std::array kWriteEnd{kIno, E4_FIELD("pos", range.pos), E4_FIELD("len", range.len),
                               E4_FIELD("copied", range.copied)};
constexpr std::array kFallocate{kIno, E4_FIELD("offset", range.pos), E4_FIELD("len", range.len),
                                E4_FIELD_AS("mode", range.mode, Form::falloc_mode)};
constexpr std::array kFallocateExit{kIno, E4_FIELD("pos", range.pos), E4_FIELD("ret", range.ret)};
constexpr std::array kShift{kIno, E4_FIELD("offset", range.pos), E4_FIELD("len", range.len)};
constexpr std::array kMapEnter{kIno, E4_FIELD("lblk", map.lblk), E4_FIELD("len", map.len),
                               E4_FIELD_AS("flags", map.flags, Form::map_flags)};
constexpr std::array kMapExit{kIno, E4_FIELD_AS("flags", map.flags, Form::map_flags), E4_FIELD("lblk", map.lblk),
                              E4_FIELD("pblk", map.pblk), E4_FIELD("len", map.len),
                              E4_FIELD_AS("mflags", map.mflags, Form::letters), E4_FIELD("ret", map.ret)};
constexpr std::array kImplied{E4_FIELD("lblk", map.lblk), E4_FIELD("pblk", map.pblk), E4_FIELD("len", map.len),
                              E4_FIELD_AS("flags", map.mflags, Form::letters), E4_FIELD("ret", map.ret)};
constexpr std::array kWritepages{kIno, E4_FIELD("range_start", range.pos), E4_FIELD("range_end", range.len)};
constexpr std::array kGroupOnly{kGroup};
constexpr std::array kPrefetch{E4_FIELD("group", prefetch.group), E4_FIELD("next", prefetch.next),
                               E4_FIELD("ios", prefetch.ios)};
constexpr std::array kLength{E4_FIELD("length", range.pos)};
constexpr std::array kTransaction{E4_FIELD("transaction", commit.tid)};
constexpr std::array kTid{E4_FIELD("tid", commit.tid)};
#pragma GCC diagnostic pop

constexpr const char* kRequestText =
    " ino % flags % len % lblk % goal % lleft % lright % pleft % pright %";
constexpr const char* kMapExitText = " ino % flags % lblk % pblk % len % mflags % ret %";

constexpr EventFormat kFormats[] = {
    {"ext4_request_blocks", Kind::request_blocks, kRequestText, kRequest},
    {"ext4_allocate_blocks", Kind::allocate_blocks,
     " ino % flags % len % block % lblk % goal % lleft % lright % pleft % pright %", kAllocate},
    {"ext4_mballoc_alloc", Kind::mballoc_alloc,
     " inode % orig %/%/%@% goal %/%/%@% result %/%/%@% blks % grps % cr % flags % tail % broken %", kAlloc},
    {"ext4_mballoc_prealloc", Kind::mballoc_prealloc, " inode % orig %/%/%@% result %/%/%@%", kPrealloc},
    {"ext4_mb_new_inode_pa", Kind::new_inode_pa, " ino % pstart % len % lstart %", kNewPa},
    {"ext4_mb_new_group_pa", Kind::new_group_pa, " ino % pstart % len % lstart %", kNewPa},
    {"ext4_discard_preallocations", Kind::discard_preallocations, " ino % len: %", kInodeLen},
    {"ext4_mballoc_discard", Kind::mballoc_discard, " inode % extent %/%/%", kFreedExtent},
    {"ext4_mballoc_free", Kind::mballoc_free, " inode % extent %/%/%", kFreedExtent},
    {"ext4_mb_release_inode_pa", Kind::release_inode_pa, " ino % block % count %", kReleaseInodePa},
    {"ext4_mb_release_group_pa", Kind::release_group_pa, " pstart % len %", kReleaseGroupPa},
    {"ext4_mb_discard_preallocations", Kind::mb_discard_preallocations, " needed %", kNeeded},
    {"ext4_free_blocks", Kind::free_blocks, " ino % mode % block % count % flags %", kFreeBlocks},
    {"ext4_trim_extent", Kind::trim_extent, " group %, start %, len %", kTrim},
    {"ext4_da_reserve_space", Kind::da_reserve_space, " ino % mode %- i_blocks %- reserve_blocks %reserved_data_blocks %",
     kDaReserve},
    {"ext4_da_update_reserve_space", Kind::da_update_reserve_space,
     " ino % mode %- i_blocks %- used_blocks % reserved_data_blocks %", kDaUpdate},
    {"ext4_da_release_space", Kind::da_release_space,
     " ino % mode %- i_blocks %- freed_blocks % reserved_data_blocks %", kDaRelease},
    {"ext4_request_inode", Kind::request_inode, " dir % mode %", kRequestInode},
    {"ext4_allocate_inode", Kind::allocate_inode, " ino % dir % mode %", kAllocateInode},
    {"ext4_free_inode", Kind::free_inode, " ino % mode %", kFreeInode},
    {"ext4_evict_inode", Kind::evict_inode, " ino %", kInode},
    {"ext4_drop_inode", Kind::drop_inode, " ino %", kInode},
    {"ext4_unlink_enter", Kind::unlink_enter, " ino % size %", kUnlink},
    {"ext4_unlink_exit", Kind::unlink_exit, " ino %", kInode},
    {"ext4_truncate_enter", Kind::truncate_enter, " ino %", kInode},
    {"ext4_truncate_exit", Kind::truncate_exit, " ino %", kInode},
    {"ext4_begin_ordered_truncate", Kind::begin_ordered_truncate, " ino % new_size %", kNewSize},
    {"ext4_ext_remove_space", Kind::ext_remove_space, " ino % since % end %", kRemoveSpace},
    {"ext4_da_write_begin", Kind::write_begin, " ino % pos % len %", kWriteBegin},
    {"ext4_write_begin", Kind::write_begin, " ino % pos % len %", kWriteBegin},
    {"ext4_da_write_end", Kind::write_end, " ino % pos % len % copied %", kWriteEnd},
    {"ext4_write_end", Kind::write_end, " ino % pos % len % copied %", kWriteEnd},
    {"ext4_journalled_write_end", Kind::write_end, " ino % pos % len % copied %", kWriteEnd},
    {"ext4_fallocate_enter", Kind::fallocate_enter, " ino % offset % len % mode %", kFallocate},
    {"ext4_fallocate_exit", Kind::fallocate_exit, " ino % pos % blocks %- ret %", kFallocateExit},
    {"ext4_punch_hole", Kind::punch_hole, " ino % offset % len % mode %", kFallocate},
    {"ext4_zero_range", Kind::zero_range, " ino % offset % len % mode %", kFallocate},
    {"ext4_collapse_range", Kind::collapse_range, " ino % offset % len %", kShift},
    {"ext4_insert_range", Kind::insert_range, " ino % offset % len %", kShift},
    {"ext4_ext_map_blocks_enter", Kind::map_blocks_enter, " ino % lblk % len % flags %", kMapEnter},
    {"ext4_ind_map_blocks_enter", Kind::map_blocks_enter, " ino % lblk % len % flags %", kMapEnter},
    {"ext4_ext_map_blocks_exit", Kind::map_blocks_exit, kMapExitText, kMapExit},
    {"ext4_ind_map_blocks_exit", Kind::map_blocks_exit, kMapExitText, kMapExit},
    {"ext4_get_implied_cluster_alloc_exit", Kind::implied_cluster,
     " m_lblk % m_pblk % m_len % m_flags % ret %", kImplied},
    {"ext4_ext_handle_unwritten_extents", Kind::handle_unwritten, " ino %", kInode},
    {"ext4_ext_convert_to_initialized_enter", Kind::handle_unwritten, " ino %", kInode},
    {"ext4_ext_convert_to_initialized_fastpath", Kind::handle_unwritten, " ino %", kInode},
    {"ext4_sync_file_enter", Kind::sync_file_enter, " ino %", kInode},
    {"ext4_sync_file_exit", Kind::sync_file_exit, " ino %", kInode},
    {"ext4_sync_fs", Kind::sync_fs, "", {}},
    {"ext4_writepages", Kind::writepages, " ino % nr_to_write %- pages_skipped %- range_start % range_end %",
     kWritepages},
    {"ext4_writepages_result", Kind::writepages_result, " ino %", kInode},
    {"ext4_mb_bitmap_load", Kind::bitmap_load, " group %", kGroupOnly},
    {"ext4_mb_buddy_bitmap_load", Kind::buddy_bitmap_load, " group %", kGroupOnly},
    {"ext4_read_block_bitmap_load", Kind::read_block_bitmap_load, " group %", kGroupOnly},
    {"ext4_load_inode_bitmap", Kind::load_inode_bitmap, " group %", kGroupOnly},
    {"ext4_prefetch_bitmaps", Kind::prefetch_bitmaps, " group % next % ios %", kPrefetch},
    {"jbd2_start_commit", Kind::commit_start, " transaction %", kTransaction},
    {"jbd2_commit_locking", Kind::commit_locking, " transaction %", kTransaction},
    {"jbd2_commit_flushing", Kind::commit_flushing, " transaction %", kTransaction},
    {"jbd2_commit_logging", Kind::commit_logging, " transaction %", kTransaction},
    {"jbd2_run_stats", Kind::commit_stats, " tid %", kTid},
    {"jbd2_end_commit", Kind::commit_end, " transaction %", kTransaction},
    {"jbd2_handle_start", Kind::handle_start, " tid %", kTid},
    {"jbd2_handle_restart", Kind::handle_start, " tid %", kTid},
    {"ext4_mark_inode_dirty", Kind::inode_dirty, " ino %", kInode},
    {"sys_enter_truncate", Kind::truncate_call, "", kLength},
    {"sys_enter_ftruncate", Kind::truncate_call, "", kLength},
    {"sys_exit_truncate", Kind::truncate_return, "", {}},
    {"sys_exit_ftruncate", Kind::truncate_return, "", {}},
    {"workqueue_execute_end", Kind::work_done, "", {}},
    {"ext4_error", Kind::fs_error, "", {}},
    {"ext4_shutdown", Kind::shutdown, "", {}},
    {"print", Kind::mark, "", {}},
    {"tracing_mark_write", Kind::mark, "", {}},
};

// Known, and of no use to replay. Everything else of ext4_ and jbd2_ is "unknown" and is reported.
constexpr const char* kIgnored[] = {
    "ext4_alloc_da_blocks", "ext4_da_write_pages_extent", "ext4_da_write_pages", "ext4_da_write_folios_start",
    "ext4_da_write_folios_end", "ext4_discard_blocks", "ext4_ext_load_extent", "ext4_ext_remove_space_done",
    "ext4_ext_rm_idx", "ext4_ext_rm_leaf", "ext4_ext_show_extent", "ext4_fc_cleanup", "ext4_fc_commit_start",
    "ext4_fc_commit_stop", "ext4_fc_replay", "ext4_fc_replay_scan", "ext4_fc_stats", "ext4_fc_track_create",
    "ext4_fc_track_inode", "ext4_fc_track_link", "ext4_fc_track_range", "ext4_fc_track_unlink", "ext4_forget",
    "ext4_invalidate_folio", "ext4_journal_start_inode", "ext4_journal_start_reserved", "ext4_journal_start_sb",
    "ext4_journalled_invalidate_folio", "ext4_lazy_itable_init", "ext4_load_inode",
    "ext4_nfs_commit_metadata", "ext4_other_inode_update_time", "ext4_read_folio", "ext4_readpage",
    "ext4_release_folio", "ext4_releasepage", "ext4_remove_blocks", "ext4_trim_all_free", "ext4_update_sb",
    "ext4_es_cache_extent", "ext4_es_find_extent_range_enter", "ext4_es_find_extent_range_exit",
    "ext4_es_insert_delayed_extent", "ext4_es_insert_extent", "ext4_es_lookup_extent_enter",
    "ext4_es_lookup_extent_exit", "ext4_es_remove_extent", "ext4_es_shrink", "ext4_es_shrink_count",
    "ext4_es_shrink_scan_enter", "ext4_es_shrink_scan_exit", "jbd2_checkpoint", "jbd2_checkpoint_stats",
    "jbd2_drop_transaction", "jbd2_handle_extend", "jbd2_handle_stats", "jbd2_lock_buffer_stall",
    "jbd2_shrink_checkpoint_list", "jbd2_shrink_count", "jbd2_shrink_scan_enter", "jbd2_shrink_scan_exit",
    "jbd2_submit_inode_data", "jbd2_update_log_tail", "jbd2_write_superblock", "bprint", "bputs", "raw_data",
    "ext4_fsmap_high_key", "ext4_fsmap_low_key", "ext4_fsmap_mapping", "ext4_getfsmap_high_key",
    "ext4_getfsmap_low_key", "ext4_getfsmap_mapping",
};

struct Index {
  std::array<EventFormat, std::size(kIgnored)> ignored;
  std::unordered_map<std::string_view, const EventFormat*> by_name;
  Index() {
    for (std::size_t i = 0; i < ignored.size(); ++i) {
      ignored[i] = {kIgnored[i], Kind::ignored, "", {}};
      by_name.emplace(kIgnored[i], &ignored[i]);
    }
    for (const EventFormat& f : kFormats) by_name.emplace(f.name, &f);
  }
};

struct FlagName {
  std::string_view name;
  std::uint64_t bit;
};
constexpr FlagName kHints[] = {{"HINT_MERGE", 0x1}, {"HINT_FIRST", 0x8}, {"HINT_DATA", 0x20},
                               {"HINT_NOPREALLOC", 0x40}, {"HINT_GRP_ALLOC", 0x80}, {"HINT_GOAL_ONLY", 0x100},
                               {"HINT_TRY_GOAL", 0x200}, {"DELALLOC_RESV", 0x400}, {"STREAM_ALLOC", 0x800},
                               {"USE_ROOT_BLKS", 0x1000}, {"USE_RESV", 0x2000}, {"STRICT_CHECK", 0x4000}};
constexpr FlagName kFrees[] = {{"METADATA", 0x1}, {"FORGET", 0x2}, {"VALIDATED", 0x4}, {"NO_QUOTA", 0x8},
                               {"1ST_CLUSTER", 0x10}, {"LAST_CLUSTER", 0x20}};
constexpr FlagName kMaps[] = {{"CREATE", 0x1}, {"UNWRIT", 0x2}, {"DELALLOC", 0x4}, {"PRE_IO", 0x8}, {"CONVERT", 0x10},
                              {"METADATA_NOFAIL", 0x20}, {"NO_NORMALIZE", 0x40}, {"CONVERT_UNWRITTEN", 0x100},
                              {"ZERO", 0x200}, {"IO_SUBMIT", 0x400}, {"EX_NOCACHE", 0x40000000}};
constexpr FlagName kFalloc[] = {{"KEEP_SIZE", 0x1}, {"PUNCH_HOLE", 0x2}, {"COLLAPSE_RANGE", 0x8},
                                {"ZERO_RANGE", 0x10}, {"WRITE_ZEROES", 0x80}};
constexpr FlagName kCriteria[] = {{"CR_POWER2_ALIGNED", 0}, {"CR_GOAL_LEN_FAST", 1}, {"CR_BEST_AVAIL_LEN", 2},
                                  {"CR_GOAL_LEN_SLOW", 3}, {"CR_ANY_FREE", 4}};

std::span<const FlagName> names_of(Form form) {
  switch (form) {
    case Form::hint_flags: return kHints;
    case Form::free_flags: return kFrees;
    case Form::map_flags: return kMaps;
    case Form::falloc_mode: return kFalloc;
    case Form::criterion: return kCriteria;
    default: return {};
  }
}

}  // namespace

const EventFormat* find_format(std::string_view name) {
  static const Index index;
  const auto it = index.by_name.find(name);
  return it == index.by_name.end() ? nullptr : it->second;
}

std::span<const EventFormat> all_formats() { return kFormats; }

std::uint64_t parse_flags(Form form, std::string_view text) {
  const auto names = names_of(form);
  std::uint64_t value = 0;
  while (!text.empty()) {
    const std::size_t bar = text.find('|');
    const std::string_view word = text.substr(0, bar);
    text = bar == std::string_view::npos ? std::string_view() : text.substr(bar + 1);
    if (word.starts_with("0x")) {
      std::uint64_t v = 0;
      std::from_chars(word.data() + 2, word.data() + word.size(), v, 16);
      value |= v;
      continue;
    }
    const auto it = std::find_if(names.begin(), names.end(), [&](const FlagName& f) { return f.name == word; });
    if (it != names.end()) value |= it->bit;
  }
  return value;
}

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::unknown: return "unknown";
    case Kind::ignored: return "ignored";
    default: break;
  }
  for (const EventFormat& f : kFormats)
    if (f.kind == kind) return f.name;
  return "?";
}

}  // namespace e4::trace
