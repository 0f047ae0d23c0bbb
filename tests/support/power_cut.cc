// SPDX-License-Identifier: GPL-2.0-only
#include "tests/support/power_cut.h"

#include "base/random.h"

namespace e4::test {

namespace {
Error no_power() { return make_error(ErrorKind::io, "power cut"); }
constexpr std::size_t kSectorBytes = 512;
}  // namespace

PowerCut::PowerCut(image::Device& medium, Plan plan) : medium_(medium), plan_(plan) {}

Result<void> PowerCut::read(std::uint64_t offset, std::span<std::byte> out) {
  if (cut_) return no_power();
  return medium_.read(offset, out);
}

Result<void> PowerCut::write(std::uint64_t offset, std::span<const std::byte> data) {
  if (cut_) return no_power();
  if (writes_ >= plan_.after_writes) {
    E4_TRY(lose_power(offset, data));
    return no_power();
  }
  ++writes_;
  if (plan_.unflushed != Unflushed::kept) {
    Write w{.offset = offset, .before = std::vector<std::byte>(data.size()), .after = {data.begin(), data.end()}};
    E4_TRY(medium_.read(offset, w.before));
    pending_.push_back(std::move(w));
  }
  return medium_.write(offset, data);
}

Result<void> PowerCut::flush() {
  if (cut_) return no_power();
  pending_.clear();
  return medium_.flush();
}

Result<void> PowerCut::lose_power(std::uint64_t offset, std::span<const std::byte> data) {
  cut_ = true;
  for (auto w = pending_.rbegin(); w != pending_.rend(); ++w) E4_TRY(medium_.write(w->offset, w->before));
  if (plan_.unflushed == Unflushed::some) {
    Random random(plan_.seed);
    for (const Write& w : pending_) {
      if (random.one_in(2)) E4_TRY(medium_.write(w.offset, w.after));
    }
    const std::size_t sectors = data.size() / kSectorBytes;
    if (sectors > 0) E4_TRY(medium_.write(offset, data.first(random.below(sectors + 1) * kSectorBytes)));
  }
  pending_.clear();
  return {};
}

}  // namespace e4::test
