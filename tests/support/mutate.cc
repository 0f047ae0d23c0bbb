// SPDX-License-Identifier: GPL-2.0-only
#include "support/mutate.h"

#include <fmt/core.h>

#include "base/crc32c.h"
#include "base/endian.h"
#include "base/random.h"

namespace e4::testing_support {

namespace {
template <class S>
auto at(const Bytes& b, std::uint64_t offset) {
  return load<S>(b.data(), offset);
}
}  // namespace

void Mutator::add(std::string name, std::uint64_t offset, std::uint64_t length_bytes, std::uint32_t weight, Area::Seal seal,
                  std::uint32_t number) {
  areas_.push_back({std::move(name), offset, length_bytes, weight, seal, number});
  weights_ += weight;
}

Mutator::Mutator(const Bytes& image) {
  constexpr std::uint64_t kSuper = 1024;
  block_bytes_ = 1024U << at<le32>(image, kSuper + 0x18);
  inode_bytes_ = at<le16>(image, kSuper + 0x58);
  csum_ = (at<le32>(image, kSuper + 0x64) & 0x400) != 0;
  const bool wide = (at<le32>(image, kSuper + 0x60) & 0x80) != 0;
  desc_bytes_ = wide ? at<le16>(image, kSuper + 0xFE) : 32;
  const std::uint32_t bpg = at<le32>(image, kSuper + 0x20), first = at<le32>(image, kSuper + 0x14);
  groups_ = (at<le32>(image, kSuper + 0x04) - first + bpg - 1) / bpg;
  csum_seed_ = crc32c(~0U, image.data() + kSuper + 0x68, 16);
  desc_offset_ = std::uint64_t{first + 1} * block_bytes_;

  add("superblock", kSuper, 0x300, 30, Area::super);
  add("descriptors", desc_offset_, std::uint64_t{groups_} * desc_bytes_, 15, Area::descriptors);
  const std::uint64_t table = std::uint64_t{at<le32>(image, desc_offset_ + 8)} * block_bytes_;
  add("block bitmap", std::uint64_t{at<le32>(image, desc_offset_)} * block_bytes_, block_bytes_, 2);
  add("inode bitmap", std::uint64_t{at<le32>(image, desc_offset_ + 4)} * block_bytes_, block_bytes_, 2);
  for (std::uint32_t ino = 1; ino <= 120; ++ino)
    add(fmt::format("inode {}", ino), table + std::uint64_t{ino - 1} * inode_bytes_, inode_bytes_, ino == 8 || ino == 12 ? 8 : 1,
        Area::inode, ino);
  // Journal and orphan file: their first extents or direct blocks.
  for (const std::uint32_t ino : {8U, 12U}) {
    const std::uint64_t i = table + std::uint64_t{ino - 1} * inode_bytes_ + 0x28;
    const bool extents = at<le16>(image, i) == 0xF30A;
    const std::uint64_t start = std::uint64_t{extents ? at<le32>(image, i + 12 + 8) : at<le32>(image, i)} * block_bytes_;
    const std::uint64_t blocks = extents ? at<le16>(image, i + 12 + 4) : 12;
    if (ino == 8) {
      add("journal superblock", start, 0x100, 15, Area::journal_super);
      add("log", start + block_bytes_, std::min<std::uint64_t>(blocks - 1, 200) * block_bytes_, 60);
    } else {
      add("orphan file", start, blocks * block_bytes_, 40);
    }
  }
}

void Mutator::reseal(CrashDevice& device, const Area& area) const {
  Bytes b;
  const auto get = [&](std::uint64_t offset, std::size_t n) {
    b.resize(n);
    return bool(device.read(offset, b));
  };
  switch (area.seal) {
    case Area::none: return;
    case Area::super:
      if (!csum_ || !get(1024, 1024)) return;
      store<le32>(b.data(), 0x3FC, crc32c(~0U, b.data(), 0x3FC));
      (void)device.write(1024, b).has_value();
      return;
    case Area::descriptors:
      for (std::uint32_t g = 0; csum_ && g < groups_; ++g) {
        if (!get(desc_offset_ + std::uint64_t{g} * desc_bytes_, desc_bytes_)) return;
        store<le16>(b.data(), 0x1E, 0);
        store<le16>(b.data(), 0x1E, crc32c(crc32c_le32(csum_seed_, g), b) & 0xFFFF);
        (void)device.write(desc_offset_ + std::uint64_t{g} * desc_bytes_, b).has_value();
      }
      return;
    case Area::inode: {
      if (!csum_ || !get(area.offset, inode_bytes_)) return;
      store<le16>(b.data(), 0x7C, 0);
      store<le16>(b.data(), 0x82, 0);
      const std::uint32_t c = crc32c(crc32c_le32(crc32c_le32(csum_seed_, area.number), load<le32>(b.data(), 0x64)), b);
      store<le16>(b.data(), 0x7C, c & 0xFFFF);
      store<le16>(b.data(), 0x82, c >> 16);
      (void)device.write(area.offset, b).has_value();
      return;
    }
    case Area::journal_super:
      if (!get(area.offset, 1024)) return;
      store<be32>(b.data(), 0xFC, 0);
      store<be32>(b.data(), 0xFC, crc32c(~0U, b));
      (void)device.write(area.offset, b).has_value();
      return;
  }
}

std::string Mutator::apply(CrashDevice& device, std::uint64_t seed) const {
  Random rng(seed);
  std::string what;
  const std::uint64_t changes = rng.one_in(2) ? 1 : rng.between(2, 6);
  for (std::uint64_t i = 0; i < changes; ++i) {
    std::uint64_t pick = rng.below(weights_);
    const Area* area = areas_.data();
    while (pick >= area->weight) pick -= (area++)->weight;
    const std::uint64_t width = std::uint64_t{1} << rng.below(4);  // 1, 2, 4, 8 bytes
    const std::uint64_t offset = rng.below(area->length_bytes / width) * width;
    Bytes value(width);
    if (!device.read(area->offset + offset, value)) continue;
    const std::uint64_t kind = rng.below(6);
    for (std::byte& b : value) {
      switch (kind) {
        case 0: b = std::byte{0}; break;
        case 1: b = std::byte{0xFF}; break;
        case 2: b ^= static_cast<std::byte>(1U << rng.below(8)); break;
        default: b = static_cast<std::byte>(rng.below(256)); break;
      }
    }
    if (kind == 3 && width >= 4) {  // a plausible small number
      store<le32>(value.data(), 0, rng.below(20000));
      if (rng.one_in(2)) store<be32>(value.data(), 0, rng.below(20000));
    }
    if (!device.write(area->offset + offset, value)) continue;
    const bool sealed = rng.one_in(2);
    if (sealed) reseal(device, *area);
    what += fmt::format("{}{}+{:#x} {} bytes{}", what.empty() ? "" : "; ", area->name, offset, width, sealed ? " resealed" : "");
  }
  return what;
}

}  // namespace e4::testing_support
