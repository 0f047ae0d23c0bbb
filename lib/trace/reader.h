// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "trace/event.h"
#include "trace/notes.h"

namespace e4::trace {

struct ReaderOptions {
  /// Devices wanted (make_dev); empty: all. Events of others are counted and left out.
  std::vector<std::uint32_t> devices;
};

/// The events of a trace, one at a time, in time order. Memory is bounded,
/// whatever the trace's length. Not thread-safe.
class Reader {
 public:
  virtual ~Reader() = default;
  /// The next event for replay (kinds unknown and ignored are left out). False
  /// at the end. An Error means that nothing more can be read.
  virtual Result<bool> next(Event& event) = 0;
  [[nodiscard]] const Notes& notes() const { return notes_; }
  /// Everything read so far, events left out included.
  [[nodiscard]] std::uint64_t events_read() const { return events_read_; }
  /// The name of a thread, if the trace told it.
  [[nodiscard]] virtual std::string thread_name(std::int32_t pid) const = 0;
  /// "text", "trace.dat"
  [[nodiscard]] virtual std::string form() const = 0;

 protected:
  explicit Reader(ReaderOptions options) : options_(std::move(options)) {}
  /// Whether the event's device is wanted; counts it if not.
  bool wanted(std::uint32_t dev, std::uint64_t number);

  ReaderOptions options_;
  Notes notes_;
  std::uint64_t events_read_ = 0;
};

/// Opens a trace, whatever it is: trace-cmd's trace.dat (versions 6 and 7,
/// compressed or not), ftrace text ("trace", "trace_pipe", "trace-cmd report"),
/// perf script text; plain, zstd or gzip; "-" is standard input.
Result<std::unique_ptr<Reader>> open_trace(const std::string& path, ReaderOptions options = {});

}  // namespace e4::trace
