// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "alloc/allocator.h"
#include "trace/translation.h"

namespace e4::trace {

/// A run that goes its own way: our choices stay, and what the trace says of
/// the kernel's blocks (goals, neighbours, frees) is translated to ours. One
/// object for each thread of a run; it must see every event of the inodes it
/// serves, in order. The allocator is shared.
class FreeRun {
 public:
  explicit FreeRun(alloc::Allocator& allocator) : allocator_(allocator) {}

  /// A place where the run's own blocks are, in trace terms.
  struct Chunk {
    Lblk lblk = 0;
    Blk block = 0;
    std::uint32_t len_clusters = 0;
  };

  /// Goal and neighbours of a recorded request, to our blocks.
  void translate(alloc::Request& request) const;

  /// Before allocate(): true if an earlier request of the inode already got what this one asks for; `got` says where.
  bool take_ahead(const alloc::Request& asked, std::uint32_t kernel_len, alloc::Outcome& got);

  /// Books what allocate() gave for a request that got `kernel_len` clusters at
  /// `kernel_block` from the kernel (0: it got nothing, ours is undone). What is
  /// beyond the kernel's is kept, since its caller comes for the rest; too little is asked for again, as the
  /// kernel's callers do. `chunks`, if given, gets every place our blocks came to lie.
  void adopt(const alloc::Request& asked, const alloc::Outcome& got, Blk kernel_block, std::uint32_t kernel_len,
             std::vector<Chunk>* chunks = nullptr);

  /// Gives back what an inode got ahead and nobody came for; its preallocations go with it.
  void drop_ahead(Ino ino);

  /// Frees our blocks for the kernel's clusters [start, start + len) of a group.
  void free(GroupNo group, std::uint32_t start, std::uint32_t len, const alloc::FreeRequest& how);

  /// Frees the allocator refused.
  [[nodiscard]] std::uint64_t free_errors() const { return free_errors_; }
  [[nodiscard]] bool moved() const { return !translation_.empty(); }

 private:
  [[nodiscard]] std::uint64_t cluster_of(Blk block) const;
  [[nodiscard]] Blk block_of(std::uint64_t cluster) const;
  void catch_up(alloc::Request asked, const alloc::Outcome& first, std::uint64_t kernel, std::uint32_t kernel_len,
                std::vector<Chunk>* chunks);

  struct Ahead {
    Lblk lblk;
    Blk block;
    std::uint32_t len_clusters;
  };
  alloc::Allocator& allocator_;
  Translation translation_;
  std::unordered_map<Ino, Ahead> ahead_;
  std::uint64_t free_errors_ = 0;
};

}  // namespace e4::trace
