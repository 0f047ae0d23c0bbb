// SPDX-License-Identifier: GPL-2.0-only
#include <bit>
#include <charconv>
#include <fstream>

#include "trace/compare.h"

namespace e4::trace {

Result<std::uint64_t> different_blocks(const alloc::Allocator& allocator, alloc::BitmapSource& start,
                                       alloc::BitmapSource& end) {
  const alloc::Geometry& g = allocator.geometry();
  const std::size_t words = g.bitmap_bits() / 64;
  std::vector<std::uint64_t> a(words), b(words);
  std::uint64_t clusters = 0;
  for (GroupNo group = 0; group < g.groups(); ++group) {
    if (!allocator.copy_bitmap(group, a)) E4_TRY(start.read_bitmap(group, a));
    E4_TRY(end.read_bitmap(group, b));
    const std::uint32_t n = g.clusters_in(group);
    for (std::uint32_t w = 0; w * 64 < n; ++w) {
      std::uint64_t x = a[w] ^ b[w];
      if (n - w * 64 < 64) x &= (std::uint64_t{1} << (n - w * 64)) - 1;
      clusters += static_cast<std::uint64_t>(std::popcount(x));
    }
  }
  return clusters << g.cluster_bits;
}

Result<std::vector<alloc::GroupCounters>> read_mb_groups(const std::string& path, unsigned orders) {
  std::ifstream in(path);
  if (!in) return make_error(ErrorKind::io, path + ": cannot open");
  constexpr std::size_t kMaxGroups = 1U << 24;
  std::vector<alloc::GroupCounters> out;
  std::string line;
  std::size_t number = 0;
  while (std::getline(in, line)) {
    ++number;
    if (line.empty() || line[0] != '#' || line.starts_with("#group")) continue;
    std::vector<std::uint32_t> v;
    for (const char *p = line.data() + 1, *e = line.data() + line.size(); p < e;) {
      std::uint32_t n = 0;
      const auto [q, ec] = std::from_chars(p, e, n);
      if (ec == std::errc()) {
        v.push_back(n);
        p = q;
      } else {
        ++p;
      }
    }
    // group, free, frags, first, counters
    if (v.size() < 4 || v[0] != out.size() || v[0] >= kMaxGroups)
      return make_error(ErrorKind::corrupt, path + ": line " + std::to_string(number) + " is not an mb_groups line");
    alloc::GroupCounters c;
    c.free = v[1];
    c.frags = v[2];
    c.first = v[3];
    for (std::size_t i = 4; i < v.size() && i - 4 < std::min<std::size_t>(orders, c.counters.size()); ++i) c.counters[i - 4] = v[i];
    out.push_back(c);
  }
  return out;
}

}  // namespace e4::trace
