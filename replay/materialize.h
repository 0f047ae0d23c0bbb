// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "image/filsys.h"
#include "replay/dir_blocks.h"
#include "replay/file_table.h"
#include "replay/map_writer.h"
#include "trace/event.h"

namespace e4::replay {

struct MaterializeOptions {
  bool crash = false;             // open-but-unlinked inodes stay orphans; else they get a name
  std::uint32_t now = 0;          // time stamp of everything written, seconds
};

struct Materialized {
  std::uint64_t inodes_written = 0, inodes_removed = 0, orphans = 0, orphans_on_list = 0;
  std::uint64_t extra_blocks = 0;     // blocks beyond those of the trace, for map or directory blocks
  std::uint64_t names_moved = 0;      // names that did not fit their own directory
  std::vector<std::string> notes;
};

/// Turns a start image into the file system a trace leads to: every inode of
/// the trace with its blocks, under its number, with a name in the directory it
/// was made in; free space exactly as the trace left it. Works on a writable
/// Device (give it an Overlay, or a copy); nothing is complete before finish().
class Materializer {
 public:
  static Result<std::unique_ptr<Materializer>> open(image::Device& device);

  /// Takes one event of the file system's own device: sizes, inodes, and (the
  /// kernel's) allocations and frees.
  Result<void> apply(const trace::Event& event);
  /// Somebody else's choice instead of the kernel's allocate_blocks.
  Result<void> allocated(const trace::Event& request, Blk block, std::uint32_t len_clusters);
  Result<void> freed(Ino ino, Blk block, std::uint64_t blocks);
  /// Writes everything to the device.
  Result<Materialized> finish(const MaterializeOptions& options);

  [[nodiscard]] const FileTable& table() const { return table_; }

 private:
  explicit Materializer(image::Filsys fs);
  Result<void> load_inode(Ino ino, FileTable::File& file, std::map<Blk, FileTable::Piece>& owned);
  Result<void> allocate_event(const trace::Event& e, Blk block, std::uint32_t len_clusters);

  // finish(), step by step
  bool lives(const FileTable::File& f) const { return !f.gone; }
  void choose_names();
  Result<void> gather_directories();
  Result<void> write_directory(Ino ino);
  Result<void> place_leftover_names();
  Result<void> write_inode(Ino ino, const FileTable::File& file);
  Result<void> remove_inode(Ino ino, const FileTable::File& file);
  Result<void> write_orphans();
  OwnedBlocks owned_by(Ino ino) const;
  std::uint8_t type_of(Ino ino);

  struct Directory {
    std::vector<Name> names;        // without "." and ".."
    std::vector<Blk> blocks;        // in file order
    Ino parent = 0;
    bool rewrite = false;
  };

  image::Filsys fs_;
  FileTable table_;
  MaterializeOptions options_;
  Materialized result_;
  std::map<Ino, std::vector<std::pair<Blk, FileTable::Piece>>> owned_;
  std::map<Ino, Directory> dirs_;
  std::set<Ino> stale_names_;       // inodes whose names in the start image no longer hold
  std::vector<Name> leftover_;
  std::vector<Ino> orphans_;
};

}  // namespace e4::replay
