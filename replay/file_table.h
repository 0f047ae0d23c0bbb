// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace e4::replay {

/// What a trace leads to, file by file: which inodes exist, and which blocks
/// each of them owns at which file position. Pure bookkeeping; the blocks are
/// the kernel's or the allocator's own, whoever feeds it.
///
/// Invariant: a block has at most one owner. Blocks whose file position got
/// lost (a collapse the kernel refused, say) stay owned, as `loose`.
/// Not thread-safe.
class FileTable {
 public:
  enum class Kind : std::uint8_t {
    data,   // mapped at lblk
    meta,   // extent-tree, indirect or extended-attribute block
    loose,  // owned, position unknown
  };
  /// A run of blocks of one owner.
  struct Piece {
    Ino ino = 0;
    std::uint32_t len_blocks = 0;
    Lblk lblk = 0;
    Kind kind = Kind::data;
  };
  struct File {
    std::uint32_t mode = 0;      // with the type bits
    Ino parent = 0;              // directory it was made in; 0: it was in the start image
    std::uint64_t size_bytes = 0;
    std::uint32_t links = 1;
    bool in_image = false;       // the start image has it
    bool created = false;        // made by the trace
    bool gone = false;           // inode freed
    bool unlinked = false;       // its last name is gone, the inode is not
    bool changed = false;        // its blocks are not those of the start image
  };
  /// Loads an inode of the start image: fills `file` and the pieces it owns.
  using Loader = std::function<Result<void>(Ino, File&, std::map<Blk, Piece>&)>;

  explicit FileTable(Loader loader) : loader_(std::move(loader)) {}

  void create(Ino ino, std::uint32_t mode, Ino parent);
  Result<void> release(Ino ino);          // free_inode
  Result<void> unlink(Ino ino);           // one name less
  Result<void> grow(Ino ino, std::uint64_t size_bytes);
  Result<void> set_size(Ino ino, std::uint64_t size_bytes);
  /// `blocks` from `block` now belong to the inode. Blocks that had another owner change it.
  Result<void> allocate(Ino ino, Kind kind, Lblk lblk, Blk block, std::uint32_t blocks);
  /// Returns the blocks that nobody was known to own.
  Result<std::uint64_t> free(Ino ino, Blk block, std::uint64_t blocks);
  Result<void> collapse(Ino ino, Lblk from, Lblk blocks);
  Result<void> insert(Ino ino, Lblk from, Lblk blocks);

  /// The file, loaded from the start image if need be.
  Result<File*> find(Ino ino);
  [[nodiscard]] const std::map<Ino, File>& files() const { return files_; }
  [[nodiscard]] const std::map<Blk, Piece>& pieces() const { return pieces_; }
  /// Pieces by owner, each list ascending by block.
  [[nodiscard]] std::map<Ino, std::vector<std::pair<Blk, Piece>>> by_owner() const;

 private:
  std::uint64_t cut(Blk block, std::uint64_t blocks);  // blocks taken from their owners
  void split_at(Blk block);

  Loader loader_;
  std::map<Ino, File> files_;
  std::map<Blk, Piece> pieces_;
};

}  // namespace e4::replay
