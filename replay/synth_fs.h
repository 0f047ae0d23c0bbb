// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "alloc/allocator.h"
#include "replay/image_state.h"

namespace e4::replay {

/// The part of ext4 above the block allocator, as far as a synthetic
/// recording needs it: files with extents, delayed allocation, fallocate,
/// truncate, unlink, commits. Every call goes to a real Allocator and prints
/// the events a kernel would, in the form of `trace-cmd report -t`. No
/// bigalloc, no indirect maps. Not thread-safe.
class SynthFs {
 public:
  /// `trace` and the others must outlive the object. `device`: make_dev().
  SynthFs(alloc::Allocator& allocator, ImageState& start, std::ostream& trace, std::uint32_t device);

  /// Who does what follows: a thread of the workload on a CPU.
  void run_as(const std::string& name, std::uint32_t pid, std::uint32_t cpu);
  void advance(std::uint64_t ns) { now_ns_ += ns; }
  [[nodiscard]] std::uint64_t now_ns() const { return now_ns_; }
  /// A "phase: ..." mark.
  void phase(const std::string& text);

  /// 0 when no inode is free.
  Ino create(Ino directory, std::uint32_t mode);
  /// Grows the directory by a block when its names need one more.
  bool add_name(Ino directory, std::size_t name_bytes);
  /// False when space ran out on the way; what was got stays.
  bool fallocate(Ino ino, std::uint64_t offset, std::uint64_t bytes, bool keep_size = false);
  /// Delayed: reserves now, allocates at flush().
  bool write(Ino ino, std::uint64_t pos, std::uint64_t bytes);
  bool flush(Ino ino, bool by_flusher);
  void open(Ino ino) { file(ino).open = true; }
  void close(Ino ino);
  void truncate(Ino ino, std::uint64_t size_bytes);
  void unlink(Ino ino);          // the name goes; the inode at once if nobody holds it open
  void commit();

  [[nodiscard]] std::uint64_t size(Ino ino) { return file(ino).size_bytes; }
  [[nodiscard]] std::uint64_t free_blocks() const;
  [[nodiscard]] std::uint64_t events() const { return events_; }
  [[nodiscard]] std::uint32_t block_bytes() const { return geometry_.block_bytes; }

 private:
  struct Run {
    Blk block = 0;
    std::uint32_t blocks = 0;
  };
  struct File {
    std::uint32_t mode = 0;
    Ino parent = 0;
    std::uint64_t size_bytes = 0;
    std::map<Lblk, Run> map;
    std::map<Lblk, std::uint32_t> delayed;  // reserved, not allocated
    std::uint32_t reserved_blocks = 0;
    std::vector<Blk> tree;
    std::size_t name_bytes = 0;             // directories: names in all blocks
    bool open = false, unlinked = false;
  };
  File& file(Ino ino) { return files_[ino]; }
  void line(const char* event, const std::string& text);
  void log_lines(const alloc::EventLog& log);
  alloc::Request request_for(Ino ino, Lblk lblk, std::uint32_t blocks, std::uint32_t flags);
  std::uint32_t allocate(Ino ino, alloc::Request q, Blk& block);  // blocks got
  std::uint32_t map_run(Ino ino, Lblk lblk, std::uint32_t blocks, std::uint32_t flags);
  void fit_tree(Ino ino, std::uint32_t flags);
  void free_blocks_of(Ino ino, Blk block, std::uint32_t blocks, bool metadata);
  void cut(Ino ino, Lblk from);
  void evict(Ino ino);
  void discard(Ino ino);

  alloc::Allocator& allocator_;
  const alloc::Geometry geometry_;
  const bool delalloc_;
  std::ostream& trace_;
  std::string dev_;
  std::vector<bool> inode_used_;
  std::map<Ino, File> files_;
  std::string task_ = "workload";
  std::uint32_t pid_ = 1000, cpu_ = 0;
  std::uint64_t now_ns_ = 1000000000, events_ = 0;
  Tid tid_ = 2;
};

}  // namespace e4::replay
