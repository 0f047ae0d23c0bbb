// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>

#include "base/units.h"
#include "trace/event.h"

namespace e4::trace {

/// What the start image says of an inode.
struct InodeStart {
  std::uint64_t size_bytes = 0;
  bool extents = true;   // mapped by extents, not by indirect blocks
  bool regular = true;
};
/// Looks an inode of the start image up; nothing if there is none in use.
using InodeLookup = std::function<std::optional<InodeStart>(Ino)>;

/// The i_size of every inode, from what a trace shows. The rules and how well
/// they work: replay-notes in the facts; the events differ by system call.
///
///  write, delayed or not   write_end: max(size, pos + copied)
///  fallocate, zero range   after every mapped chunk, and at the end: max(size, min(chunk end, call end)); not with KEEP_SIZE
///  extending direct I/O    map exit with flags exactly CREATE outside all of these: end of the mapped range, from the
///                          thread's next event that is not part of the mapping loop
///  shrinking               begin_ordered_truncate; in data=journal and writeback the start of ext_remove_space to the
///                          end inside truncate
///  insert range            offset and length aligned, offset < size: size += length once the call has written the
///                          pages behind the offset back (its own writepages)
///  collapse range          aligned, offset + length < size: size -= length at the end of the call
///  unlink_enter            prints the true size: whatever was missed is known from here on
///  growing truncate        no event of ext4 tells the size. Where the truncate system calls are recorded (e4replay record
///                          does): the length of the call, for the inode whose ext4_mark_inode_dirty comes next in the
///                          thread. Otherwise a hint at most: a commit that writes back exactly from the old end to
///                          the end of its block (the tail that growing zeroed), and after it an msync of the whole
///                          mapping. The one gap
class Sizes {
 public:
  /// `new_inodes_extents`: the file system makes extent-mapped files.
  Sizes(std::uint32_t block_bytes, std::uint32_t cluster_bytes, bool new_inodes_extents, InodeLookup lookup)
      : block_bytes_(block_bytes), cluster_bytes_(cluster_bytes), new_inodes_extents_(new_inodes_extents),
        lookup_(std::move(lookup)) {}

  /// Takes one event of the file system in.
  void feed(const Event& e);

  [[nodiscard]] std::uint64_t size(Ino ino) { return inode(ino).size; }
  [[nodiscard]] bool extents(Ino ino) { return inode(ino).extents; }
  /// What was learned otherwise (a difference explained, a size mark).
  void set(Ino ino, std::uint64_t bytes) { inode(ino).size = bytes; }
  /// Times unlink_enter or a truncate showed a size that was not the derived one (in blocks).
  [[nodiscard]] std::uint64_t missed() const { return missed_; }

 private:
  struct Inode {
    std::uint64_t size = 0;
    bool extents = true;
    bool grown = false;  // by a truncate whose length the trace does not tell
  };
  /// What a thread is in the middle of.
  struct Thread {
    Ino allocating = 0;              // fallocate or zero range
    std::uint64_t end_bytes = 0;     // ... end of the call
    bool keep_size = false;
    bool has_exit = false;           // fallocate prints its exit, zero range does not
    Ino writing = 0;                 // between write_begin and write_end
    bool flushing = false;           // between writepages and its result
    Ino truncating = 0;
    Ino direct = 0;                  // an extending direct write just mapped up to direct_end
    std::uint64_t direct_end = 0;
    Ino collapsing = 0;
    std::uint64_t collapse_bytes = 0;
    bool truncate_called = false;    // between sys_enter_(f)truncate and the inode's ext4_mark_inode_dirty
    std::uint64_t truncate_to = 0;
    Ino inserting = 0;
    std::uint64_t insert_bytes = 0;
  };
  Inode& inode(Ino ino);
  Thread& thread(std::int32_t pid);
  void raise(Ino ino, std::uint64_t bytes);
  void correct(Ino ino, std::uint64_t bytes);
  void written_back(const Event& e);
  void end_of_call(Thread& t);
  void start_call(Thread& t, const Event& e);
  void mapped(Thread& t, const Event& e);
  [[nodiscard]] std::uint64_t blocks(std::uint64_t bytes) const { return (bytes + block_bytes_ - 1) / block_bytes_; }

  std::uint64_t block_bytes_, cluster_bytes_;
  bool new_inodes_extents_;
  InodeLookup lookup_;
  std::unordered_map<Ino, Inode> inodes_;
  std::unordered_map<std::int32_t, Thread> threads_;
  std::int32_t last_pid_ = -1;
  Thread* last_thread_ = nullptr;
  std::uint64_t missed_ = 0;
};

}  // namespace e4::trace
