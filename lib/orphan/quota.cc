// SPDX-License-Identifier: GPL-2.0-only
#include "orphan/quota.h"

#include <algorithm>

#include "orphan/inode.h"

namespace e4::orphan {
namespace {

constexpr std::uint32_t kQuotaBlockBytes = 1024, kTreeRoot = 1, kTreeDepth = 4, kDataHeaderBytes = 16;
constexpr std::uint32_t kMagics[] = {0xD9C01F11, 0xD9C01927, 0xD9C03F14};  // user, group, project

// In the file's header (struct v2_disk_dqinfo at byte 8) and in the head of a data block (struct qt_disk_dqdbheader).
constexpr std::size_t kInfoBlocks = 20, kInfoFreeBlock = 24, kInfoFreeEntry = 28;
constexpr std::size_t kNextFree = 0, kPrevFree = 4, kEntries = 8;

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

/// Where the counters stand in a record: 72 bytes in version 1, 48 in version 0.
/// Limits and usage stand together, between the id and the times of grace.
struct Layout {
  std::uint32_t inodes_at, space_at, first, end;
  bool wide_inodes;
};
constexpr Layout layout(std::uint32_t record_bytes) {
  return record_bytes == 72 ? Layout{24, 48, 8, 56, true} : Layout{12, 24, 4, 32, false};
}

}  // namespace

Result<QuotaFiles> QuotaFiles::open(Volume& volume, const std::vector<Ino>& spare) {
  QuotaFiles q;
  q.volume_ = &volume;
  const Geometry& geo = volume.geo();
  q.spare_ = spare;
  if (!geo.has_quota()) return q;
  E4_TRY(q.load(Kind::user, geo.usr_quota_inum));
  E4_TRY(q.load(Kind::group, geo.grp_quota_inum));
  if (geo.has_project()) E4_TRY(q.load(Kind::project, geo.prj_quota_inum));
  return q;
}

Result<void> QuotaFiles::load(Kind kind, Ino ino) {
  if (ino == 0) return {};
  const auto damaged = [&](const std::string& why) {
    problems_.push_back("quota file, inode " + std::to_string(ino) + ": " + why);
    return Result<void>();
  };
  if (std::find(spare_.begin(), spare_.end(), ino) != spare_.end()) return damaged("its blocks are not its own alone");
  const auto view = InodeTable(*volume_).view(ino);
  if (!view) return damaged(view.error().message());
  const std::vector<std::byte> raw(view->begin(), view->end());
  const InodeView inode(raw);
  if (inode.type() != kModeRegular || inode.links() == 0 || !inode_checksum_ok(volume_->geo(), ino, raw))
    return damaged("no sane regular file");
  Mapping mapping;
  E4_TRY(walk_mapping(*volume_, ino, inode, mapping));
  if (!mapping.ok()) return damaged(mapping.problem);
  File file;
  file.kind = kind;
  file.ino = ino;
  file.runs = std::move(mapping.runs);
  const Place head = place_of(file, 0);
  if (head.block == 0) return damaged("no header");
  const auto block = E4_TRY(volume_->overlay().view(head.block));
  const std::uint32_t version = e4::load<le32>(block.data(), 4);
  if (e4::load<le32>(block.data(), 0) != kMagics[static_cast<int>(kind)] || version > 1) return damaged("unknown format");
  file.record_bytes = version == 1 ? 72 : 48;
  files_.push_back(std::move(file));
  return {};
}

QuotaFiles::Place QuotaFiles::place_of(const File& file, std::uint32_t quota_block) const {
  const std::uint64_t at = std::uint64_t{quota_block} * kQuotaBlockBytes;
  const std::uint64_t logical = at / volume_->geo().block_bytes;
  for (const Run& r : file.runs)
    if (logical >= r.logical && logical < r.logical + r.blocks && !r.unwritten)
      return {r.physical + (logical - r.logical), static_cast<std::uint32_t>(at % volume_->geo().block_bytes)};
  return {};
}

Result<QuotaFiles::Place> QuotaFiles::find(const File& file, std::uint32_t id) {
  std::uint32_t node = kTreeRoot;
  for (std::uint32_t depth = 0; depth < kTreeDepth; ++depth) {
    const Place p = place_of(file, node);
    if (p.block == 0) return Place{};
    const std::uint32_t index = id >> (8 * (kTreeDepth - 1 - depth)) & 0xFF;
    node = e4::load<le32>(E4_TRY(volume_->overlay().view(p.block)).data(), p.offset + index * 4);
    if (node <= kTreeRoot) return Place{};
  }
  const Place leaf = place_of(file, node);
  if (leaf.block == 0) return Place{};
  const auto block = E4_TRY(volume_->overlay().view(leaf.block)).subspan(leaf.offset, kQuotaBlockBytes);
  for (std::uint32_t at = kDataHeaderBytes; at + file.record_bytes <= kQuotaBlockBytes; at += file.record_bytes) {
    if (e4::load<le32>(block.data(), at) != id) continue;
    // Free records are all zero; a record of id 0 never is.
    const auto record = block.subspan(at, file.record_bytes);
    if (!all_zero(record)) return Place{leaf.block, leaf.offset + at};
  }
  return Place{};
}

Result<bool> QuotaFiles::subtract(const File& file, Place place, std::uint64_t bytes, std::uint64_t inodes) {
  const Layout l = layout(file.record_bytes);
  const auto block = E4_TRY(volume_->overlay().edit(place.block));
  std::byte* record = block.data() + place.offset;
  const std::uint64_t space = e4::load<le64>(record, l.space_at);
  store<le64>(record, l.space_at, space - std::min(space, bytes));
  const std::uint64_t count = l.wide_inodes ? e4::load<le64>(record, l.inodes_at) : e4::load<le32>(record, l.inodes_at);
  const std::uint64_t rest = count - std::min(count, inodes);
  if (l.wide_inodes)
    store<le64>(record, l.inodes_at, rest);
  else
    store<le32>(record, l.inodes_at, rest);
  return all_zero(std::span<const std::byte>(record + l.first, l.end - l.first));
}

Result<std::span<std::byte>> QuotaFiles::edit(const File& file, std::uint32_t quota_block) {
  const Place p = place_of(file, quota_block);
  if (p.block == 0) return make_error(ErrorKind::corrupt, "quota block outside the file").at_inode(file.ino);
  return E4_TRY(volume_->overlay().edit(p.block)).subspan(p.offset, kQuotaBlockBytes);
}

/// Out of the chain of data blocks that have room.
Result<void> QuotaFiles::unlink_free_entry(const File& file, std::uint32_t quota_block) {
  const auto block = E4_TRY(edit(file, quota_block));
  const std::uint32_t next = e4::load<le32>(block.data(), kNextFree), prev = e4::load<le32>(block.data(), kPrevFree);
  if (next != 0) store<le32>(E4_TRY(edit(file, next)).data(), kPrevFree, prev);
  if (prev != 0)
    store<le32>(E4_TRY(edit(file, prev)).data(), kNextFree, next);
  else
    store<le32>(E4_TRY(edit(file, 0)).data(), kInfoFreeEntry, next);
  return {};
}

/// To the chain of unused blocks.
Result<void> QuotaFiles::release_block(const File& file, std::uint32_t quota_block) {
  const auto info = E4_TRY(edit(file, 0));
  const auto block = E4_TRY(edit(file, quota_block));
  std::fill(block.begin(), block.begin() + kDataHeaderBytes, std::byte{0});
  store<le32>(block.data(), kNextFree, e4::load<le32>(info.data(), kInfoFreeBlock));
  store<le32>(info.data(), kInfoFreeBlock, quota_block);
  return {};
}

Result<void> QuotaFiles::remove(File& file, std::uint32_t id, Place record) {
  // The way down again, every number checked before anything changes.
  const std::uint32_t blocks = e4::load<le32>(E4_TRY(edit(file, 0)).data(), kInfoBlocks);
  std::uint32_t way[kTreeDepth + 1] = {kTreeRoot};
  for (std::uint32_t depth = 0; depth < kTreeDepth; ++depth) {
    const auto node = E4_TRY(edit(file, way[depth]));
    way[depth + 1] = e4::load<le32>(node.data(), (id >> (8 * (kTreeDepth - 1 - depth)) & 0xFF) * std::size_t{4});
  }
  for (std::uint32_t depth = 1; depth <= kTreeDepth; ++depth) {
    if (way[depth] <= kTreeRoot || way[depth] >= blocks || place_of(file, way[depth]).block == 0) return {};
    for (std::uint32_t above = 0; above < depth; ++above)
      if (way[above] == way[depth]) return {};
  }
  const std::uint32_t leaf = way[kTreeDepth];
  const auto data = E4_TRY(edit(file, leaf));
  const std::uint32_t entries = e4::load<le16>(data.data(), kEntries);
  const std::uint32_t per_block = (kQuotaBlockBytes - kDataHeaderBytes) / file.record_bytes;
  for (const std::size_t link : {kNextFree, kPrevFree})
    if (const std::uint32_t n = e4::load<le32>(data.data(), link); n != 0 && (n >= blocks || place_of(file, n).block == 0)) return {};
  if (entries == 0 || entries > per_block) return {};
  const std::size_t at = record.offset - place_of(file, leaf).offset;
  std::fill_n(data.begin() + static_cast<std::ptrdiff_t>(at), file.record_bytes, std::byte{0});
  store<le16>(data.data(), kEntries, entries - 1);
  if (entries == 1) {
    E4_TRY(unlink_free_entry(file, leaf));
    E4_TRY(release_block(file, leaf));
  } else if (entries == per_block) {
    const auto info = E4_TRY(edit(file, 0));
    const std::uint32_t head = e4::load<le32>(info.data(), kInfoFreeEntry);
    if (head != 0 && head < blocks && place_of(file, head).block != 0) store<le32>(E4_TRY(edit(file, head)).data(), kPrevFree, leaf);
    store<le32>(data.data(), kNextFree, head);
    store<le32>(data.data(), kPrevFree, 0U);
    store<le32>(info.data(), kInfoFreeEntry, leaf);
  }
  // Tree blocks that lead nowhere any more go as well, up to the root.
  for (std::uint32_t depth = kTreeDepth; depth-- > 0;) {
    const auto node = E4_TRY(edit(file, way[depth]));
    store<le32>(node.data(), (id >> (8 * (kTreeDepth - 1 - depth)) & 0xFF) * std::size_t{4}, 0U);
    if (depth == 0 || !all_zero(node)) break;
    E4_TRY(release_block(file, way[depth]));
  }
  file.places[id] = Place{};
  return {};
}

Result<void> QuotaFiles::discharge(const QuotaOwner& owner, std::uint64_t bytes, std::uint64_t inodes) {
  for (File& file : files_) {
    const std::uint32_t id = file.kind == Kind::user ? owner.uid : file.kind == Kind::group ? owner.gid : owner.project;
    auto it = file.places.find(id);
    if (it == file.places.end()) it = file.places.emplace(id, E4_TRY(find(file, id))).first;
    if (it->second.block == 0) continue;
    const Place record = it->second;
    if (E4_TRY(subtract(file, record, bytes, inodes))) E4_TRY(remove(file, id, record));
  }
  return {};
}

}  // namespace e4::orphan
