// SPDX-License-Identifier: GPL-2.0-only
// Questions about free runs that a search asks all the time. The group is cut
// into stretches ("granules"); for each we keep how many runs begin in it, and,
// measured when first asked for after a change, how long the longest is. Inside a
// stretch one fact helps: a segment of 2^(k+1) - 1 clusters or more holds an
// aligned chunk of 2^k, so that a glance at a whole word finds it.
#include "alloc/buddy.h"

namespace e4::alloc {

namespace {

constexpr unsigned kWorthLanes = 3;  // shorter lanes than a byte: walk the runs

/// The lowest aligned lane of 2^k bits that is all zero: its first bit, or 64.
template <unsigned k>
unsigned zero_lane(bits::Word x) {
  if constexpr (k == 6) {
    return x == 0 ? 0 : 64;
  } else {
    constexpr bits::Word kLow = ~bits::Word{0} / ((bits::Word{1} << (1U << k)) - 1);  // 1 in every lane
    constexpr bits::Word kHigh = kLow << ((1U << k) - 1);
    const bits::Word zero = (x - kLow) & ~x & kHigh;  // exact for the lowest
    return zero == 0 ? 64 : static_cast<unsigned>(std::countr_zero(zero)) & ~((1U << k) - 1);
  }
}

template <unsigned k>
std::uint32_t next_zero_lane(const bits::Word* w, std::uint32_t from, std::uint32_t to) {
  if (from >= to) return to;
  std::uint32_t i = from >> 6;
  const std::uint32_t last = (to - 1) >> 6;
  bits::Word x = w[i] | ((bits::Word{1} << (from & 63)) - 1);
  for (;;) {
    if (const unsigned at = zero_lane<k>(x); at < 64) return std::min(to, i * 64 + at);
    if (++i > last) return to;
    x = w[i];
  }
}

}  // namespace

/// End of the run that goes on at c, which begins a piece: bits for short ones, pieces for long ones.
std::uint32_t Buddy::run_end(std::uint32_t c) const {
  constexpr std::uint32_t kShort = 256;
  const std::uint32_t near = std::min(shape_->bits, c + kShort), stop = next_used(c, near);
  if (stop < near) return stop;
  while (c < shape_->bits && !used(c)) c += 1U << order_at_start(c);
  return c;
}

std::uint32_t Buddy::longest_in(std::uint32_t granule) const {
  if (longest_[granule] != kUnknown) return longest_[granule];
  const unsigned shift = shape_->granule_bits;
  std::uint32_t at = granule << shift, longest = 0;
  const std::uint32_t end = (granule + 1) << shift;
  if (starts_[granule] > 0) {
    if (at > 0 && !used(at) && !used(at - 1)) at = next_used(at, end);
    for (at = next_free(at, end); at < end;) {
      const std::uint32_t stop = run_end(at);
      longest = std::max(longest, stop - at);
      at = stop < end ? next_free(stop, end) : end;
    }
  }
  return longest_[granule] = longest;
}

/// First segment of at least `need` that shows itself in [from, to) and ends by `end`; `to` or more if there is none.
/// `from` is used or begins a segment that is too short.
std::uint32_t Buddy::scan_fitting(std::uint32_t from, std::uint32_t need, unsigned k, std::uint32_t to,
                                  std::uint32_t end) const {
  while (from < to) {
    std::uint32_t at = 0;
    switch (std::min(k, 6U)) {
      case 3: at = next_zero_lane<3>(bits_, from, to); break;
      case 4: at = next_zero_lane<4>(bits_, from, to); break;
      case 5: at = next_zero_lane<5>(bits_, from, to); break;
      case 6: at = next_zero_lane<6>(bits_, from, to); break;
      default: at = next_free(from, to); break;
    }
    if (at >= to) return to;
    const std::uint32_t start = bits::zeros_from(bits_, at, from);
    if (end - start < need) return end;
    const std::uint32_t stop = next_used(at, start + need);
    if (stop >= start + need) return start;
    from = stop;
  }
  return to;
}

std::uint32_t Buddy::next_fitting(std::uint32_t from, std::uint32_t need, std::uint32_t end) const {
  if (from >= end) return end;
  if (!used(from)) {
    const std::uint32_t stop = next_used(from, std::min(end, from + need));
    if (stop - from >= need) return from;
    from = stop;
  }
  unsigned k = bits::width((std::uint64_t{need} + 1) / 2) - 1;
  if (k >= 32 || (order_mask_ >> k) == 0) return end;  // no piece so large
  if (k < kWorthLanes) k = 0;
  const unsigned shift = shape_->granule_bits;
  const std::uint32_t granules = (end + (1U << shift) - 1) >> shift;
  while (from < end) {
    std::uint32_t granule = from >> shift;
    if (longest_[granule] < need) {
      while (++granule < granules && longest_[granule] < need) {
      }
      if (granule >= granules) return end;
      from = granule << shift;
      if (!used(from) && !used(from - 1)) from = next_used(from, end);
      continue;
    }
    const std::uint32_t next = (granule + 1) << shift;
    if (longest_in(granule) >= need) {
      // A run that begins at the stretch's end may show its first whole word only behind it.
      const std::uint32_t to = std::min(end, next + 128);
      const std::uint32_t at = scan_fitting(from, need, k, to, end);
      if (at < to) return at;
      if (at >= end) return end;
    }
    from = next;
    // Inside a run that began before: too short, or it would have been found.
    if (from < end && !used(from) && !used(from - 1)) from = next_used(from, end);
  }
  return end;
}

/// Runs that begin in [from, to), word by word.
std::uint32_t Buddy::starts_in_words(std::uint32_t from, std::uint32_t to) const {
  if (from >= to) return 0;
  std::uint32_t n = 0;
  const std::uint32_t first = from >> 6, last = (to - 1) >> 6;
  Word free_before = first > 0 ? ~bits_[first - 1] >> 63 : 0;
  for (std::uint32_t i = first; i <= last; ++i) {
    const Word free = ~bits_[i];
    Word starts = free & ~((free << 1) | free_before);
    free_before = free >> 63;
    if (i == first) starts &= ~Word{0} << (from & 63);
    if (i == last && (to & 63) != 0) starts &= ~(~Word{0} << (to & 63));
    n += bits::count(starts);
  }
  return n;
}

std::uint32_t Buddy::count_segments(std::uint32_t from, std::uint32_t to) const {
  if (from >= to) return 0;
  // `from` inside a run begins a segment, though no run.
  std::uint32_t n = from > 0 && !used(from) && !used(from - 1) ? 1 : 0;
  const unsigned shift = shape_->granule_bits;
  std::uint32_t g = (from + (1U << shift) - 1) >> shift;
  const std::uint32_t g_end = to >> shift;
  if (g >= g_end) return n + starts_in_words(from, to);
  n += starts_in_words(from, g << shift);
  for (; g < g_end; ++g) n += starts_[g];
  return n + starts_in_words(g_end << shift, to);
}

std::uint32_t Buddy::after_segments(std::uint32_t from, std::uint32_t to, std::uint32_t n) const {
  if (from < to && from > 0 && !used(from) && !used(from - 1)) {
    // Begins inside a run: that rest is the first segment.
    --n;
    from = next_used(from, to);
  }
  const unsigned shift = shape_->granule_bits;
  // Whole stretches, then whole words, then the one word.
  const std::uint32_t aligned = std::min(to, (from + (1U << shift) - 1) >> shift << shift);
  if (const std::uint32_t k = starts_in_words(from, aligned); k <= n && aligned < to) {
    n -= k;
    from = aligned;
    while (from + (1U << shift) <= to && starts_[from >> shift] <= n) {
      n -= starts_[from >> shift];
      from += 1U << shift;
    }
  }
  while (from < to) {
    const std::uint32_t next = std::min(to, (from | 63) + 1), k = starts_in_words(from, next);
    if (k <= n) {
      n -= k;
      from = next;
      continue;
    }
    const Word free = ~bits_[from >> 6];
    const Word free_before = from >= 64 ? ~bits_[(from >> 6) - 1] >> 63 : 0;
    Word starts = free & ~((free << 1) | free_before) & (~Word{0} << (from & 63));
    for (; n > 0; --n) starts &= starts - 1;
    return (from & ~63U) + static_cast<std::uint32_t>(std::countr_zero(starts));
  }
  return to;
}

Buddy::Run Buddy::longest_segment(std::uint32_t from, std::uint32_t to) const {
  Run best;
  const auto walk = [&](std::uint32_t lo, std::uint32_t hi) {
    for (std::uint32_t at = next_free(lo, hi); at < hi;) {
      const std::uint32_t stop = std::min(to, run_end(at));
      if (stop - at > best.len) best = {at, stop - at};
      at = stop < hi ? next_free(stop, hi) : hi;
    }
  };
  const unsigned shift = shape_->granule_bits;
  const std::uint32_t aligned = (from + (1U << shift) - 1) >> shift << shift;
  if (aligned >= to) {
    walk(from, to);
    return best;
  }
  walk(from, aligned);
  std::uint32_t winner = kUnknown, longest = best.len;
  std::uint32_t g = aligned >> shift;
  for (; (g + 1) << shift <= to; ++g) {
    if (const std::uint32_t n = longest_in(g); n > longest) {
      longest = n;
      winner = g;
    }
  }
  if (winner != kUnknown) {
    std::uint32_t at = winner << shift;
    if (!used(at) && at > 0 && !used(at - 1)) at = next_used(at, to);
    at = next_fitting(at, longest, to);
    best = {at, longest};
  }
  if (std::uint32_t rest = g << shift; rest < to) {
    if (rest > 0 && !used(rest) && !used(rest - 1)) rest = next_used(rest, to);
    walk(rest, to);
  }
  return best;
}

}  // namespace e4::alloc
