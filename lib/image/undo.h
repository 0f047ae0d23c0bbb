// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <memory>
#include <string>

#include "image/device.h"

namespace e4::image {

/// A device that saves what it is about to overwrite to `undo_path` in the
/// format of e2undo(8) before each write reaches `base` ("-z FILE"). The undo
/// file is flushed before the first overwrite of each block, so it survives a
/// crash. `block_bytes` is the file system's block size. Refuses an existing
/// undo file that belongs to another file system.
Result<std::unique_ptr<Device>> open_undo(Device& base, const std::string& undo_path, std::uint32_t block_bytes);

}  // namespace e4::image
