// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "image/filsys.h"
#include "journal/fc_space.h"
#include "journal/file_map.h"

namespace e4::journal {

/// One inode that fast commits touch.
struct FcFile {
  Ino ino = 0;
  std::vector<std::byte> raw;      // the whole inode; host order, which is the disk's here
  ExtentList extents;              // inodes with an extent tree
  FileMap map;                     // as last read from or written to the image
  bool has_extents = false;
  bool map_changed = false;
  bool entries_changed = false;    // a directory whose names changed

  [[nodiscard]] ext2_inode_large& node() { return *reinterpret_cast<ext2_inode_large*>(raw.data()); }
  [[nodiscard]] ext2_inode* base() { return reinterpret_cast<ext2_inode*>(raw.data()); }
  [[nodiscard]] bool is_dir() { return LINUX_S_ISDIR(node().i_mode); }
};

/// The touched inodes, and the way between them and the image. Nobody else may
/// change these inodes meanwhile; after a libext2fs call that does, reload().
class FcFiles {
 public:
  FcFiles(image::Filsys& fs, FcSpace& space) : fs_(fs), space_(space) {}

  /// The inode, read and mapped on first use. Errors: corrupt (out of range,
  /// one of the special inodes, not in use, its map is damaged).
  Result<FcFile*> touch(Ino ino);
  /// For an INODE record: puts `record` (128 bytes and more, as on disk) in
  /// the place of everything but the block map, allocates the inode if free.
  Result<FcFile*> replace(Ino ino, std::span<const std::byte> record);

  /// Writes the inode, its extent tree first if it changed.
  Result<void> sync(FcFile& file);
  /// Reads inode and map again.
  Result<void> reload(FcFile& file);

  [[nodiscard]] std::map<Ino, std::unique_ptr<FcFile>>& all() { return files_; }
  /// i_blocks as the map says, in the unit the inode uses.
  void count_blocks(FcFile& file);
  /// What all touched files hold now.
  [[nodiscard]] BlockSet held();

 private:
  Result<void> check_number(Ino ino) const;
  Result<std::unique_ptr<FcFile>> read(Ino ino);
  Result<void> read_map(FcFile& file);
  /// Lets go of what a deleted file held whose number is used again.
  Result<void> forget(FcFile& file);
  Result<void> write_tree(FcFile& file);

  image::Filsys& fs_;
  FcSpace& space_;
  std::map<Ino, std::unique_ptr<FcFile>> files_;
};

}  // namespace e4::journal
