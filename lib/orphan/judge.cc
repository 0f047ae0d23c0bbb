// SPDX-License-Identifier: GPL-2.0-only
#include "orphan/judge.h"

#include <algorithm>
#include <cstring>

#include "orphan/freeing.h"
#include "orphan/names.h"
#include "orphan/validity.h"

namespace e4::orphan {
namespace {

bool known_type(std::uint16_t type) {
  switch (type) {
    case kModeFifo:
    case kModeChar:
    case kModeDir:
    case kModeBlock:
    case kModeRegular:
    case kModeSymlink:
    case kModeSocket: return true;
    default: return false;
  }
}

void settle(Record& r, State state, Action action, std::uint32_t reasons = 0) {
  r.state = state;
  r.action = action;
  r.reasons |= reasons;
}

bool any_nonzero(std::span<const std::byte> bytes) {
  return std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{0}; });
}

}  // namespace

TailBlock tail_block(const Geometry& geo, const Mapping& mapping, std::uint64_t size_bytes) {
  const auto keep = static_cast<std::uint32_t>(size_bytes % geo.block_bytes);
  if (keep == 0) return {};
  const std::uint64_t logical = size_bytes / geo.block_bytes;
  for (const Run& r : mapping.runs)
    if (logical >= r.logical && logical < r.logical + r.blocks)
      return r.unwritten ? TailBlock{} : TailBlock{r.physical + (logical - r.logical), keep};
  return {};
}

bool inline_tail_dirty(const InodeView& inode) {
  const std::uint64_t size = inode.size();
  if (size < 60 && any_nonzero(inode.i_block().subspan(size))) return true;
  std::vector<Attribute> attributes;
  if (!inode_attributes(inode, attributes)) return false;
  const Attribute* data = find_inline_data(attributes);
  if (data == nullptr || data->value_bytes == 0) return false;
  const std::uint64_t keep = std::min<std::uint64_t>(size > 60 ? size - 60 : 0, data->value_bytes);
  return any_nonzero(inode.raw().subspan(data->value_offset + keep, data->value_bytes - keep));
}

Judge::Judge(Volume& volume, InodeSet& candidates)
    : volume_(volume), geo_(volume.geo()), candidates_(candidates), ownership_(volume), holders_(volume.geo().inodes_count) {}

Result<void> Judge::look_at(Record& r) {
  const auto used = volume_.inode_in_use(r.ino);
  if (!used) {
    settle(r, State::invalid, Action::leave, kGroup);
    return {};
  }
  if (!*used) {
    settle(r, State::invalid, Action::drop, kFree);
    return {};
  }
  const auto view = InodeTable(volume_).view(r.ino);
  if (!view) {
    settle(r, State::invalid, Action::leave, kUnreadable);
    return {};
  }
  raw_.assign(view->begin(), view->end());
  const InodeView inode(raw_);
  r.mode = inode.mode();
  r.uid = inode.uid();
  r.gid = inode.gid();
  r.project = inode.project();
  r.links = inode.links();
  r.flags = inode.flags();
  r.generation = inode.generation();
  r.dtime = inode.dtime();
  r.size_bytes = inode.size();
  r.held_bytes = inode.held_bytes(geo_);
  if (!inode_checksum_ok(geo_, r.ino, raw_)) {
    settle(r, State::invalid, Action::leave, kCsum);
    return {};
  }
  const std::uint32_t extra = inode.extra_isize();
  if (raw_.size() > 128 && (extra % 4 != 0 || extra > raw_.size() - 128)) {
    settle(r, State::invalid, Action::leave, kUnreadable);
    return {};
  }
  if (!known_type(inode.type())) {
    settle(r, State::invalid, Action::drop, kWrongType);
    return {};
  }
  return inode.links() == 0 ? deletion(r, inode) : truncation(r, inode);
}

Result<void> Judge::deletion(Record& r, const InodeView& inode) {
  settle(r, State::erase, Action::erase);
  if (inode.type() == kModeDir) {
    const DirContent content = E4_TRY(look_into_directory(volume_, r.ino));
    if (!content.problem.empty() || !content.first_name.empty()) {
      settle(r, State::invalid, Action::leave, content.problem.empty() ? kNotEmpty : kUnreadable);
      return {};
    }
  }
  candidates_.insert(r.ino);
  if ((r.flags & kFlagEaInode) != 0) ledger_.ea_inodes.try_emplace(r.ino);
  if (!E4_TRY(claim_mapping(r, inode))) return {};
  r.back_bytes = count_clusters(geo_, mapping_.runs, mapping_.meta) * geo_.cluster_blocks * geo_.block_bytes;
  E4_TRY(claim_attributes(r, inode));
  return {};
}

Result<void> Judge::truncation(Record& r, const InodeView& inode) {
  if ((r.flags & kFlagEaInode) != 0) {
    settle(r, State::drop, Action::drop, kSpecial);
    return {};
  }
  const bool truncatable = inode.type() == kModeRegular || inode.type() == kModeDir ||
                           (inode.type() == kModeSymlink && !inode.is_fast_symlink(geo_));
  if (!truncatable) {
    settle(r, State::drop, Action::drop, kWrongType);
    return {};
  }
  if ((r.flags & kFlagVerity) != 0) {
    settle(r, State::drop, Action::drop, kVerity);
    return {};
  }
  if (inode.has_inline_data()) {
    if (inode.type() == kModeRegular && inline_tail_dirty(inode))
      settle(r, State::truncate, Action::truncate);
    else
      settle(r, State::drop, Action::drop, kCovered);
    return {};
  }
  if (!E4_TRY(claim_mapping(r, inode))) return {};
  const std::uint64_t end = end_block(geo_, inode.size());
  const Tail tail = runs_from(geo_, mapping_.runs, end);
  const Cut cut = E4_TRY(measure_cut(volume_, r.ino, raw_, end));
  r.back_bytes = count_clusters(geo_, cut.runs, cut.meta, tail.keep) * geo_.cluster_blocks * geo_.block_bytes;
  bool dirty_tail = false;
  if (const TailBlock last = tail_block(geo_, mapping_, inode.size()); last.block != 0 && (r.flags & kFlagEncrypt) == 0)
    dirty_tail = any_nonzero(E4_TRY(volume_.overlay().view(last.block)).subspan(last.keep_bytes));
  if (tail.runs.empty() && !dirty_tail) {
    settle(r, State::drop, Action::drop, kCovered);
    return {};
  }
  if (inode.type() == kModeDir) {
    // Whatever is in those blocks, nobody shortens a linked directory without looking at all of it.
    settle(r, State::truncate, tail.runs.empty() ? Action::drop : Action::leave, kWrongType);
    return {};
  }
  settle(r, State::truncate, Action::truncate);
  candidates_.insert(r.ino);
  holders_.insert(r.ino);  // even the zeroing of a tail needs the block to be its own
  return {};
}

Result<bool> Judge::all_in_use(Record& r, Blk first, std::uint32_t blocks) {
  const std::uint64_t end = geo_.cluster_of(first + blocks - 1);
  for (std::uint64_t c = geo_.cluster_of(first); c <= end; ++c) {
    const auto used = volume_.cluster_in_use(geo_.first_data_block + c * geo_.cluster_blocks);
    if (!used || !*used) {
      settle(r, r.state, Action::leave, used ? kShared : kGroup);
      return false;
    }
  }
  return true;
}

/// Walks and claims; false when the record was settled otherwise.
Result<bool> Judge::claim_mapping(Record& r, const InodeView& inode) {
  E4_TRY(walk_mapping(volume_, r.ino, inode, mapping_));
  // Clusters have no block maps (the resize inode apart): whose the other blocks of a cluster are cannot be told.
  bool sound = mapping_.ok() && (!geo_.bigalloc() || inode.has_extents() || mapping_.runs.empty());
  if (!sound) settle(r, State::invalid, Action::leave, kUnreadable);
  for (const Run& run : mapping_.runs) sound = sound && E4_TRY(all_in_use(r, run.physical, run.blocks));
  for (const Blk b : mapping_.meta) sound = sound && E4_TRY(all_in_use(r, b, 1));
  if (!sound) {
    candidates_.erase(r.ino);  // it stays, so the scan of the others must count what it holds
    return false;
  }
  std::uint64_t last = kNoCluster;
  for (const Run& run : mapping_.runs) ownership_.claim(run.physical, run.blocks, last);
  for (const Blk b : mapping_.meta) ownership_.claim(b, 1, last);
  return true;
}

Result<bool> Judge::claim_attributes(Record& r, const InodeView& inode) {
  const auto unreadable = [&] {
    settle(r, State::invalid, Action::leave, kUnreadable);
    return false;
  };
  const Blk acl = inode.file_acl();
  if (geo_.has_ea_inode()) {
    attributes_.clear();
    if (!inode_attributes(inode, attributes_)) return unreadable();
    const std::vector<Attribute> own = attributes_;
    for (const Attribute& a : own)
      if (a.value_inum != 0) {
        ++r.ea_refs;
        if (!E4_TRY(claim_ea_inode(r, a.value_inum, false))) return false;
      }
  }
  if (acl == 0) return true;
  if (!geo_.block_in_range(acl)) return unreadable();
  if (!E4_TRY(all_in_use(r, acl, 1))) return false;
  const auto view = E4_TRY(volume_.overlay().view(acl));
  if (!XattrBlock(view).sane(geo_, acl)) return unreadable();
  const auto [it, first] = ledger_.xattr_blocks.try_emplace(acl);
  ++it->second.orphans;
  held_[r.ino].acl = acl;
  holders_.insert(r.ino);
  if (first) {
    std::uint64_t last = kNoCluster;
    ownership_.claim(acl, 1, last);
  }
  if (!geo_.has_ea_inode()) return true;
  const std::vector<std::byte> block(view.begin(), view.end());
  attributes_.clear();
  if (!block_attributes(block, attributes_)) return unreadable();
  const std::vector<Attribute> shared = attributes_;
  for (const Attribute& a : shared) {
    if (a.value_inum == 0) continue;
    ++r.ea_refs;
    if (!first) continue;
    block_ea_inodes_[acl].push_back(a.value_inum);
    if (!E4_TRY(claim_ea_inode(r, a.value_inum, true))) return false;
  }
  return true;
}

/// A reference that leads to no sane attribute inode is passed over, as the kernel does: it owns nothing.
Result<bool> Judge::claim_ea_inode(Record& r, Ino ino, bool by_block) {
  if (number_reasons(volume_, ino) != 0) return true;
  const auto used = volume_.inode_in_use(ino);
  if (!used || !*used) return true;
  const auto view = InodeTable(volume_).view(ino);
  if (!view || !inode_checksum_ok(geo_, ino, *view) || (InodeView(*view).flags() & kFlagEaInode) == 0) return true;
  const std::vector<std::byte> raw(view->begin(), view->end());
  holders_.insert(r.ino);
  if (!by_block) held_[r.ino].ea_inodes.push_back(ino);
  const auto [it, first] = ledger_.ea_inodes.try_emplace(ino);
  ++it->second.orphans;
  if (!first || candidates_.contains(ino)) return true;
  Mapping mapping;
  E4_TRY(walk_mapping(volume_, ino, InodeView(raw), mapping));
  if (!mapping.ok()) {
    settle(r, State::invalid, Action::leave, kUnreadable);
    return false;
  }
  for (const Run& run : mapping.runs)
    if (!E4_TRY(all_in_use(r, run.physical, run.blocks))) return false;
  candidates_.insert(ino);
  std::uint64_t last = kNoCluster;
  for (const Run& run : mapping.runs) ownership_.claim(run.physical, run.blocks, last);
  for (const Blk b : mapping.meta) ownership_.claim(b, 1, last);
  ea_clusters_[ino] = count_clusters(geo_, mapping.runs, mapping.meta);
  return true;
}

bool Judge::referenced(Ino ea_inode) const {
  const auto it = ledger_.ea_inodes.find(ea_inode);
  return it != ledger_.ea_inodes.end() && it->second.others > 0;
}

Result<bool> Judge::mapping_contested(Ino ino) {
  const auto view = E4_TRY(InodeTable(volume_).view(ino));
  const std::vector<std::byte> raw(view.begin(), view.end());
  E4_TRY(walk_mapping(volume_, ino, InodeView(raw), mapping_));
  for (const Run& run : mapping_.runs)
    if (ownership_.contested(run.physical, run.blocks)) return true;
  return std::any_of(mapping_.meta.begin(), mapping_.meta.end(), [this](Blk b) { return ownership_.contested(b, 1); });
}

Result<void> Judge::claim_quota_files() {
  if (!geo_.has_quota()) return {};
  for (const Ino ino : {geo_.usr_quota_inum, geo_.grp_quota_inum, geo_.prj_quota_inum}) {
    if (ino == 0 || ino > geo_.inodes_count || !candidates_.insert(ino)) continue;
    const auto view = InodeTable(volume_).view(ino);
    if (!view) continue;
    const std::vector<std::byte> raw(view->begin(), view->end());
    E4_TRY(walk_mapping(volume_, ino, InodeView(raw), mapping_));
    std::uint64_t last = kNoCluster;
    for (const Run& run : mapping_.runs) ownership_.claim(run.physical, run.blocks, last);
    for (const Blk b : mapping_.meta) ownership_.claim(b, 1, last);
    quota_files_.push_back(ino);
  }
  return {};
}

Result<std::vector<Ino>> Judge::unproved_quota_files(bool all_inodes_read) {
  std::vector<Ino> bad;
  if (!all_inodes_read) return quota_files_;
  if (!ownership_.any_contest()) return bad;
  for (const Ino ino : quota_files_)
    if (E4_TRY(mapping_contested(ino))) bad.push_back(ino);
  return bad;
}

Result<bool> Judge::contested(const Record& r) {
  if (E4_TRY(mapping_contested(r.ino))) return true;
  const auto it = held_.find(r.ino);
  if (it == held_.end()) return false;
  if (it->second.acl != 0) {
    if (ownership_.contested(it->second.acl, 1)) return true;
    for (const Ino ino : block_ea_inodes_[it->second.acl])
      if (ea_clusters_.contains(ino) && E4_TRY(mapping_contested(ino))) return true;
  }
  for (const Ino ino : it->second.ea_inodes)
    if (ea_clusters_.contains(ino) && E4_TRY(mapping_contested(ino))) return true;
  return false;
}

void Judge::count_back_bytes(std::vector<Record>& records, const std::vector<std::uint32_t>& order) {
  Ledger left = ledger_;
  const std::uint64_t cluster_bytes = std::uint64_t{geo_.cluster_blocks} * geo_.block_bytes;
  for (Record& r : records)
    if (r.action != Action::erase && r.action != Action::truncate) r.back_bytes = 0;
  for (const std::uint32_t i : order) {
    Record& r = records[i];
    const auto it = held_.find(r.ino);
    if (r.action != Action::erase || it == held_.end()) continue;
    const auto let_go = [&](Ino ino) {
      if (const auto ea = left.ea_inodes.find(ino); ea != left.ea_inodes.end() && ea->second.orphans > 0)
        if (--ea->second.orphans; ea->second.all() == 0) r.back_bytes += ea_clusters_[ino] * cluster_bytes;
    };
    for (const Ino ino : it->second.ea_inodes) let_go(ino);
    if (it->second.acl == 0) continue;
    References& refs = left.xattr_blocks[it->second.acl];
    if (refs.orphans > 0) --refs.orphans;
    if (refs.all() != 0) continue;
    r.back_bytes += cluster_bytes;
    for (const Ino ino : block_ea_inodes_[it->second.acl]) let_go(ino);
  }
}

}  // namespace e4::orphan
