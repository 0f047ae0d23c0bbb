// SPDX-License-Identifier: GPL-2.0-only
#include "tests/support/power_cut.h"

#include <algorithm>

#include "base/random.h"

namespace e4::test {

namespace {
Error no_power() { return make_error(ErrorKind::io, "power cut"); }
constexpr std::size_t kPieceBytes = 1024;
}  // namespace

PowerCut::PowerCut(image::Device& medium, Plan plan) : medium_(medium), plan_(plan) {}

Result<void> PowerCut::read(std::uint64_t offset, std::span<std::byte> out) {
  if (cut_) return no_power();
  return medium_.read(offset, out);
}

Result<void> PowerCut::write(std::uint64_t offset, std::span<const std::byte> data) {
  if (cut_) return no_power();
  if (steps_ >= plan_.after_steps) {
    E4_TRY(lose_power(offset, data));
    return no_power();
  }
  ++steps_;
  if (plan_.unflushed != Unflushed::kept) {
    Write w{.offset = offset, .before = std::vector<std::byte>(data.size()), .after = {data.begin(), data.end()}};
    E4_TRY(medium_.read(offset, w.before));
    pending_.push_back(std::move(w));
  }
  return medium_.write(offset, data);
}

Result<void> PowerCut::flush() {
  if (cut_) return no_power();
  if (steps_ >= plan_.after_steps) {
    E4_TRY(lose_power(0, {}));
    return no_power();
  }
  ++steps_;
  pending_.clear();
  return medium_.flush();
}

Result<void> PowerCut::lose_power(std::uint64_t offset, std::span<const std::byte> data) {
  cut_ = true;
  for (auto w = pending_.rbegin(); w != pending_.rend(); ++w) E4_TRY(medium_.write(w->offset, w->before));
  if (plan_.unflushed == Unflushed::some) {
    Random random(plan_.seed);
    for (const Write& w : pending_) {
      for (std::size_t at = 0; at < w.after.size(); at += kPieceBytes) {
        if (random.one_in(2)) continue;
        const std::size_t n = std::min(kPieceBytes, w.after.size() - at);
        E4_TRY(medium_.write(w.offset + at, std::span(w.after).subspan(at, n)));
      }
    }
    const std::size_t pieces = data.size() / plan_.tear_bytes;
    if (pieces > 0) E4_TRY(medium_.write(offset, data.first(random.below(pieces + 1) * plan_.tear_bytes)));
  }
  pending_.clear();
  return {};
}

}  // namespace e4::test
