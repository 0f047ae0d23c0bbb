// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace e4::testing_support {

struct OrphanImage {
  std::uint32_t orphans = 1000;
  std::uint32_t block_bytes = 4096;
  std::uint32_t blocks_each = 1;       // one extent of so many blocks an orphan, 0..32768
  std::uint32_t orphan_blocks = 512;   // size of the orphan file; what does not fit goes on the list
  bool metadata_csum = true;
};

/// Makes a sparse image at `path` (mke2fs, then raw inodes) whose orphans are
/// deleted files: orphan file first, the rest on the legacy list; clean
/// journal, orphan_present set. Written straight from the format's rules and
/// not with lib/orphan, so that it checks lib/orphan too.
Result<void> make_orphan_image(const std::string& path, const OrphanImage& what);

}  // namespace e4::testing_support
