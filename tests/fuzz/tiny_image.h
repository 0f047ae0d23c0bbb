// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/endian.h"
#include "image/device.h"

namespace e4::fuzz {

/// An ext4 image of 256 blocks of 1 KiB written by hand, with one orphan of
/// each kind, so that a fuzzer's input is a handful of changes to it:
///   13 deleted, extent tree of depth 1     14 deleted, indirect block
///   15 linked, cut at byte 100             16 deleted empty directory
///   17, 18 on the legacy list, sharing an attribute block
inline constexpr std::uint32_t kBlockBytes = 1024, kBlocks = 256, kInodes = 32, kInodeBytes = 128;
inline constexpr Blk kBlockBitmap = 3, kInodeBitmap = 4, kInodeTable = 5, kFirstData = 9;

class TinyImage {
 public:
  TinyImage() : bytes_(std::size_t{kBlocks} * kBlockBytes) {
    super();
    for (Blk b = 1; b < kFirstData; ++b) use(b);
    for (Ino i = 1; i <= 11; ++i) use_inode(i);
    directory(2, 9, 2, 2);
    file(12, 0x8180, 1, 1024, {0x80000, 1});
    extents(inode(12) + 0x28, 0, {{0, 10, 1}});
    std::byte* slots = block(10);
    for (const Ino i : {13U, 14U, 15U, 16U}) store<le32>(slots, (i - 13) * 4, i);
    store<le32>(slots, 1016, 0x0B10CA04U);
    use(10);

    file(13, 0x81A4, 0, 4096, {0x80000, 5});
    index(inode(13) + 0x28, 11);
    extents(block(11), 0, {{0, 12, 2}, {7, 14, 2}}, 84);
    for (Blk b = 11; b <= 15; ++b) use(b);

    file(14, 0x81A4, 0, 14 * 1024, {0, 4});
    store<le32>(inode(14), 0x28, 19U);
    store<le32>(inode(14), 0x28 + 48, 16U);
    store<le32>(block(16), 0, 17U);
    store<le32>(block(16), 4, 18U);
    for (Blk b = 16; b <= 19; ++b) use(b);

    file(15, 0x81A4, 1, 100, {0x80000, 3});
    extents(inode(15) + 0x28, 0, {{0, 23, 3}});
    for (Blk b = 23; b <= 25; ++b) use(b);
    block(23)[500] = std::byte{7};
    store<le32>(block(9), 24 + 0, 15U);  // named "f" in the root
    store<le16>(block(9), 24 + 4, 1000U);
    block(9)[24 + 6] = std::byte{1};
    block(9)[24 + 8] = std::byte{'f'};
    store<le16>(block(9), 12 + 4, 12U);

    directory(16, 21, 0, 2);
    for (const Ino i : {17U, 18U}) {
      file(i, 0x81A4, 0, 0, {0x80000, 1});
      extents(inode(i) + 0x28, 0, {});
      store<le32>(inode(i), 0x68, 22U);
    }
    store<le32>(inode(17), 0x14, 18U);
    store<le32>(block(22), 0, 0xEA020000U);
    store<le32>(block(22), 4, 2U);
    store<le32>(block(22), 8, 1U);
    use(22);
  }

  [[nodiscard]] std::span<std::byte> bytes() { return bytes_; }
  std::byte* block(Blk b) { return bytes_.data() + b * kBlockBytes; }
  std::byte* inode(Ino i) { return block(kInodeTable) + std::size_t{i - 1} * kInodeBytes; }

  /// Changes: offset (4 bytes, modulo the size), length - 1 (4 bits), then the new bytes.
  void apply(std::span<const std::uint8_t> changes) {
    while (changes.size() > 5) {
      const std::size_t at = load<le32>(changes.data()) % bytes_.size();
      const std::size_t n = std::min<std::size_t>({(changes[4] & 15U) + 1U, changes.size() - 5, bytes_.size() - at});
      for (std::size_t i = 0; i < n; ++i) bytes_[at + i] = std::byte{changes[5 + i]};
      changes = changes.subspan(5 + n);
    }
  }
  [[nodiscard]] std::unique_ptr<image::Device> device() const {
    auto d = image::make_memory_device("fuzz", bytes_.size());
    if (!d->write(0, bytes_)) std::abort();
    return d;
  }

 private:
  struct Extent {
    std::uint32_t logical;
    Blk physical;
    std::uint16_t blocks;
  };
  struct Rest {
    std::uint32_t flags;
    std::uint32_t blocks;
  };

  void super() {
    std::byte* s = block(1);
    store<le32>(s, 0x00, kInodes);
    store<le32>(s, 0x04, kBlocks);
    store<le32>(s, 0x14, 1U);
    store<le32>(s, 0x20, 8192U);
    store<le32>(s, 0x24, 8192U);
    store<le32>(s, 0x28, kInodes);
    store<le16>(s, 0x38, 0xEF53U);
    store<le16>(s, 0x3A, 1U);
    store<le32>(s, 0x4C, 1U);
    store<le32>(s, 0x54, 11U);
    store<le16>(s, 0x58, kInodeBytes);
    store<le32>(s, 0x5C, 0x1004U);   // has_journal, orphan_file
    store<le32>(s, 0x60, 0x42U);     // filetype, extents
    store<le32>(s, 0x64, 0x10001U);  // sparse_super, orphan_present
    store<le32>(s, 0xE0, 8U);
    store<le32>(s, 0xE8, 17U);
    store<le32>(s, 0x280, 12U);
    std::byte* d = block(2);
    store<le32>(d, 0, kBlockBitmap);
    store<le32>(d, 4, kInodeBitmap);
    store<le32>(d, 8, kInodeTable);
    store<le16>(d, 12, 230U);
    store<le16>(d, 14, 14U);
    store<le16>(d, 16, 2U);
  }
  void use(Blk b) { block(kBlockBitmap)[(b - 1) / 8] |= std::byte{1} << ((b - 1) % 8); }
  void use_inode(Ino i) { block(kInodeBitmap)[(i - 1) / 8] |= std::byte{1} << ((i - 1) % 8); }
  void file(Ino i, unsigned mode, unsigned links, std::uint32_t size, Rest rest) {
    use_inode(i);
    store<le16>(inode(i), 0x00, mode);
    store<le32>(inode(i), 0x04, size);
    store<le16>(inode(i), 0x1A, links);
    store<le32>(inode(i), 0x1C, rest.blocks * 2);
    store<le32>(inode(i), 0x20, rest.flags);
  }
  void directory(Ino i, Blk b, unsigned links, Ino parent) {
    file(i, 0x41ED, links, 1024, {0, 1});
    store<le32>(inode(i), 0x28, b);
    store<le32>(block(b), 0, i);
    store<le16>(block(b), 4, 12U);
    block(b)[6] = std::byte{1};
    block(b)[8] = std::byte{'.'};
    store<le32>(block(b), 12, parent);
    store<le16>(block(b), 16, 1012U);
    block(b)[18] = std::byte{2};
    block(b)[20] = block(b)[21] = std::byte{'.'};
    use(b);
  }
  static void header(std::byte* at, std::size_t entries, unsigned max, unsigned depth) {
    store<le16>(at, 0, 0xF30AU);
    store<le16>(at, 2, entries);
    store<le16>(at, 4, max);
    store<le16>(at, 6, depth);
  }
  static void extents(std::byte* at, unsigned depth, const std::vector<Extent>& list, unsigned max = 4) {
    header(at, list.size(), max, depth);
    for (std::size_t i = 0; i < list.size(); ++i) {
      store<le32>(at, 12 + i * 12, list[i].logical);
      store<le16>(at, 16 + i * 12, list[i].blocks);
      store<le32>(at, 20 + i * 12, list[i].physical);
    }
  }
  static void index(std::byte* at, Blk leaf) {
    header(at, 1, 4, 1);
    store<le32>(at, 16, leaf);
  }

  std::vector<std::byte> bytes_;
};

}  // namespace e4::fuzz
