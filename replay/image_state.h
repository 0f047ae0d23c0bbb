// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <memory>
#include <string>

#include "alloc/bitmap_source.h"
#include "image/filsys.h"
#include "trace/sizes.h"

namespace e4::replay {

/// A start or end state: an image in whatever wrapping, its geometry, its
/// bitmaps for an allocator, and its inodes. Read-only.
class ImageState final : public alloc::BitmapSource {
 public:
  static Result<std::unique_ptr<ImageState>> open(const std::string& path);

  [[nodiscard]] const alloc::Geometry& geometry() const { return geometry_; }
  [[nodiscard]] bool has_journal() const;
  [[nodiscard]] bool extents() const { return geometry_.extents; }
  [[nodiscard]] Blk root_blocks() const;
  [[nodiscard]] image::Filsys& filsys() { return fs_; }

  alloc::GroupDescriptor descriptor(GroupNo group) override;
  Result<void> read_bitmap(GroupNo group, std::span<std::uint64_t> words) override;
  std::uint32_t metadata_clusters(GroupNo group) override;
  /// An inode in use; nothing otherwise.
  std::optional<trace::InodeStart> inode(Ino ino);

 private:
  ImageState(std::unique_ptr<image::Device> device, image::Filsys fs, const alloc::Geometry& geometry)
      : device_(std::move(device)), fs_(std::move(fs)), geometry_(geometry) {}
  void mark_layout(GroupNo group, std::span<std::uint64_t> words) const;

  std::unique_ptr<image::Device> device_;
  image::Filsys fs_;
  alloc::Geometry geometry_;
};

}  // namespace e4::replay
