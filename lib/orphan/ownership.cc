// SPDX-License-Identifier: GPL-2.0-only
#include "orphan/ownership.h"

#include <algorithm>
#include <unordered_set>

#include "orphan/xattr.h"

namespace e4::orphan {
namespace {

constexpr std::size_t kObstaclesMax = 16;
constexpr Ino kResizeInode = 7;

bool test(const std::vector<std::uint64_t>& words, std::uint64_t i) { return (words[i / 64] >> (i % 64) & 1) != 0; }
void set(std::vector<std::uint64_t>& words, std::uint64_t i) { words[i / 64] |= std::uint64_t{1} << (i % 64); }

}  // namespace

Ownership::Ownership(const Volume& volume) : volume_(&volume) {
  const Geometry& geo = volume.geo();
  groups_.resize((geo.clusters_count() + geo.clusters_per_group - 1) / geo.clusters_per_group);
  const std::uint32_t per_block = geo.block_bytes / geo.desc_bytes;
  const bool meta_bg = geo.first_meta_bg != ~0U;
  const std::uint32_t desc_blocks = (geo.groups_count + per_block - 1) / per_block;
  const std::uint32_t old_desc_blocks = meta_bg ? std::min(geo.first_meta_bg, desc_blocks) : desc_blocks;
  metadata_.emplace_back(0, geo.block_bytes == 1024 ? 2 : 1);
  if (geo.mmp_block != 0) metadata_.emplace_back(geo.mmp_block, 1);
  for (GroupNo g = 0; g < geo.groups_count; ++g) {
    const GroupDesc& d = volume.group(g);
    if (d.trusted) {
      metadata_.emplace_back(d.block_bitmap, 1);
      metadata_.emplace_back(d.inode_bitmap, 1);
      metadata_.emplace_back(d.inode_table, geo.itable_blocks);
    }
    const Blk first = geo.first_data_block + std::uint64_t{g} * geo.blocks_per_group;
    const bool super = geo.has_super(g);
    // With 1 KiB blocks and counting from 0 (bigalloc) the first superblock is in block 1.
    const Blk after = first + (super ? 1 : 0) + (g == 0 && geo.block_bytes == 1024 && geo.first_data_block == 0 ? 1 : 0);
    if (super) metadata_.emplace_back(first, static_cast<std::uint32_t>(after - first) + old_desc_blocks + geo.reserved_gdt_blocks);
    if (meta_bg && g / per_block >= geo.first_meta_bg) {
      const GroupNo in = g % per_block;
      if (in == 0 || in == 1 || in == per_block - 1) metadata_.emplace_back(after, 1);
    }
  }
  std::sort(metadata_.begin(), metadata_.end());
}

Ownership::Bits& Ownership::group(std::uint64_t g) {
  auto& slot = groups_[g];
  if (slot == nullptr) {
    slot = std::make_unique<Bits>();
    slot->owned.resize(volume_->geo().clusters_per_group / 64 + 1);
    slot->contested.resize(slot->owned.size());
    mark_metadata(g, *slot);
  }
  return *slot;
}

void Ownership::mark_metadata(std::uint64_t g, Bits& bits) {
  const Geometry& geo = volume_->geo();
  const std::uint64_t low = g * geo.clusters_per_group, high = low + geo.clusters_per_group;
  // Ranges are sorted by start; the longest that may reach in from the left is an inode table.
  const Blk low_block = geo.first_data_block + low * geo.cluster_blocks;
  const Blk back = std::uint64_t{geo.itable_blocks} + geo.reserved_gdt_blocks + geo.groups_count + 2;
  auto it = std::lower_bound(metadata_.begin(), metadata_.end(),
                             std::pair<Blk, std::uint32_t>(low_block > back ? low_block - back : 0, 0));
  for (; it != metadata_.end(); ++it) {
    const Blk first = std::max(it->first, geo.first_data_block), end = it->first + it->second;
    if (end <= first) continue;
    const std::uint64_t from = geo.cluster_of(first), to = geo.cluster_of(end - 1);
    if (from >= high) break;
    for (std::uint64_t c = std::max(from, low); c <= to && c < high; ++c) set(bits.contested, c - low);
  }
}

void Ownership::claim(Blk first, std::uint32_t blocks, std::uint64_t& last) {
  const Geometry& geo = volume_->geo();
  const std::uint64_t end = geo.cluster_of(first + blocks - 1);
  claims_ = true;
  for (std::uint64_t c = geo.cluster_of(first); c <= end; ++c) {
    if (c == last) continue;
    last = c;
    Bits& bits = group(c / geo.clusters_per_group);
    const std::uint64_t i = c % geo.clusters_per_group;
    if (test(bits.owned, i)) set(bits.contested, i);
    set(bits.owned, i);
    contests_ = contests_ || test(bits.contested, i);
  }
}

void Ownership::contest(Blk first, std::uint32_t blocks) {
  const Geometry& geo = volume_->geo();
  const std::uint64_t end = geo.cluster_of(first + blocks - 1);
  for (std::uint64_t c = geo.cluster_of(first); c <= end;) {
    const std::uint64_t g = c / geo.clusters_per_group;
    const std::uint64_t stop = std::min(end, (g + 1) * geo.clusters_per_group - 1);
    if (Bits* bits = groups_[g].get(); bits != nullptr) {
      for (; c <= stop; ++c) {
        const std::uint64_t i = c % geo.clusters_per_group;
        if (!test(bits->owned, i)) continue;
        set(bits->contested, i);
        contests_ = true;
      }
    }
    c = stop + 1;
  }
}

bool Ownership::contested(Blk first, std::uint32_t blocks) const {
  const Geometry& geo = volume_->geo();
  const std::uint64_t end = geo.cluster_of(first + blocks - 1);
  for (std::uint64_t c = geo.cluster_of(first); c <= end; ++c) {
    const auto& bits = groups_[c / geo.clusters_per_group];
    if (bits != nullptr && test(bits->contested, c % geo.clusters_per_group)) return true;
  }
  return false;
}

namespace {

class OthersScan {
 public:
  OthersScan(Volume& volume, const InodeSet& candidates, bool mappings, Ownership& ownership, Ledger& ledger)
      : volume_(volume), candidates_(candidates), mappings_(mappings), ownership_(ownership), ledger_(ledger) {}

  Result<ScanResult> run() {
    E4_TRY(for_each_inode(
        volume_, [this](Ino ino, std::span<const std::byte> raw, bool bit) { return visit(ino, InodeView(raw), bit); },
        [this](const std::string& line) { obstacle(line); }));
    return std::move(result_);
  }

 private:
  void obstacle(const std::string& line) {
    if (mappings_) result_.complete = false;
    if (result_.obstacles.size() < kObstaclesMax) result_.obstacles.push_back(line);
  }

  Result<void> visit(Ino ino, const InodeView& inode, bool bit) {
    const bool candidate = candidates_.contains(ino);
    if (inode.mode() == 0 || (candidate && inode.links() == 0)) return {};
    if (inode.type() == kModeDir && inode.links() > 0 && bit) {
      result_.directories.push_back(ino);
      result_.directory_bytes += std::min<std::uint64_t>(inode.size(), std::uint64_t{1} << 40);
    }
    if (!mappings_) return {};
    // A linked candidate loses blocks past its end, but goes on holding its attributes.
    if (!candidate) E4_TRY(runs(ino, inode, bit));
    return references(inode);
  }

  Result<void> runs(Ino ino, const InodeView& inode, bool bit) {
    E4_TRY(walk_mapping(volume_, ino, inode, mapping_));
    // Its blocks are the room kept behind the descriptors, which counts as metadata already; mke2fs lets it name one
    // block too far on bigalloc with 1 KiB blocks, a block that files may hold.
    if (ino != kResizeInode)
      for (const Run& r : mapping_.runs) ownership_.contest(r.physical, r.blocks);
    for (const Blk b : mapping_.meta) ownership_.contest(b, 1);
    // A deleted inode that was never cleared tells nothing about who owns what.
    if (!mapping_.ok() && bit && inode.links() > 0)
      obstacle("inode " + std::to_string(ino) + ": " + mapping_.problem);
    return {};
  }

  Result<void> references(const InodeView& inode) {
    const Geometry& geo = volume_.geo();
    const Blk acl = inode.file_acl();
    attributes_.clear();
    if (!ledger_.ea_inodes.empty()) inode_attributes(inode, attributes_);
    count_ea(attributes_);
    if (acl == 0 || !geo.block_in_range(acl)) return {};
    if (auto it = ledger_.xattr_blocks.find(acl); it != ledger_.xattr_blocks.end())
      ++it->second.others;
    else
      ownership_.contest(acl, 1);
    // A block's attributes refer once, however many inodes share the block.
    if (ledger_.ea_inodes.empty() || !blocks_seen_.insert(acl).second) return {};
    const auto view = E4_TRY(volume_.overlay().view(acl));
    if (XattrBlock(view).magic() != kXattrMagic) return {};
    attributes_.clear();
    block_attributes(view, attributes_);
    if (!ledger_.xattr_blocks.contains(acl)) count_ea(attributes_);
    return {};
  }

  void count_ea(const std::vector<Attribute>& attributes) {
    for (const Attribute& a : attributes)
      if (a.value_inum != 0)
        if (auto it = ledger_.ea_inodes.find(a.value_inum); it != ledger_.ea_inodes.end()) ++it->second.others;
  }

  Volume& volume_;
  const InodeSet& candidates_;
  bool mappings_;
  Ownership& ownership_;
  Ledger& ledger_;
  Mapping mapping_;
  std::vector<Attribute> attributes_;
  std::unordered_set<Blk> blocks_seen_;
  ScanResult result_;
};

}  // namespace

Result<ScanResult> scan_others(Volume& volume, const InodeSet& candidates, bool mappings, Ownership& ownership,
                               Ledger& ledger) {
  return OthersScan(volume, candidates, mappings, ownership, ledger).run();
}

}  // namespace e4::orphan
