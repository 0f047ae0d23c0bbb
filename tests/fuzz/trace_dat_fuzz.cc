// SPDX-License-Identifier: GPL-2.0-only
// trace.dat files of any content, through libtracecmd: an Error or events, and an end.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "trace/lookahead.h"
#include "trace/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace e4;
  const int fd = ::memfd_create("trace.dat", MFD_CLOEXEC);
  if (fd < 0) return 0;
  const bool whole = ::write(fd, data, size) == static_cast<ssize_t>(size);
  if (whole) {
    auto reader = trace::open_trace("/proc/self/fd/" + std::to_string(fd));
    if (reader) {
      trace::Lookahead ahead(**reader, 256);
      trace::Item item;
      for (;;) {
        const auto more = ahead.next(item);
        if (!more || !*more) break;
      }
    }
  }
  ::close(fd);
  return 0;
}
