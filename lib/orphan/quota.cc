// SPDX-License-Identifier: GPL-2.0-only
#include "orphan/quota.h"

#include <algorithm>

#include "orphan/inode.h"

namespace e4::orphan {
namespace {

constexpr std::uint32_t kQuotaBlockBytes = 1024, kTreeRoot = 1, kTreeDepth = 4, kDataHeaderBytes = 16;
constexpr std::uint32_t kMagics[] = {0xD9C01F11, 0xD9C01927, 0xD9C03F14};  // user, group, project
constexpr std::uint32_t kRoCompatQuota = 0x100;

/// Where the counters stand in a record: 72 bytes in version 1, 48 in version 0.
struct Layout {
  std::uint32_t bytes, inodes_at, space_at;
  bool wide_inodes;
};
constexpr Layout layout(std::uint32_t record_bytes) {
  return record_bytes == 72 ? Layout{72, 24, 48, true} : Layout{48, 12, 24, false};
}

}  // namespace

Result<QuotaFiles> QuotaFiles::open(Volume& volume) {
  QuotaFiles q;
  q.volume_ = &volume;
  const Geometry& geo = volume.geo();
  if ((geo.feature_ro_compat & kRoCompatQuota) == 0) return q;
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
    if (std::any_of(record.begin(), record.end(), [](std::byte b) { return b != std::byte{0}; }))
      return Place{leaf.block, leaf.offset + at};
  }
  return Place{};
}

Result<void> QuotaFiles::subtract(const File& file, Place place, std::uint64_t bytes, std::uint64_t inodes) {
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
  return {};
}

Result<void> QuotaFiles::discharge(const QuotaOwner& owner, std::uint64_t bytes, std::uint64_t inodes) {
  for (File& file : files_) {
    const std::uint32_t id = file.kind == Kind::user ? owner.uid : file.kind == Kind::group ? owner.gid : owner.project;
    auto it = file.places.find(id);
    if (it == file.places.end()) it = file.places.emplace(id, E4_TRY(find(file, id))).first;
    if (it->second.block != 0) E4_TRY(subtract(file, it->second, bytes, inodes));
  }
  return {};
}

}  // namespace e4::orphan
