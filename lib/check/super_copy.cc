// SPDX-License-Identifier: GPL-2.0-only
#include "check/super_copy.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/crc32c.h"
#include "image/filsys.h"

namespace e4::check {

Result<SuperCopy> SuperCopy::read(image::Device& device, std::uint64_t offset_bytes) {
  SuperCopy s;
  E4_TRY(device.read(offset_bytes, s.bytes_));
  return s;
}

Result<void> SuperCopy::write(image::Device& device, std::uint64_t offset_bytes) const {
  return device.write(offset_bytes, bytes_);
}

ext2_super_block SuperCopy::raw() const {
  static_assert(sizeof(ext2_super_block) == 1024);
  ext2_super_block s;
  std::memcpy(static_cast<void*>(&s), bytes_.data(), sizeof s);
  return s;
}

bool SuperCopy::has_checksum() const { return (u32(0x64) & EXT4_FEATURE_RO_COMPAT_METADATA_CSUM) != 0; }

std::uint32_t SuperCopy::computed_checksum() const { return crc32c(~0U, bytes_.data(), 0x3FC); }

void SuperCopy::seal() {
  if (has_checksum()) set_u32(0x3FC, computed_checksum());
}

Blk SuperCopy::blocks_count() const { return u32(0x04) | (is_64bit() ? Blk{u32(0x150)} << 32 : 0); }
Blk SuperCopy::free_blocks_count() const { return u32(0x0C) | (is_64bit() ? Blk{u32(0x158)} << 32 : 0); }
void SuperCopy::set_free_blocks_count(Blk blocks) {
  set_u32(0x0C, static_cast<std::uint32_t>(blocks));
  if (is_64bit()) set_u32(0x158, static_cast<std::uint32_t>(blocks >> 32));
}

std::string why_unusable(const SuperCopy& super) {
  if (auto r = image::check_geometry(super.raw(), 0); !r) return r.error().message();
  if (!super.checksum_ok()) return "bad checksum";
  return "";
}

std::vector<BackupCopy> find_backups(image::Device& device, const SuperCopy& hint) {
  std::vector<BackupCopy> found;
  std::set<std::uint64_t> seen;
  const auto look = [&](std::uint32_t bs, std::uint64_t bpg, std::uint64_t group) {
    const Blk block = group * bpg + (bs == 1024 ? 1 : 0);
    if (block > device.size() / bs || !seen.insert(block * bs).second) return;
    auto copy = SuperCopy::read(device, block * bs);
    if (!copy || !why_unusable(*copy).empty() || copy->block_bytes() != bs) return;
    if (copy->u16(0x5A) != (group & 0xFFFF) || copy->u32(0x20) != bpg) return;
    found.push_back({*copy, block});
  };
  for (std::uint32_t bs = 1024; bs <= 65536; bs *= 2) {
    std::set<std::uint64_t> sizes{std::uint64_t{8} * bs};
    if (const std::uint32_t h = hint.u32(0x20); h >= 256 && h % 8 == 0) sizes.insert(h);
    for (const std::uint64_t bpg : sizes) {
      look(bs, bpg, 1);
      for (const std::uint64_t base : {3, 5, 7})
        for (std::uint64_t g = base; g <= device.size() / bs / bpg; g *= base) look(bs, bpg, g);
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const BackupCopy& a, const BackupCopy& b) { return a.super.u32(0x30) > b.super.u32(0x30); });
  return found;
}

}  // namespace e4::check
