// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <memory>
#include <string>

#include "trace/input.h"
#include "trace/reader.h"

namespace e4::trace {

/// A reader of trace-cmd's trace.dat; see open_trace(). A stream that is not a
/// plain file is spooled to a temporary file first: the format has indices at
/// its end.
Result<std::unique_ptr<Reader>> open_dat(std::unique_ptr<ByteSource> source, const std::string& path,
                                         ReaderOptions options);

}  // namespace e4::trace
