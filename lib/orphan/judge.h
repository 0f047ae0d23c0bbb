// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "orphan/mapping.h"
#include "orphan/ownership.h"
#include "orphan/record.h"
#include "orphan/xattr.h"

namespace e4::orphan {

/// Indexes of records in the order the release works: list from its head, then
/// the file's by inode, attribute inodes last.
std::vector<std::uint32_t> release_order(const std::vector<Record>& records);

/// The last block of a file whose size ends inside it.
struct TailBlock {
  Blk block = 0;               // 0: no partial, written last block
  std::uint32_t keep_bytes = 0;
};
/// The block whose bytes past i_size a truncate zeroes, if it is mapped and written.
TailBlock tail_block(const Geometry& geo, const Mapping& mapping, std::uint64_t size_bytes);
/// Bytes of inline data past i_size that are not zero (in i_block, or in system.data).
bool inline_tail_dirty(const InodeView& inode);

/// Looks at one orphan inode at a time and says what should become of it
/// (kernel 6.18 ext4_orphan_get, ext4_evict_inode, ext4_truncate; safer where a
/// linked inode could lose data). Claims what it holds. Fields of the record
/// are filled in.
class Judge {
 public:
  Judge(Volume& volume, InodeSet& candidates);
  Result<void> look_at(Record& r);
  /// The release writes into the quota files too: their blocks must be their own as well.
  Result<void> claim_quota_files();
  /// Quota files with a block that is not, or cannot be proved to be, solely theirs.
  Result<std::vector<Ino>> unproved_quota_files(bool all_inodes_read);

  [[nodiscard]] Ownership& ownership() { return ownership_; }
  [[nodiscard]] Ledger& ledger() { return ledger_; }
  [[nodiscard]] bool needs_proof() const { return ownership_.any_claims(); }
  [[nodiscard]] bool holds_blocks(const Record& r) const { return r.back_bytes > 0 || holders_.contains(r.ino); }
  /// Something that is no orphan refers to this attribute inode.
  [[nodiscard]] bool referenced(Ino ea_inode) const;
  /// A cluster it would give back is not solely its own.
  Result<bool> contested(const Record& r);
  Result<bool> mapping_contested(Ino ino);
  /// Adds attribute blocks and inodes to back_bytes of the record that lets go of them last.
  void count_back_bytes(std::vector<Record>& records, const std::vector<std::uint32_t>& order);

 private:
  Result<void> deletion(Record& r, const InodeView& inode);
  Result<void> truncation(Record& r, const InodeView& inode);
  Result<bool> claim_mapping(Record& r, const InodeView& inode);
  Result<bool> claim_attributes(Record& r, const InodeView& inode);
  Result<bool> claim_ea_inode(Record& r, Ino ino, bool by_block);
  Result<bool> all_in_use(Record& r, Blk first, std::uint32_t blocks);

  Volume& volume_;
  const Geometry& geo_;
  InodeSet& candidates_;
  Ownership ownership_;
  Ledger ledger_;
  Mapping mapping_;
  std::vector<std::byte> raw_;
  std::vector<Attribute> attributes_;
  std::vector<Ino> quota_files_;
  InodeSet holders_;  // hold attribute blocks or inodes, whatever they map
  struct Held {
    Blk acl = 0;
    std::vector<Ino> ea_inodes;  // of the inode body; those of the block are the block's
  };
  std::unordered_map<Ino, Held> held_;
  std::unordered_map<Blk, std::vector<Ino>> block_ea_inodes_;
  std::unordered_map<Ino, std::uint64_t> ea_clusters_;
};

}  // namespace e4::orphan
