// SPDX-License-Identifier: GPL-2.0-only
#include "alloc/lock.h"

#ifdef E4_DEBUG
namespace e4::alloc::detail {

namespace {
// One bit per level this thread holds; the order itself says that one bit a level is enough.
thread_local std::uint32_t held_levels = 0;
}  // namespace

void lock_order_enter(LockRank rank, bool waits) {
  const std::uint32_t bit = 1U << static_cast<unsigned>(rank);
  if (waits) E4_ASSERT(held_levels < bit);  // nothing of this level or a deeper one is held
  E4_ASSERT((held_levels & bit) == 0);
  held_levels |= bit;
}

void lock_order_leave(LockRank rank) {
  const std::uint32_t bit = 1U << static_cast<unsigned>(rank);
  E4_ASSERT((held_levels & bit) != 0);
  held_levels &= ~bit;
}

}  // namespace e4::alloc::detail
#endif
