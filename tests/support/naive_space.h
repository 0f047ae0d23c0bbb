// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <atomic>
#include <memory>

#include "alloc/allocator.h"

namespace e4::test {

/// The naive model: a flag a cluster, set by who gets it, cleared by who gives
/// it back. Any number of threads.
class NaiveSpace {
 public:
  explicit NaiveSpace(const alloc::Allocator& a)
      : geo_(a.geometry()), count_(static_cast<std::size_t>(geo_.groups()) * geo_.clusters_per_group),
        used_(std::make_unique<std::atomic<std::uint8_t>[]>(count_)) {
    std::vector<std::uint64_t> words(geo_.bitmap_bits() / 64);
    for (GroupNo g = 0; g < geo_.groups(); ++g) {
      if (!a.copy_bitmap(g, words)) continue;
      for (std::uint32_t c = 0; c < geo_.clusters_in(g); ++c) at(g, c).store((words[c / 64] >> (c % 64)) & 1);
    }
  }
  /// False if any of it was used before.
  bool take(Blk block, std::uint32_t clusters) { return flip(block, clusters, 0, 1); }
  bool give(Blk block, std::uint32_t clusters) { return flip(block, clusters, 1, 0); }
  /// First difference to the allocator's on-disk bitmaps, or empty.
  [[nodiscard]] std::string difference(const alloc::Allocator& a) const {
    std::vector<std::uint64_t> words(geo_.bitmap_bits() / 64);
    for (GroupNo g = 0; g < geo_.groups(); ++g) {
      if (!a.copy_bitmap(g, words)) continue;
      for (std::uint32_t c = 0; c < geo_.clusters_in(g); ++c)
        if (((words[c / 64] >> (c % 64)) & 1) != at(g, c).load())
          return "cluster " + std::to_string(g) + "/" + std::to_string(c) + ": the model has " + std::to_string(at(g, c).load());
    }
    return {};
  }

 private:
  std::atomic<std::uint8_t>& at(GroupNo g, std::uint32_t c) const { return used_[std::size_t{g} * geo_.clusters_per_group + c]; }
  bool flip(Blk block, std::uint32_t clusters, std::uint8_t from, std::uint8_t to) {
    const std::size_t first = static_cast<std::size_t>((block - geo_.first_data_block) >> geo_.cluster_bits);
    bool ok = first + clusters <= count_;
    for (std::size_t i = first; ok && i < first + clusters; ++i) ok = used_[i].exchange(to) == from;
    return ok;
  }
  const alloc::Geometry geo_;
  std::size_t count_;
  std::unique_ptr<std::atomic<std::uint8_t>[]> used_;
};

}  // namespace e4::test
