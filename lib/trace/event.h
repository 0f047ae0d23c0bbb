// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <string_view>

#include "base/units.h"

// One trace event of ext4 or jbd2, as far as replay uses it. The names are the
// kernel's without "ext4_"; the fields keep the kernel's names and units
// (Linux 6.18, include/trace/events/ext4.h; checked against recordings).
namespace e4::trace {

enum class Kind : std::uint8_t {
  unknown,  // an event nobody here has heard of
  ignored,  // known, carries nothing for replay
  mark,     // print / tracing_mark_write: a phase of the recording (Event::text is set by the reader)
  request_blocks,
  allocate_blocks,
  mballoc_alloc,
  mballoc_prealloc,
  new_inode_pa,
  new_group_pa,
  discard_preallocations,
  mballoc_discard,
  release_inode_pa,
  release_group_pa,
  mb_discard_preallocations,
  free_blocks,
  mballoc_free,
  trim_extent,
  da_reserve_space,
  da_update_reserve_space,
  da_release_space,
  request_inode,
  allocate_inode,
  free_inode,
  evict_inode,
  drop_inode,
  unlink_enter,
  unlink_exit,
  truncate_enter,
  truncate_exit,
  begin_ordered_truncate,
  ext_remove_space,
  write_begin,  // da_write_begin too
  write_end,    // da_write_end, journalled_write_end too
  fallocate_enter,
  fallocate_exit,
  punch_hole,
  zero_range,
  collapse_range,
  insert_range,
  map_blocks_enter,  // ext_ and ind_
  map_blocks_exit,
  implied_cluster,
  handle_unwritten,
  sync_file_enter,
  sync_file_exit,
  sync_fs,
  writepages,
  writepages_result,
  bitmap_load,
  buddy_bitmap_load,
  read_block_bitmap_load,
  load_inode_bitmap,
  prefetch_bitmaps,
  commit_start,     // jbd2_start_commit
  commit_locking,
  commit_flushing,
  commit_logging,
  commit_stats,     // jbd2_run_stats: freed blocks come back right after it
  commit_end,
  handle_start,     // jbd2_handle_start, handle_restart
  truncate_call,    // sys_enter_truncate, sys_enter_ftruncate: length in range.pos, no device
  truncate_return,  // sys_exit_...
  inode_dirty,      // ext4_mark_inode_dirty: inside a truncate call it names the inode
  work_done,        // workqueue_execute_end of ext4_discard_work, no device
  fs_error,
  shutdown,
  count_,
};

/// Flags of map_blocks events (kernel: EXT4_GET_BLOCKS_*).
enum MapFlag : std::uint32_t { kMapCreate = 0x1, kMapUnwritten = 0x2, kMapDelalloc = 0x4, kMapPreIo = 0x8 };

/// Mode bits of fallocate events.
enum FallocMode : std::uint32_t { kFallocKeepSize = 0x1, kFallocPunchHole = 0x2, kFallocCollapse = 0x8, kFallocZero = 0x10 };

/// Inode types in `mode`.
inline constexpr bool is_regular(std::uint32_t mode) { return (mode & 0170000) == 0100000; }

/// "G/S/L@l" of the mballoc events: group, cluster in it, clusters, logical block.
struct Chunk {
  std::uint32_t group;
  std::int32_t start;
  std::uint32_t len;
  std::uint32_t logical;
};

/// A compact record. Which payload is valid depends on `kind`.
struct Event {
  std::uint64_t time_ns;
  std::uint64_t number;  // position in the trace, from 1: the line of a text trace, the record of a trace.dat
  std::uint32_t dev;     // major << 20 | minor; 0: the event names no device
  std::int32_t pid;      // thread id
  Ino ino;               // 0: none
  std::uint16_t cpu;
  Kind kind;
  union {
    struct {  // request_blocks, allocate_blocks
      std::uint64_t block, goal, pleft, pright;
      std::uint32_t len, logical, lleft, lright, flags;
    } req;
    struct {  // mballoc_alloc; mballoc_prealloc has orig and result only
      Chunk orig, goal, result;
      std::uint16_t found, groups, flags, tail, buddy;
      std::uint8_t cr;
    } alloc;
    struct {  // new_inode_pa, new_group_pa, release_inode_pa (pstart, len = blocks), release_group_pa
      std::uint64_t pstart, lstart;
      std::uint32_t len;
    } pa;
    struct {  // mballoc_free, mballoc_discard, trim_extent; group alone for the bitmap events
      std::uint32_t group;
      std::int32_t start;
      std::uint32_t len;
    } extent;
    struct {  // free_blocks
      std::uint64_t block, count;
      std::uint32_t flags, mode;
    } free;
    struct {  // da_reserve_space, da_update_reserve_space, da_release_space
      std::int32_t blocks, reserved;
    } da;
    struct {  // write_*, fallocate_*, the range calls; truncate sizes in pos
      std::int64_t pos, len;
      std::uint32_t copied, mode;
      std::int32_t ret;
    } range;
    struct {  // map_blocks_*
      std::uint64_t pblk;
      std::uint32_t lblk, len, flags, mflags;
      std::int32_t ret;
    } map;
    struct {  // ext_remove_space
      std::uint32_t start, end;
    } remove;
    struct {  // allocate_inode, free_inode, request_inode
      std::uint64_t dir;
      std::uint32_t mode;
    } inode;
    struct {  // jbd2
      Tid tid;
    } commit;
    struct {  // discard_preallocations, mb_discard_preallocations
      std::uint32_t len;
    } discard;
    struct {  // prefetch_bitmaps: groups [group, next), batch size as printed
      std::uint32_t group, next, ios;
    } prefetch;
    struct {  // mark: the text without the address, in the reader's buffer until the next event
      const char* data;
      std::uint32_t bytes;
    } mark;
  };

  [[nodiscard]] std::string_view text() const {
    return kind == Kind::mark ? std::string_view(mark.data, mark.bytes) : std::string_view();
  }
};

inline constexpr std::uint32_t make_dev(std::uint32_t major, std::uint32_t minor) { return major << 20 | (minor & 0xFFFFF); }
inline constexpr std::uint32_t dev_major(std::uint32_t dev) { return dev >> 20; }
inline constexpr std::uint32_t dev_minor(std::uint32_t dev) { return dev & 0xFFFFF; }

/// A short name of the kind ("request_blocks").
const char* kind_name(Kind kind);

}  // namespace e4::trace
