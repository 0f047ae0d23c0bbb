// SPDX-License-Identifier: GPL-2.0-only
#include "trace/reader.h"

#include <fmt/core.h>

#include <algorithm>

#include "trace/dat_reader.h"
#include "trace/input.h"
#include "trace/text_reader.h"

namespace e4::trace {

bool Reader::wanted(std::uint32_t dev, std::uint64_t number) {
  if (options_.devices.empty()) return true;
  for (const std::uint32_t d : options_.devices)
    if (d == dev) return true;
  notes_.add(Trouble::other_device, fmt::format("{}:{}", dev_major(dev), dev_minor(dev)), number);
  return false;
}

Result<std::unique_ptr<Reader>> open_trace(const std::string& path, ReaderOptions options) {
  auto peeked = std::make_unique<Peeked>(E4_TRY(open_bytes(path)));
  const std::string head = E4_TRY(peeked->peek(10));
  if (head.starts_with("\x17\x08\x44tracing")) return open_dat(std::move(peeked), path, std::move(options));
  if (head.starts_with("PERFILE2"))
    return make_error(ErrorKind::incompatible, path + ": this is perf.data; convert it with: perf script --ns -i FILE");
  return open_text(std::move(peeked), path, std::move(options));
}

}  // namespace e4::trace
