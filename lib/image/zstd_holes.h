// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/result.h"

namespace e4::image {

/// Decompresses a whole zstd file held in memory and hands on its content in
/// order, leaving out long runs of zeros, which in an image of a big empty
/// file system are nearly everything.
///
/// How: zstd stores a zero run as blocks of type RLE (3 bytes of head, 1 byte of
/// content for 128 KiB). Once a whole window of zeros has been produced, more such
/// blocks cannot change what later blocks refer to, so they are counted
/// and not fed to the decoder. For that the frame is fed under a head of our own,
/// without content size and checksum. Format: RFC 8878.
/// `sink(offset, data)`; returns the decompressed size. `max_bytes` bounds it.
Result<std::uint64_t> decompress_skipping_holes(
    std::span<const std::byte> file, const std::string& name, std::uint64_t max_bytes,
    const std::function<Result<void>(std::uint64_t, std::span<const std::byte>)>& sink);

}  // namespace e4::image
