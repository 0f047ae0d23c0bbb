// SPDX-License-Identifier: GPL-2.0-only
#include "check/inode_edit.h"

#include "base/crc32c.h"
#include "base/endian.h"
#include "orphan/format.h"

namespace e4::check {

Result<void> edit_inode(orphan::Volume& volume, Ino ino, const std::function<void(std::span<std::byte>)>& change) {
  constexpr std::size_t kGeneration = 0x64, kChecksumLow = 0x7C, kExtraIsize = 0x80, kChecksumHigh = 0x82;
  const auto place = E4_TRY(volume.inode_place(ino));
  const auto block = E4_TRY(volume.overlay().edit(place.block));
  const std::span<std::byte> raw = block.subspan(place.offset, volume.geo().inode_bytes);
  change(raw);
  if (!volume.geo().metadata_csum()) return {};
  const bool high = raw.size() > 128 && load<le16>(raw.data(), kExtraIsize) >= 4;
  store<le16>(raw.data(), kChecksumLow, 0);
  if (high) store<le16>(raw.data(), kChecksumHigh, 0);
  const std::uint32_t seed = orphan::inode_csum_seed(volume.geo().csum_seed, ino, load<le32>(raw.data(), kGeneration));
  const std::uint32_t c = crc32c(seed, raw);
  store<le16>(raw.data(), kChecksumLow, c & 0xFFFF);
  if (high) store<le16>(raw.data(), kChecksumHigh, c >> 16);
  return {};
}

Result<void> put_on_list(orphan::Volume& volume, const std::vector<Ino>& inodes) {
  constexpr std::size_t kDtime = 0x14;
  for (const Ino ino : inodes) {
    const Ino next = volume.last_orphan();
    if (!edit_inode(volume, ino, [next](std::span<std::byte> raw) { store<le32>(raw.data(), kDtime, next); })) continue;
    E4_TRY(volume.set_last_orphan(ino));
  }
  return volume.seal();
}

}  // namespace e4::check
