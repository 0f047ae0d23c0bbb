// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "trace/input.h"
#include "trace/reader.h"

namespace e4::trace {

/// A reader of trace text; see open_trace().
Result<std::unique_ptr<Reader>> open_text(std::unique_ptr<ByteSource> source, const std::string& name,
                                          ReaderOptions options);

/// The part of a trace line before the event's own text.
struct LineHead {
  std::string_view comm;   // may hold spaces
  std::int32_t pid = 0;
  std::uint16_t cpu = 0;
  std::uint64_t time_ns = 0;
  std::string_view event;  // without "ext4:"
  std::string_view text;   // what follows the event's colon
};

/// Takes a line of ftrace, trace-cmd report or perf script apart. False: it is not an event line.
bool parse_head(std::string_view line, LineHead& head);

/// Parses the text of an event by its format into `event` (ino, dev and
/// payload; the head fields stay as they are). False: malformed, or a kind
/// that is left out.
bool parse_text(std::string_view name, std::string_view text, Event& event);

}  // namespace e4::trace
