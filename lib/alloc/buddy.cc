// SPDX-License-Identifier: GPL-2.0-only
#include "alloc/buddy.h"

#include <cstring>

#include "base/assert.h"

namespace e4::alloc {

unsigned Buddy::order_of(std::uint32_t c) const {
  // Only orders that have pieces at all can hold it.
  for (std::uint32_t mask = order_mask_ & ~1U; mask != 0; mask &= mask - 1) {
    const auto o = static_cast<unsigned>(std::countr_zero(mask));
    if (is_piece(o, c >> o)) return o;
  }
  return 0;
}

void Buddy::add_run(std::uint32_t p, std::uint32_t n) {
  while (n > 0) {
    const unsigned align = p == 0 ? shape_->orders - 1 : static_cast<unsigned>(std::countr_zero(p));
    const unsigned o = std::min({align, bits::width(n) - 1, shape_->orders - 1});
    add_piece(o, p >> o);
    p += 1U << o;
    n -= 1U << o;
  }
}

Buddy::Broken Buddy::mark_used(std::uint32_t start, std::uint32_t len) {
  Broken result;
  const bool left_free = start > 0 && !used(start - 1);
  const bool right_free = start + len < shape_->bits && !used(start + len);
  free_ -= len;
  if (lo_hint_ == start) lo_hint_ += len;
  if (left_free && right_free) ++frags_;
  if (!left_free && !right_free) --frags_;
  forget_longest(start, len, left_free, right_free);
  if (!left_free) --starts_near(start);
  if (right_free) ++starts_near(start + len);

  std::uint32_t p = start, left = len;
  while (left > 0) {
    // Only the first cluster may lie inside a piece.
    const unsigned o = p == start && left_free ? order_of(p) : order_at_start(p);
    const std::uint32_t size = 1U << o, at = p & ~(size - 1);
    remove_piece(o, at >> o);
    if (at == p && size <= left) {
      p += size;
      left -= size;
      continue;
    }
    if (result.broken == 0) result = {left, size};
    const std::uint32_t take = std::min(left, at + size - p);
    add_run(at, p - at);
    add_run(p + take, at + size - p - take);
    p += take;
    left -= take;
  }
  bits::set_range(bits_, start, len);
  return result;
}

void Buddy::mark_free(std::uint32_t start, std::uint32_t len) {
  bits::clear_range(bits_, start, len);
  const bool left_free = start > 0 && !used(start - 1);
  const bool right_free = start + len < shape_->bits && !used(start + len);
  free_ += len;
  lo_hint_ = std::min(lo_hint_, start);
  if (left_free && right_free) --frags_;
  if (!left_free && !right_free) ++frags_;
  forget_longest(start, len, left_free, right_free);
  if (!left_free) ++starts_near(start);
  if (right_free) --starts_near(start + len);

  // Carry the range up through the orders; at each end one chunk joins its
  // free buddy or stays behind. A free cluster beside the range is a piece of
  // order 0: its buddy was used until now.
  const auto joins = [this](unsigned o, std::uint32_t index) {
    return o == 0 ? !used(index) : is_piece(o, index);
  };
  std::uint32_t lo = start, hi = start + len;
  for (unsigned o = 0; lo < hi; ++o, lo >>= 1, hi >>= 1) {
    if (o == shape_->orders - 1) {
      for (; lo < hi; ++lo) add_piece(o, lo);
      return;
    }
    if (lo & 1) {
      if (joins(o, lo - 1)) {
        remove_piece(o, --lo);
      } else {
        add_piece(o, lo++);
      }
    }
    if (lo < hi && (hi & 1)) {
      if (joins(o, hi)) {
        remove_piece(o, hi++);
      } else {
        add_piece(o, --hi);
      }
    }
  }
}

Buddy::Run Buddy::find_run(std::uint32_t c, std::uint32_t need) const {
  if (used(c)) return {c, 0};
  const std::uint32_t want = std::min(shape_->bits, c + need), stop = next_used(c, want);
  if (stop < want || want == shape_->bits) return {c, stop - c};
  // Whole pieces until `need` is reached: the answer ends with the piece that
  // holds the last cluster wanted, the largest aligned chunk around it inside the run.
  const std::uint32_t x = want - 1;
  const bool inside = c > 0 && !used(c - 1);
  if (inside) {
    const unsigned o = order_of(x);
    return {c, (((x >> o) + 1) << o) - c};
  }
  unsigned o = c == 0 ? shape_->orders - 1 : std::min(bits::width(x ^ (c - 1)) - 1, shape_->orders - 1);
  const std::uint32_t end = ((x >> o) + 1) << o;
  if (const std::uint32_t limit = next_used(want, end); limit < end) o = bits::width(x ^ limit) - 1;
  return {c, (((x >> o) + 1) << o) - c};
}

Buddy::Run Buddy::find_piece(unsigned order) const {
  const std::uint32_t mask = order >= 32 ? 0 : order_mask_ & (~0U << order);
  if (mask == 0) return {};
  const auto o = static_cast<unsigned>(std::countr_zero(mask));
  const std::uint32_t chunks = shape_->bits >> o;
  // The hint is below every free cluster, so no piece starts before it.
  const std::uint32_t from = std::min(lo_hint_ >> o, chunks);
  const std::uint32_t k = bits::next_zero(levels_ + shape_->level_at[o], from, chunks);
  E4_ASSERT(k < chunks);
  return {k << o, 1U << o};
}

GroupCounters Buddy::counters() const {
  GroupCounters c;
  c.free = free_;
  c.frags = frags_;
  c.first = lo_hint_;
  c.counters = counts_;
  return c;
}

bool Buddy::same_split(const Buddy& other) const {
  return free_ == other.free_ && frags_ == other.frags_ && counts_ == other.counts_ && starts_ == other.starts_ && order_mask_ == other.order_mask_ &&
         std::memcmp(levels_, other.levels_, shape_->level_words * sizeof(Word)) == 0;
}

}  // namespace e4::alloc
