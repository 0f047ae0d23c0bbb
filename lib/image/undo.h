// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <memory>
#include <string>

#include "image/device.h"

namespace e4::image {

/// A device that saves what it is about to overwrite to `undo_path` in the
/// format of e2undo(8) before each write reaches `base` ("-z FILE"). What was
/// saved is on stable storage before the overwrite happens, so the undo file
/// survives a crash (after one, e2undo needs -f: the superblock it compares
/// may be the old or the new one). An existing undo file of the same file
/// system is continued; anything else at that path is refused.
/// `block_bytes` is the file system's block size; `base` must outlive the result.
Result<std::unique_ptr<Device>> open_undo(Device& base, const std::string& undo_path, std::uint32_t block_bytes);

}  // namespace e4::image
