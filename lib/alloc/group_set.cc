// SPDX-License-Identifier: GPL-2.0-only
#include "alloc/group_set.h"

#include <bit>

namespace e4::alloc {

GroupSet::GroupSet(GroupNo groups, std::atomic<std::uint32_t>* nonempty, std::uint32_t nonempty_bit)
    : nonempty_(nonempty), nonempty_bit_(nonempty_bit) {
  for (GroupNo n = groups; depth_ == 0 || n > 1; ++depth_) {
    n = n / 64 + (n % 64 != 0);
    offset_[depth_] = words_;
    count_[depth_] = n;
    words_ += n;
  }
  storage_ = std::make_unique<std::atomic<std::uint64_t>[]>(words_);
}

GroupNo GroupSet::next(GroupNo from) const {
  for (;;) {
    std::uint64_t i = from;
    unsigned l = 0;
    // Up: the first word with a member at or after i.
    for (;; ++l, i = (i >> 6) + 1) {
      if (l == depth_ || (i >> 6) >= count_[l]) return kNoGroup;
      const std::uint64_t x = at(l, static_cast<GroupNo>(i >> 6)).load(std::memory_order_acquire) >> (i & 63);
      if (x != 0) {
        i += static_cast<unsigned>(std::countr_zero(x));
        break;
      }
    }
    // Down: its lowest member.
    while (l > 0) {
      const std::uint64_t x = at(l - 1, static_cast<GroupNo>(i)).load(std::memory_order_acquire);
      if (x == 0) break;
      i = i * 64 + static_cast<unsigned>(std::countr_zero(x));
      --l;
    }
    if (l == 0) return static_cast<GroupNo>(i);
    // The word below emptied since: go on behind it.
    from = static_cast<GroupNo>((i + 1) << (6 * l));
  }
}

GroupNo GroupSet::size() const {
  GroupNo n = 0;
  for (GroupNo w = 0; w < count_[0]; ++w)
    n += static_cast<GroupNo>(std::popcount(at(0, w).load(std::memory_order_relaxed)));
  return n;
}

}  // namespace e4::alloc
