// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "image/device.h"
#include "image/overlay.h"
#include "orphan/release.h"
#include "tests/support/temp_dir.h"

namespace e4::testing_support {

/// A small image made by mke2fs, damaged at will, recovered by lib/orphan, and
/// judged by e2fsck. Every step fails the running test when it cannot be done.
class OrphanLab {
 public:
  /// `arguments`: what mke2fs is given between "-Fq -N 512" and the image; `size` as it takes it.
  explicit OrphanLab(const std::string& arguments = "-b 4096 -t ext4 -O orphan_file,metadata_csum", const std::string& size = "32M");

  [[nodiscard]] const std::string& image() const { return image_; }
  /// debugfs -w with these commands.
  void debugfs(const std::vector<std::string>& commands);
  /// A file of `bytes` with no name and links 0 (or still linked). Returns its inode.
  Ino unnamed_file(std::size_t bytes, bool linked = false);
  /// A named file; its inode.
  Ino file(const std::string& name, std::size_t bytes);
  /// Opens the image as a volume, lets `edit` change it, seals, and writes it back.
  void edit(const std::function<void(orphan::Volume&)>& edit);
  /// Changes an inode's bytes and seals it.
  void edit_inode(Ino ino, const std::function<void(std::span<std::byte>)>& edit);
  /// Puts numbers into the first slots of a block, sealed; orphan_present set or cleared.
  void put_slots(std::uint32_t block, const std::vector<Ino>& numbers, bool present = true);
  /// Changes raw bytes at an offset of the orphan file's block.
  void damage_block(std::uint32_t block, std::size_t offset, std::uint32_t value);
  void set_list_head(Ino ino);

  orphan::Plan classify(const orphan::ClassifyOptions& options = {});
  /// Classifies, releases and writes; in batches when a capacity is given.
  struct Outcome {
    orphan::Plan plan;
    orphan::ReleaseTotals totals;
    unsigned batches = 0;
  };
  Outcome recover(const orphan::ClassifyOptions& options = {}, std::size_t capacity = static_cast<std::size_t>(-1));
  /// Rewrites broken tails of orphan blocks.
  std::uint32_t rewrite();
  /// Exit status of e2fsck -fn; its output in `fsck_text`.
  int fsck();
  std::string fsck_text;
  /// crc32c of a block's content.
  std::uint32_t content(Blk block);
  /// First data block of an inode.
  Blk first_block(Ino ino);

 private:
  struct Open {
    std::unique_ptr<image::Device> device;
    std::unique_ptr<image::Overlay> overlay;
  };
  Open open();
  static void write_back(Open& open);
  TempDir dir_{"/dev/shm"};
  std::string image_;
  unsigned files_ = 0;
};

/// The record of an inode (the nth with that number); fails the test when there is none.
const orphan::Record& record_of(const orphan::Plan& plan, Ino ino, std::size_t nth = 0);

}  // namespace e4::testing_support
