// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "alloc/lock.h"
#include "base/units.h"

namespace e4::alloc {

inline constexpr GroupNo kNoGroup = ~GroupNo{0};

/// An ordered set of group numbers: a bit a group, and above it words that say
/// which words below are not empty, so that "next member from here" costs a
/// few loads at any size. Writers take its short lock; readers take none and
/// may miss a group that moves at that moment (they only look for hints).
class GroupSet {
 public:
  /// While the set has members its bit is set in `nonempty`.
  explicit GroupSet(GroupNo groups, std::atomic<std::uint32_t>* nonempty = nullptr, std::uint32_t nonempty_bit = 0);

  void insert(GroupNo g) E4_EXCLUDES(lock_) {
    Held<ContainerLock> held(lock_);
    if (members_++ == 0 && nonempty_) nonempty_->fetch_or(nonempty_bit_, std::memory_order_release);
    // From the top: a reader that sees the upper bit early finds an empty word and goes on.
    for (unsigned l = depth_; l-- > 0;) {
      auto& word = at(l, g >> (6 * l) >> 6);
      word.store(word.load(std::memory_order_relaxed) | bit(g >> (6 * l)), std::memory_order_release);
    }
  }
  void erase(GroupNo g) E4_EXCLUDES(lock_) {
    Held<ContainerLock> held(lock_);
    if (--members_ == 0 && nonempty_) nonempty_->fetch_and(~nonempty_bit_, std::memory_order_release);
    for (unsigned l = 0; l < depth_; ++l) {
      auto& word = at(l, g >> (6 * l) >> 6);
      const std::uint64_t left = word.load(std::memory_order_relaxed) & ~bit(g >> (6 * l));
      word.store(left, std::memory_order_release);
      if (left != 0) return;
    }
  }
  [[nodiscard]] bool contains(GroupNo g) const {
    return (at(0, g >> 6).load(std::memory_order_relaxed) & bit(g)) != 0;
  }
  /// Smallest member >= from and < limit, or kNoGroup.
  [[nodiscard]] GroupNo next(GroupNo from, GroupNo limit) const {
    const GroupNo g = next(from);
    return g < limit ? g : kNoGroup;
  }
  [[nodiscard]] GroupNo size() const;
  ContainerLock& lock() { return lock_; }
  [[nodiscard]] std::uint64_t memory_bytes() const { return words_ * 8; }

 private:
  static constexpr unsigned kMaxDepth = 6;
  static std::uint64_t bit(GroupNo g) { return std::uint64_t{1} << (g & 63); }
  std::atomic<std::uint64_t>& at(unsigned level, GroupNo word) { return storage_[offset_[level] + word]; }
  [[nodiscard]] const std::atomic<std::uint64_t>& at(unsigned level, GroupNo word) const {
    return storage_[offset_[level] + word];
  }
  [[nodiscard]] GroupNo next(GroupNo from) const;

  unsigned depth_ = 0;
  std::array<std::size_t, kMaxDepth> offset_{};
  std::array<GroupNo, kMaxDepth> count_{};  // words of each level
  std::size_t words_ = 0;
  std::unique_ptr<std::atomic<std::uint64_t>[]> storage_;
  std::atomic<std::uint32_t>* nonempty_;
  std::uint32_t nonempty_bit_;
  alignas(64) ContainerLock lock_;
  GroupNo members_ E4_GUARDED_BY(lock_) = 0;
};

}  // namespace e4::alloc
