// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "image/device.h"

namespace e4::image {

/// Decompresses a zstd file held in memory into an anonymous mapping of the
/// image's full size, block by block at its final place. Blocks of zeros are
/// told to the decoder's history and never written, so a hole costs neither
/// time nor memory. The device is writable; writes stay in memory.
///
/// Null (no error) when the address space cannot be had: strict overcommit, or
/// an image of more than 64 TiB; decompress_skipping_holes() does it then.
/// Errors: corrupt (damaged file).
Result<std::unique_ptr<Device>> map_zstd(std::span<const std::byte> file, const std::string& name);

}  // namespace e4::image
