// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "alloc/allocator.h"
#include "base/mutex.h"
#include "image/filsys.h"

namespace e4::space {

/// What the allocator needs to know of a superblock.
alloc::Geometry geometry_of(const ext2_super_block& super);
/// Mount options as a mount without options would have them: stripe width, journal, root reserve, default data mode.
alloc::MountOptions mount_options_of(const ext2_super_block& super);

/// The block bitmaps of an image, read one by one as groups are touched.
/// Opening reads none of them. The layout of BLOCK_UNINIT groups is computed.
class ImageBitmaps final : public alloc::BitmapSource {
 public:
  /// `fs` must outlive it. `check_checksums`: a bitmap whose checksum is wrong is an Error (corrupt), as the kernel has it.
  explicit ImageBitmaps(image::Filsys& fs, bool check_checksums = true);
  alloc::GroupDescriptor descriptor(GroupNo group) override;
  Result<void> read_bitmap(GroupNo group, std::span<std::uint64_t> words) override;
  std::uint32_t metadata_clusters(GroupNo group) override;
  /// Marks what a group's own metadata takes: superblock and descriptor copies, bitmaps and inode table inside it.
  void mark_layout(GroupNo group, std::span<std::uint64_t> words) const;
  [[nodiscard]] const alloc::Geometry& geometry() const { return geometry_; }

 private:
  image::Filsys& fs_;
  const alloc::Geometry geometry_;
  const bool check_checksums_;
  Mutex read_mutex_;  // a Device serves one thread at a time
};

struct SpaceOptions {
  alloc::Policy policy;
  std::optional<alloc::MountOptions> mount;  // default: mount_options_of(super)
  std::optional<alloc::Tunables> tunables;   // default: what the kernel sets at mount
  bool check_checksums = true;
};

/// The allocator over a real image: loaded lazily, stored back with checksums.
/// Not thread-safe itself (the allocator inside is); one per Filsys.
class Space {
 public:
  /// Reads descriptors only. Errors: geometry the allocator cannot have.
  static Result<std::unique_ptr<Space>> load(image::Filsys& fs, const SpaceOptions& options = {});
  alloc::Allocator& allocator() { return *allocator_; }
  ImageBitmaps& bitmaps() { return bitmaps_; }

  /// Writes what changed: block bitmaps with their checksums, free counts and flags of the descriptors with theirs, the
  /// superblock's free count; then flushes descriptors and superblock (backups too if `backups`). Freed clusters are
  /// stored as free even before their commit. Quiescent. Returns how many groups were written.
  Result<std::uint32_t> store(bool backups = false);

 private:
  Space(image::Filsys& fs, const SpaceOptions& options) : fs_(fs), bitmaps_(fs, options.check_checksums) {}
  Result<void> store_group(GroupNo group);

  image::Filsys& fs_;
  ImageBitmaps bitmaps_;
  std::unique_ptr<alloc::Allocator> allocator_;
};

}  // namespace e4::space
