// SPDX-License-Identifier: GPL-2.0-only
#include "trace/sizes.h"

#include <algorithm>

namespace e4::trace {
namespace {

/// The start of a system call, as far as the events show: whatever call this thread was in has ended.
bool starts_call(Kind k) {
  switch (k) {
    case Kind::write_begin:
    case Kind::fallocate_enter:
    case Kind::punch_hole:
    case Kind::zero_range:
    case Kind::collapse_range:
    case Kind::insert_range:
    case Kind::unlink_enter:
    case Kind::request_inode:
    case Kind::sync_file_enter:
    case Kind::sync_fs:
    case Kind::drop_inode:
    case Kind::evict_inode:
    case Kind::truncate_enter:
    case Kind::begin_ordered_truncate: return true;
    default: return false;
  }
}

/// Events inside the loop that maps the range of a direct write.
bool in_mapping_loop(Kind k) {
  switch (k) {
    case Kind::map_blocks_enter:
    case Kind::map_blocks_exit:
    case Kind::request_blocks:
    case Kind::allocate_blocks:
    case Kind::mballoc_alloc:
    case Kind::mballoc_prealloc:
    case Kind::new_inode_pa:
    case Kind::new_group_pa:
    case Kind::mballoc_discard:
    case Kind::release_inode_pa:
    case Kind::release_group_pa:
    case Kind::mb_discard_preallocations:
    case Kind::implied_cluster:
    case Kind::handle_unwritten:
    case Kind::bitmap_load:
    case Kind::buddy_bitmap_load:
    case Kind::read_block_bitmap_load:
    case Kind::handle_start: return true;
    default: return false;
  }
}

std::uint64_t positive(std::int64_t v) { return v > 0 ? static_cast<std::uint64_t>(v) : 0; }

}  // namespace

Sizes::Inode& Sizes::inode(Ino ino) {
  const auto [it, fresh] = inodes_.try_emplace(ino);
  if (fresh) {
    it->second.extents = new_inodes_extents_;
    if (lookup_)
      if (const auto start = lookup_(ino)) it->second = {start->size_bytes, start->extents};
  }
  return it->second;
}

Sizes::Thread& Sizes::thread(std::int32_t pid) {
  if (pid != last_pid_ || last_thread_ == nullptr) {
    last_thread_ = &threads_[pid];
    last_pid_ = pid;
  }
  return *last_thread_;
}

void Sizes::raise(Ino ino, std::uint64_t bytes) {
  Inode& i = inode(ino);
  i.size = std::max(i.size, bytes);
}

void Sizes::correct(Ino ino, std::uint64_t bytes) {
  Inode& i = inode(ino);
  if (blocks(i.size) != blocks(bytes)) ++missed_;
  i.size = bytes;
}

void Sizes::end_of_call(Thread& t) {
  if (t.allocating != 0 && !t.has_exit) {
    if (!t.keep_size) raise(t.allocating, t.end_bytes);
    t.allocating = 0;
  }
  if (t.collapsing != 0) {
    Inode& i = inode(t.collapsing);
    i.size -= std::min(i.size, t.collapse_bytes);
    t.collapsing = 0;
  }
}

void Sizes::start_call(Thread& t, const Event& e) {
  const std::uint64_t pos = positive(e.range.pos), len = positive(e.range.len);
  const bool sane = pos <= (std::uint64_t{1} << 62) && len <= (std::uint64_t{1} << 62);
  const bool aligned = pos % cluster_bytes_ == 0 && len % cluster_bytes_ == 0;
  switch (e.kind) {
    case Kind::write_begin: t.writing = e.ino; break;
    case Kind::fallocate_enter:
    case Kind::zero_range:
      if (!sane) break;
      t.allocating = e.ino;
      t.end_bytes = pos + len;
      t.keep_size = (e.range.mode & kFallocKeepSize) != 0;
      t.has_exit = e.kind == Kind::fallocate_enter;
      break;
    case Kind::insert_range:
      if (sane && aligned && pos < size(e.ino)) {
        t.inserting = e.ino;
        t.insert_bytes = len;
      }
      break;
    case Kind::collapse_range:
      if (sane && aligned && pos + len < size(e.ino)) {
        t.collapsing = e.ino;
        t.collapse_bytes = len;
      }
      break;
    case Kind::unlink_enter: correct(e.ino, pos); break;
    case Kind::begin_ordered_truncate: inode(e.ino) = {pos, inode(e.ino).extents}; break;
    case Kind::truncate_enter: t.truncating = e.ino; break;
    default: break;
  }
}

/// Range of a writeback: the traces that growing truncates leave in it.
void Sizes::written_back(const Event& e) {
  const std::uint64_t start = positive(e.range.pos), end = positive(e.range.len);
  if (end >= std::uint64_t{1} << 62) return;
  Inode& i = inode(e.ino);
  if (start == i.size && i.size % block_bytes_ != 0 && end + 1 == blocks(i.size) * block_bytes_) {
    i.grown = true;
  } else if (i.grown && start == 0 && (end + 1) % block_bytes_ == 0 && end + 1 > i.size) {
    i.size = end + 1;  // nobody maps and syncs beyond the end
    i.grown = false;
  }
}

void Sizes::mapped(Thread& t, const Event& e) {
  if (e.map.ret <= 0) return;
  const std::uint64_t end = (std::uint64_t{e.map.lblk} + static_cast<std::uint32_t>(e.map.ret)) * block_bytes_;
  if (t.allocating == e.ino) {
    if (!t.keep_size) raise(e.ino, std::min(end, t.end_bytes));
  } else if (e.map.flags == kMapCreate && t.writing != e.ino && !t.flushing) {
    t.direct = e.ino;
    t.direct_end = end;
  }
}

void Sizes::feed(const Event& e) {
  if (e.kind == Kind::da_reserve_space || e.kind == Kind::mark) return;
  Thread& t = thread(e.pid);
  if (t.direct != 0 && !in_mapping_loop(e.kind)) {
    raise(t.direct, t.direct_end);
    t.direct = 0;
  }
  if (t.inserting != 0 && !t.flushing && e.kind != Kind::writepages) {
    inode(t.inserting).size += t.insert_bytes;
    t.inserting = 0;
  }
  if (starts_call(e.kind)) {
    end_of_call(t);
    start_call(t, e);
    return;
  }
  switch (e.kind) {
    case Kind::write_end:
      raise(e.ino, positive(e.range.pos) + e.range.copied);
      t.writing = 0;
      break;
    case Kind::fallocate_exit:
      if (t.allocating == e.ino && t.has_exit) {
        if (e.range.ret == 0 && !t.keep_size) raise(e.ino, t.end_bytes);
        t.allocating = 0;
      }
      break;
    case Kind::map_blocks_exit: mapped(t, e); break;
    case Kind::writepages:
      t.flushing = true;
      written_back(e);
      break;
    case Kind::writepages_result: t.flushing = false; break;
    case Kind::truncate_exit: t.truncating = 0; break;
    case Kind::ext_remove_space:
      // A truncate removes to the end; its start is the new size in blocks.
      if (t.truncating == e.ino && e.remove.end == 0xFFFFFFFEU && blocks(size(e.ino)) != e.remove.start)
        inode(e.ino).size = std::uint64_t{e.remove.start} * block_bytes_;
      break;
    case Kind::allocate_inode: inodes_[e.ino] = {0, new_inodes_extents_}; break;
    case Kind::free_inode: inodes_[e.ino] = {0, new_inodes_extents_}; break;
    case Kind::truncate_call:
      t.truncate_called = true;
      t.truncate_to = positive(e.range.pos);
      break;
    case Kind::truncate_return: t.truncate_called = false; break;
    case Kind::inode_dirty:
      // Inside the call, before anything else of it can look at the size. Shrinking has its own events.
      if (t.truncate_called) raise(e.ino, t.truncate_to);
      t.truncate_called = false;
      break;
    default: break;
  }
}

}  // namespace e4::trace
