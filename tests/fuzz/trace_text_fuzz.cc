// SPDX-License-Identifier: GPL-2.0-only
// Text traces of any content: every line is read, told of or left out, and
// the number of events never exceeds the number of lines.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "trace/input.h"
#include "trace/lookahead.h"
#include "trace/text_reader.h"

namespace {

using namespace e4;

class Memory final : public trace::ByteSource {
 public:
  Memory(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}
  Result<std::size_t> read(char* out, std::size_t bytes) override {
    const std::size_t n = std::min(bytes, left_);
    if (n != 0) std::memcpy(out, data_, n);
    data_ += n;
    left_ -= n;
    return n;
  }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto reader = trace::open_text(std::make_unique<Memory>(data, size), "fuzz", {});
  if (!reader) return 0;
  trace::Lookahead ahead(**reader, 256);
  trace::Item item;
  std::uint64_t given = 0;
  for (;;) {
    const auto more = ahead.next(item);
    if (!more || !*more) break;
    ++given;
    if (item.role == trace::Item::Role::begin && !ahead.resolve_open(*item.request)) break;
  }
  const auto lines = static_cast<std::uint64_t>(std::count(data, data + size, std::uint8_t{'\n'})) + 1;
  if (given > (*reader)->events_read() || (*reader)->events_read() > lines) std::abort();
  return 0;
}
