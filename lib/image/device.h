// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace e4::image {

/// Random access to the bytes of an image. Offsets and sizes are in bytes.
/// Not thread-safe unless a subclass says so. Everything that reads or writes
/// an image, libext2fs included, goes through one of these, so that overlay,
/// undo and fault injection are layers and not cases.
class Device {
 public:
  virtual ~Device() = default;
  /// Fills `out` from `offset`; a read past size() is an Error (corrupt).
  virtual Result<void> read(std::uint64_t offset, std::span<std::byte> out) = 0;
  virtual Result<void> write(std::uint64_t offset, std::span<const std::byte> data) = 0;
  /// Returns once everything written before is on stable storage.
  virtual Result<void> flush() = 0;
  /// Tells the medium that the content of a range is no longer needed. True:
  /// the range reads as zeros from now on; false: it holds anything, or this
  /// device cannot. Layers that must keep old content (undo) leave it at false.
  virtual Result<bool> discard(std::uint64_t offset, std::uint64_t bytes);
  /// Where the next bytes that may differ from zero begin, at or after `offset`; size() if there are none. Lets
  /// copies skip holes; the default knows of no holes.
  virtual Result<std::uint64_t> next_data(std::uint64_t offset);
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  [[nodiscard]] virtual bool writable() const = 0;
  /// What to call it in messages.
  [[nodiscard]] virtual const std::string& name() const = 0;
};

struct FileDeviceOptions {
  bool writable = false;
  std::uint64_t offset = 0;    // bytes into the file at which the file system starts
  bool ignore_mounted = false; // writable only: skip the mounted / in-use refusal
};

/// Opens a regular file or block device ("PATH?offset=N" is accepted too, as
/// e2fsck does). Writable opens of block devices are exclusive (O_EXCL), of
/// files take an advisory lock; both refuse (ErrorKind::busy) while the target
/// is mounted or swapped on, also through a loop device over it.
Result<std::unique_ptr<Device>> open_file(const std::string& path, FileDeviceOptions options = {});

/// Error (busy) when the file or device is mounted (also through a loop
/// device), swapped on, or held by the kernel.
Result<void> refuse_if_in_use(const std::string& path);

/// Copies the whole device to a new file at `path` (mode 0644, replaced if it
/// exists); what is zero stays a hole.
Result<void> export_image(Device& device, const std::string& path);

/// A memory-backed device, for tests and scratch images.
std::unique_ptr<Device> make_memory_device(std::string name, std::uint64_t bytes);

}  // namespace e4::image
