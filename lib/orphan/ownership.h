// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "orphan/mapping.h"
#include "orphan/volume.h"

namespace e4::orphan {

/// A set of inode numbers, one bit each.
class InodeSet {
 public:
  explicit InodeSet(std::uint32_t inodes_count) : words_(inodes_count / 64 + 1) {}
  /// False when it was already in.
  bool insert(Ino ino) {
    std::uint64_t& w = words_[ino / 64];
    const std::uint64_t bit = std::uint64_t{1} << (ino % 64);
    if ((w & bit) != 0) return false;
    w |= bit;
    return true;
  }
  void erase(Ino ino) { words_[ino / 64] &= ~(std::uint64_t{1} << (ino % 64)); }
  [[nodiscard]] bool contains(Ino ino) const {
    return ino / 64 < words_.size() && (words_[ino / 64] >> (ino % 64) & 1) != 0;
  }

 private:
  std::vector<std::uint64_t> words_;
};

/// References found by the scan, by orphans to be erased and by everybody else.
struct References {
  std::uint32_t orphans = 0;
  std::uint32_t others = 0;
  [[nodiscard]] std::uint32_t all() const { return orphans + others; }
};

/// What is shared on purpose and must only be freed with its last owner. The release works on a copy.
struct Ledger {
  std::unordered_map<Blk, References> xattr_blocks;  // held by at least one orphan
  std::unordered_map<Ino, References> ea_inodes;     // valid attribute inodes those orphans refer to
};

/// Which clusters the candidates hold, and which of these somebody else holds
/// too. Memory: two bits a cluster in groups where candidates have blocks.
///
/// How it proves sole ownership: claim() marks each candidate's clusters and
/// contests one claimed before; then every other inode's runs go through
/// contest(). What was claimed and not contested has one owner. Metadata is
/// contested from the start.
class Ownership {
 public:
  explicit Ownership(const Volume& volume);
  /// One owner's hold on a run; clusters equal to `last` (its previous one) are not counted again.
  void claim(Blk first, std::uint32_t blocks, std::uint64_t& last);
  /// Somebody who is no candidate holds this run.
  void contest(Blk first, std::uint32_t blocks);
  [[nodiscard]] bool contested(Blk first, std::uint32_t blocks) const;
  [[nodiscard]] bool any_claims() const { return claims_; }
  [[nodiscard]] bool any_contest() const { return contests_; }

 private:
  struct Bits {
    std::vector<std::uint64_t> owned, contested;
  };
  Bits& group(std::uint64_t g);
  void mark_metadata(std::uint64_t g, Bits& bits);
  const Volume* volume_;
  std::vector<std::unique_ptr<Bits>> groups_;
  std::vector<std::pair<Blk, std::uint32_t>> metadata_;  // sorted (start, blocks), whole image
  bool claims_ = false, contests_ = false;
};

/// What a look at all other inodes found besides.
struct ScanResult {
  bool complete = true;                // every inode in use could be read
  std::vector<std::string> obstacles;  // at most 16 lines
  std::vector<Ino> directories;        // linked directories
  std::uint64_t directory_bytes = 0;
};

/// Looks at every other inode in use: contests the runs of those not in
/// `candidates`, counts references of linked ones to attribute blocks and
/// inodes in the ledger, collects directories. `mappings` false: directories only.
Result<ScanResult> scan_others(Volume& volume, const InodeSet& candidates, bool mappings, Ownership& ownership,
                               Ledger& ledger);

/// Calls `visit(ino, raw)` for each inode of the table that its bitmap or its
/// link count calls in use (`raw` stays valid during the call); groups that cannot be read go to `obstacle`.
template <class Visit, class Obstacle>
Result<void> for_each_inode(Volume& volume, Visit&& visit, Obstacle&& obstacle) {
  const Geometry& geo = volume.geo();
  std::vector<std::byte> block(geo.block_bytes);
  const std::uint32_t per_block = geo.block_bytes / geo.inode_bytes;
  for (GroupNo g = 0; g < geo.groups_count; ++g) {
    auto map = volume.inode_bitmap(g);
    if (!map) {
      obstacle(map.error().message());
      continue;
    }
    const std::uint32_t end = volume.used_inode_slots(g, *map);
    for (std::uint32_t first = 0; first < end; first += per_block) {
      auto view = volume.overlay().view(volume.group(g).inode_table + first / per_block);
      if (!view) {
        obstacle(view.error().message());
        break;
      }
      std::memcpy(block.data(), view->data(), block.size());
      for (std::uint32_t i = first; i < end && i < first + per_block; ++i) {
        const std::span<const std::byte> raw(block.data() + std::size_t{i - first} * geo.inode_bytes, geo.inode_bytes);
        const bool bit = (std::to_integer<unsigned>((*map)[i / 8]) >> (i % 8) & 1U) != 0;
        if (!bit && InodeView(raw).links() == 0) continue;
        E4_TRY(visit(static_cast<Ino>(std::uint64_t{g} * geo.inodes_per_group + i + 1), raw, bit));
      }
    }
  }
  return {};
}

}  // namespace e4::orphan
