// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <optional>
#include <string>

namespace e4::image {

/// "a xfs file system labelled 'data'", "a dos partition table", ...: what
/// libblkid recognises in a file or on a device; nothing when it recognises
/// nothing or cannot look.
std::optional<std::string> describe_content(const std::string& path);

}  // namespace e4::image
