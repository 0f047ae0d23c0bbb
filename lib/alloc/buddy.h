// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <array>
#include <cstdint>

#include "alloc/bits.h"
#include "alloc/types.h"

namespace e4::alloc {

/// Where the levels of a buddy lie in its words; the same for all groups.
/// Level o (1 .. orders-1) has one bit per aligned chunk of 2^o clusters.
struct BuddyShape {
  explicit BuddyShape(std::uint32_t block_bytes);
  std::uint32_t bits;                                 // clusters the bitmap can hold: 8 * block_bytes
  std::uint32_t orders;
  std::uint32_t bitmap_words;
  std::uint32_t level_words;                          // words of all levels together
  std::array<std::uint32_t, kMaxOrders> level_at{};   // word offset of level o; [0] unused
  unsigned granule_bits;                              // log2 clusters of a stretch whose run starts are counted together
  static constexpr std::uint32_t kGranules = 64;      // in every group
};

/// One group's free space: bitmap B (bit set: used), and for each order which
/// aligned chunks are pieces of the canonical split of B's free runs: the
/// greatest aligned chunks that fit. Counters, levels, free and frags are a
/// pure function of B; `lo_hint` depends on history (a lower bound for the
/// first free cluster). Not thread-safe: the group lock guards it.
class Buddy {
 public:
  using Word = bits::Word;

  /// Uses bitmap_words words at `bitmap` and level_words at `levels`, which it does not own.
  void attach(const BuddyShape* shape, Word* bitmap, Word* levels) {
    shape_ = shape;
    bits_ = bitmap;
    levels_ = levels;
  }
  /// Builds everything from the bitmap; bits past `clusters` must be set.
  void build(std::uint32_t clusters);

  struct Broken {
    std::uint32_t tail = 0;    // clusters still to take when the first piece had to be broken
    std::uint32_t broken = 0;  // size of that piece
  };
  /// Takes [start, start + len), all free.
  Broken mark_used(std::uint32_t start, std::uint32_t len);
  /// Gives back [start, start + len), all used.
  void mark_free(std::uint32_t start, std::uint32_t len);

  struct Run {
    std::uint32_t start = 0, len = 0;
  };
  /// From cluster c on: the rest of its piece, then whole pieces until `need`
  /// is reached or the run ends. Empty if c is used. May exceed need.
  [[nodiscard]] Run find_run(std::uint32_t c, std::uint32_t need) const;
  /// First piece of the lowest order >= `order` (1 or more) that has one; len 0: none.
  [[nodiscard]] Run find_piece(unsigned order) const;

  /// Start of the first free segment of [from, end) that is at least `need` long, or `end`. A segment is what is left
  /// of a run from `from` on; `from` must be used, or begin a piece.
  [[nodiscard]] std::uint32_t next_fitting(std::uint32_t from, std::uint32_t need, std::uint32_t end) const;
  /// How many free segments begin in [from, to).
  [[nodiscard]] std::uint32_t count_segments(std::uint32_t from, std::uint32_t to) const;
  /// Where the segment after the first `n` of [from, to) begins; `to` if there are no more.
  [[nodiscard]] std::uint32_t after_segments(std::uint32_t from, std::uint32_t to, std::uint32_t n) const;
  /// The first of the longest free segments of [from, to); `to` is used or the end of the group.
  [[nodiscard]] Run longest_segment(std::uint32_t from, std::uint32_t to) const;

  [[nodiscard]] bool used(std::uint32_t c) const { return bits::test(bits_, c); }
  [[nodiscard]] bool range_used(std::uint32_t s, std::uint32_t n) const { return bits::all_one(bits_, s, n); }
  [[nodiscard]] bool range_free(std::uint32_t s, std::uint32_t n) const { return bits::all_zero(bits_, s, n); }
  [[nodiscard]] std::uint32_t next_free(std::uint32_t c, std::uint32_t limit) const { return bits::next_zero(bits_, c, limit); }
  [[nodiscard]] std::uint32_t next_used(std::uint32_t c, std::uint32_t limit) const { return bits::next_one(bits_, c, limit); }

  [[nodiscard]] std::uint32_t free() const { return free_; }
  [[nodiscard]] std::uint32_t frags() const { return frags_; }
  [[nodiscard]] std::uint32_t lo_hint() const { return lo_hint_; }
  [[nodiscard]] std::uint32_t count(unsigned order) const { return counts_[order]; }
  [[nodiscard]] int top() const { return 31 - std::countl_zero(order_mask_); }  // -1: no piece
  [[nodiscard]] const Word* bitmap() const { return bits_; }
  [[nodiscard]] Word* bitmap() { return bits_; }
  [[nodiscard]] bool is_piece(unsigned order, std::uint32_t index) const {
    return !bits::test(levels_ + shape_->level_at[order], index);
  }
  [[nodiscard]] GroupCounters counters() const;
  /// Same counters and levels (not lo_hint)?
  [[nodiscard]] bool same_split(const Buddy& other) const;

 private:
  [[nodiscard]] unsigned order_of(std::uint32_t c) const;
  /// Order of the piece that begins at c.
  [[nodiscard]] unsigned order_at_start(std::uint32_t c) const {
    const unsigned align = c == 0 ? shape_->orders - 1
                                  : std::min(static_cast<unsigned>(std::countr_zero(c)), shape_->orders - 1);
    if (align == 0 || is_piece(align, c >> align)) return align;
    // The run ends inside the aligned chunk.
    return bits::width(next_used(c, c + (1U << align)) - c) - 1;
  }
  void add_piece(unsigned order, std::uint32_t index) {
    if (order > 0) bits::clear(levels_ + shape_->level_at[order], index);
    ++counts_[order];
    order_mask_ |= 1U << order;
  }
  void remove_piece(unsigned order, std::uint32_t index) {
    if (order > 0) bits::set(levels_ + shape_->level_at[order], index);
    if (--counts_[order] == 0) order_mask_ &= ~(1U << order);
  }
  void add_run(std::uint32_t start, std::uint32_t len);
  [[nodiscard]] std::uint32_t starts_in_words(std::uint32_t from, std::uint32_t to) const;
  std::uint16_t& starts_near(std::uint32_t c) { return starts_[c >> shape_->granule_bits]; }
  /// The runs that [start, start + len) belongs to or touches changed: their stretches are measured again when asked for.
  void forget_longest(std::uint32_t start, std::uint32_t len, bool left_free, bool right_free) {
    const unsigned shift = shape_->granule_bits;
    for (std::uint32_t g = start >> shift; g <= (start + len - 1) >> shift; ++g) longest_[g] = kUnknown;
    if (left_free) longest_[bits::zeros_from(bits_, start - 1, 0) >> shift] = kUnknown;
    if (right_free) longest_[(start + len) >> shift] = kUnknown;
  }
  [[nodiscard]] std::uint32_t longest_in(std::uint32_t granule) const;
  [[nodiscard]] std::uint32_t run_end(std::uint32_t c) const;
  [[nodiscard]] std::uint32_t scan_fitting(std::uint32_t from, std::uint32_t need, unsigned k, std::uint32_t to,
                                           std::uint32_t end) const;

  const BuddyShape* shape_ = nullptr;
  Word* bits_ = nullptr;
  Word* levels_ = nullptr;
  std::uint32_t free_ = 0, frags_ = 0, lo_hint_ = 0;
  std::uint32_t order_mask_ = 0;  // orders with at least one piece
  std::array<std::uint32_t, kMaxOrders> counts_{};
  std::array<std::uint16_t, BuddyShape::kGranules> starts_{};  // runs that begin in each stretch
  static constexpr std::uint32_t kUnknown = ~0U;
  mutable std::array<std::uint32_t, BuddyShape::kGranules> longest_{};  // ... and the longest of them; measured when needed
};

}  // namespace e4::alloc
