// SPDX-License-Identifier: GPL-2.0-only
#include "alloc/bitmap_source.h"

#include <algorithm>

#include "alloc/bits.h"

namespace e4::alloc {

MemorySource::MemorySource(const Geometry& geometry)
    : geometry_(geometry),
      words_per_group_(geometry.bitmap_bits() / 64),
      words_(words_per_group_ * geometry.groups()),
      uninit_(geometry.groups()) {}

GroupDescriptor MemorySource::descriptor(GroupNo group) {
  return {bits::count_zero(words(group).data(), 0, geometry_.clusters_in(group)), static_cast<bool>(uninit_[group])};
}

Result<void> MemorySource::read_bitmap(GroupNo group, std::span<std::uint64_t> out) {
  std::ranges::copy(words(group), out.begin());
  return {};
}

std::uint32_t MemorySource::metadata_clusters(GroupNo group) {
  return geometry_.clusters_in(group) - bits::count_zero(words(group).data(), 0, geometry_.clusters_in(group));
}

void MemorySource::set_used(GroupNo group, std::uint32_t start, std::uint32_t len) {
  bits::set_range(words(group).data(), start, len);
}

void MemorySource::set_free(GroupNo group, std::uint32_t start, std::uint32_t len) {
  bits::clear_range(words(group).data(), start, len);
}

std::span<std::uint64_t> MemorySource::words(GroupNo group) {
  return {words_.data() + group * words_per_group_, words_per_group_};
}

}  // namespace e4::alloc
