// SPDX-License-Identifier: GPL-2.0-only
#include "orphan/release.h"

#include <algorithm>
#include <cstring>

#include "orphan/freeing.h"
#include "orphan/judge.h"
#include "orphan/quota.h"
#include "orphan/xattr.h"

namespace e4::orphan {
namespace {

/// Blocks one small release may dirty: inode, inode bitmap, descriptor, slot, superblock, three quota records, the list neighbour.
constexpr std::size_t kSmallCost = 10;
constexpr std::size_t kCapacityMin = 16;

}  // namespace

struct Releaser::Impl {
  Impl(Volume& v, Plan& p, ReleaseOptions o)
      : volume(v), geo(v.geo()), plan(p), options(std::move(o)), inodes(v), order(release_order(p.records)),
        ledger(p.ledger ? *p.ledger : Ledger{}), slots_left(p.file.used_slots),
        block_touched(p.file.blocks.size()) {
    options.capacity_blocks = std::max(options.capacity_blocks, kCapacityMin);
    const std::uint64_t time = std::max<std::uint64_t>(options.now, geo.inodes_count);
    dtime = static_cast<std::uint32_t>(std::min<std::uint64_t>(time, 0xFFFFFFFF));
    for (const Record& r : p.records)
      if ((r.flags & kFlagEaInode) != 0 && (r.action == Action::erase || r.source == Source::list)) tracked_ea.push_back(r.ino);
    std::sort(tracked_ea.begin(), tracked_ea.end());
  }

  Volume& volume;
  const Geometry& geo;
  Plan& plan;
  ReleaseOptions options;
  InodeTable inodes;
  std::vector<std::uint32_t> order;
  std::size_t position = 0;
  Ledger ledger;
  QuotaFiles quotas;
  bool quotas_open = false, finished = false;
  std::uint32_t dtime = 0;
  Ino kept_before = 0;  // last list member that stays; 0: the superblock points on
  std::uint64_t slots_left;
  std::vector<bool> block_touched;
  std::vector<Ino> tracked_ea;  // attribute inodes whose own record deletes them, or whose i_dtime links the list
  ReleaseTotals totals;
  Mapping mapping;

  [[nodiscard]] std::uint64_t cluster_bytes() const { return std::uint64_t{geo.cluster_blocks} * geo.block_bytes; }

  Result<bool> batch();
  enum class Step { done, part, no_room };
  Result<Step> one(Record& r, bool changed);
  Result<bool> finish();

  // What a record needs; each returns with bitmaps, counts and the inode edited, checksums of the inode done.
  Result<void> erase(Record& r);
  Result<void> truncate(Record& r);
  Result<void> truncate_inline(std::span<std::byte> raw);
  Result<void> relink(const Record& r);
  Result<void> shorten(Record& r, std::span<std::byte> raw, std::uint64_t end);
  Result<void> let_go_of_attributes(const InodeView& inode);
  Result<void> let_go_of_block(Blk acl);
  Result<void> let_go_of_ea_inode(Ino ino);
  Result<void> erase_inode(Ino ino, std::span<std::byte> raw);
  Result<void> zero_tail(Blk block, std::uint32_t keep_bytes);
  void count_freed(std::uint64_t clusters) {
    totals.freed_clusters += clusters;
    totals.freed_bytes += clusters * cluster_bytes();
  }
  Result<void> discharge(const Record& r, std::uint64_t bytes, std::uint64_t count) {
    if (!quotas.any()) return {};
    return quotas.discharge({r.uid, r.gid, r.project}, bytes, count);
  }

  // The tracking itself.
  Result<void> untrack(const Record& r);
  Result<void> unlink_from_list(const Record& r);
  Result<void> clear_file_slot(const Record& r);
  [[nodiscard]] bool ends_list(const Record& r) const {
    return r.source == Source::list && r.slot == plan.list.inodes.size() && plan.list.end != ListReport::End::unreadable;
  }

  [[nodiscard]] std::size_t cost() const;
  [[nodiscard]] std::uint64_t end_that_fits(std::size_t groups_max) const;
};

/// Blocks the release of what `mapping` holds dirties: a bitmap and perhaps a descriptor for each group.
std::size_t Releaser::Impl::cost() const {
  GroupNo last = ~0U;
  std::size_t groups = 0;
  const auto add = [&](Blk first, std::uint32_t blocks) {
    for (GroupNo g = geo.group_of_block(first); g <= geo.group_of_block(first + blocks - 1); ++g) {
      groups += g != last ? 1 : 0;
      last = g;
    }
  };
  for (const Run& r : mapping.runs) add(r.physical, r.blocks);
  for (const Blk b : mapping.meta) add(b, 1);
  return kSmallCost + groups * 2;
}

/// The logical block from which on the mapping touches at most so many groups (more extents than that never count twice).
std::uint64_t Releaser::Impl::end_that_fits(std::size_t groups_max) const {
  std::size_t groups = 0;
  std::uint64_t end = ~std::uint64_t{0};
  for (auto it = mapping.runs.rbegin(); it != mapping.runs.rend(); ++it) {
    groups += geo.group_of_block(it->physical + it->blocks - 1) - geo.group_of_block(it->physical) + 1;
    if (groups > groups_max && end != ~std::uint64_t{0}) break;
    end = it->logical;
  }
  return end;
}

Result<bool> Releaser::Impl::batch() {
  volume.forget_spans();
  if (!quotas_open) {
    quotas = E4_TRY(QuotaFiles::open(volume, plan.shared_quota_files));
    totals.problems = quotas.problems();
    quotas_open = true;
  }
  bool changed = false;
  while (position < order.size()) {
    Record& r = plan.records[order[position]];
    if (r.action != Action::leave) {
      if (changed && volume.overlay().dirty_count() + kSmallCost > options.capacity_blocks) break;
      const Step step = E4_TRY(one(r, changed));
      if (step == Step::no_room) break;
      changed = true;
      if (step == Step::part) break;
    } else {
      if (r.source == Source::list) kept_before = r.ino;
      ++totals.left;
    }
    ++position;
    r.done = true;
    if (options.done) options.done(r);
  }
  if (position == order.size() && !finished) {
    changed = E4_TRY(finish()) || changed;
    finished = true;
  }
  for (std::size_t i = 0; i < block_touched.size(); ++i) {
    if (!block_touched[i]) continue;
    const Blk physical = plan.file.blocks[i].physical;
    seal_orphan_block(E4_TRY(volume.overlay().edit(physical)),
                      inode_csum_seed(geo.csum_seed, plan.file.ino, plan.file.generation), physical, geo.metadata_csum());
    block_touched[i] = false;
  }
  E4_TRY(volume.seal());
  return changed;
}

Result<Releaser::Impl::Step> Releaser::Impl::one(Record& r, bool changed) {
  if (r.action == Action::erase && std::binary_search(tracked_ea.begin(), tracked_ea.end(), r.ino)) {
    const auto refs = ledger.ea_inodes.find(r.ino);
    if (refs != ledger.ea_inodes.end() && refs->second.all() > 0) {  // its turn came before the last referrer's
      r.action = Action::leave;
      r.reasons |= kReferenced;
      ++totals.left;
      if (r.source == Source::list) kept_before = r.ino;
      return Step::done;
    }
  }
  switch (r.action) {
    case Action::erase:
    case Action::truncate: {
      const auto raw = E4_TRY(inodes.edit(r.ino));
      E4_TRY(walk_mapping(volume, r.ino, InodeView(raw), mapping));
      if (!mapping.ok()) return make_error(ErrorKind::corrupt, mapping.problem).at_inode(r.ino);
      const std::uint64_t target = r.action == Action::erase ? 0 : end_block(geo, r.size_bytes);
      if (!mapping.runs.empty() || !mapping.meta.empty()) {
        std::vector<Run> all = mapping.runs;
        if (target != 0) mapping.runs = runs_from(geo, all, target).runs;
        if (volume.overlay().dirty_count() + cost() + r.ea_refs * kSmallCost > options.capacity_blocks) {
          if (changed) return Step::no_room;
          const std::size_t room = options.capacity_blocks - kSmallCost;
          const std::uint64_t part = end_that_fits(room / 3);
          if (part != ~std::uint64_t{0} && part > target && part > all.front().logical) {
            E4_TRY(shorten(r, raw, part));
            seal_inode(geo, r.ino, raw);
            return Step::part;
          }
        }
        mapping.runs = std::move(all);
      }
      E4_TRY(r.action == Action::erase ? erase(r) : truncate(r));
      break;
    }
    case Action::fix_links: E4_TRY(relink(r)); break;
    case Action::drop: ++totals.dropped; break;
    case Action::leave: break;
  }
  E4_TRY(untrack(r));
  return Step::done;
}

Result<bool> Releaser::Impl::finish() {
  if (!plan.file.repairable() || slots_left != 0 || !volume.orphan_present()) return false;
  E4_TRY(volume.set_orphan_present(false));
  return true;
}

Result<void> Releaser::Impl::erase_inode(Ino ino, std::span<std::byte> raw) {
  E4_TRY(volume.free_inode(ino, InodeView(raw).type() == kModeDir));
  set_size(raw, 0);
  set_held_bytes(geo, raw, 0);
  set_file_acl(raw, 0);
  clear_mapping(raw);
  set_dtime(raw, dtime);
  store<le16>(raw.data(), 0x1A, 0U);  // i_links_count
  seal_inode(geo, ino, raw);
  return {};
}

Result<void> Releaser::Impl::erase(Record& r) {
  const auto raw = E4_TRY(inodes.edit(r.ino));
  count_freed(E4_TRY(free_clusters(volume, mapping.runs, mapping.meta)));
  const InodeView inode(raw);
  E4_TRY(let_go_of_attributes(inode));
  if ((inode.flags() & kFlagEaInode) == 0) E4_TRY(discharge(r, inode.held_bytes(geo), 1 + std::uint64_t{r.ea_refs}));
  E4_TRY(erase_inode(r.ino, raw));
  ++totals.erased;
  return {};
}

Result<void> Releaser::Impl::let_go_of_attributes(const InodeView& inode) {
  if (geo.has_ea_inode()) {
    std::vector<Attribute> attributes;
    inode_attributes(inode, attributes);
    for (const Attribute& a : attributes)
      if (a.value_inum != 0) E4_TRY(let_go_of_ea_inode(a.value_inum));
  }
  if (inode.file_acl() != 0) E4_TRY(let_go_of_block(inode.file_acl()));
  return {};
}

Result<void> Releaser::Impl::let_go_of_block(Blk acl) {
  const auto it = ledger.xattr_blocks.find(acl);
  if (it == ledger.xattr_blocks.end() || it->second.orphans == 0)
    return make_error(ErrorKind::corrupt, "attribute block is not what it was when it was checked").at_block(acl);
  if (--it->second.orphans; it->second.all() > 0) {
    set_xattr_refcount(geo, acl, E4_TRY(volume.overlay().edit(acl)), it->second.all());
    return {};
  }
  if (geo.has_ea_inode()) {
    const auto view = E4_TRY(volume.overlay().view(acl));
    const std::vector<std::byte> block(view.begin(), view.end());
    std::vector<Attribute> attributes;
    block_attributes(block, attributes);
    for (const Attribute& a : attributes)
      if (a.value_inum != 0) E4_TRY(let_go_of_ea_inode(a.value_inum));
  }
  E4_TRY(volume.free_cluster(acl));
  count_freed(1);
  return {};
}

Result<void> Releaser::Impl::let_go_of_ea_inode(Ino ino) {
  const auto it = ledger.ea_inodes.find(ino);
  if (it == ledger.ea_inodes.end() || it->second.orphans == 0) return {};  // no sane attribute inode: it owned nothing
  --it->second.orphans;
  const auto raw = E4_TRY(inodes.edit(ino));
  const std::uint32_t refs = it->second.all();
  if (refs > 0) {
    set_ea_refcount(raw, refs);
    seal_inode(geo, ino, raw);
    return {};
  }
  // On the list or in the file itself: its own record's turn comes.
  if (std::binary_search(tracked_ea.begin(), tracked_ea.end(), ino)) return {};
  Mapping held;
  E4_TRY(walk_mapping(volume, ino, InodeView(raw), held));
  if (!held.ok()) return make_error(ErrorKind::corrupt, held.problem).at_inode(ino);
  count_freed(E4_TRY(free_clusters(volume, held.runs, held.meta)));
  set_ea_refcount(raw, 0);
  E4_TRY(erase_inode(ino, raw));
  ++totals.ea_inodes;
  return {};
}

Result<void> Releaser::Impl::shorten(Record& r, std::span<std::byte> raw, std::uint64_t end) {
  const std::uint64_t keep = runs_from(geo, mapping.runs, end).keep;
  const Cut cut = E4_TRY(cut_mapping(volume, r.ino, raw, end));
  const std::uint64_t clusters = E4_TRY(free_clusters(volume, cut.runs, cut.meta, keep));
  count_freed(clusters);
  const std::uint64_t held = InodeView(raw).held_bytes(geo);
  const std::uint64_t back = std::min(held, clusters * cluster_bytes());
  set_held_bytes(geo, raw, held - back);
  return discharge(r, back, 0);
}

Result<void> Releaser::Impl::truncate(Record& r) {
  const auto raw = E4_TRY(inodes.edit(r.ino));
  const InodeView inode(raw);
  if (inode.has_inline_data()) {
    E4_TRY(truncate_inline(raw));
  } else {
    const TailBlock tail = tail_block(geo, mapping, inode.size());
    // Without its key the last block of an encrypted file cannot be zeroed; nobody can read past i_size either.
    if (tail.block != 0 && (inode.flags() & kFlagEncrypt) == 0) E4_TRY(zero_tail(tail.block, tail.keep_bytes));
    E4_TRY(shorten(r, raw, end_block(geo, inode.size())));
  }
  set_dtime(raw, 0);
  seal_inode(geo, r.ino, raw);
  ++totals.truncated;
  return {};
}

Result<void> Releaser::Impl::truncate_inline(std::span<std::byte> raw) {
  const InodeView inode(raw);
  const std::uint64_t size = inode.size();
  std::vector<Attribute> attributes;
  inode_attributes(inode, attributes);
  const Attribute* data = find_inline_data(attributes);
  if (data != nullptr && data->value_bytes > 0) {
    const std::uint64_t keep = std::min<std::uint64_t>(size > 60 ? size - 60 : 0, data->value_bytes);
    std::memset(raw.data() + data->value_offset + keep, 0, data->value_bytes - keep);
    rehash_attribute(raw, *data);
  }
  if (size < 60) std::memset(raw.data() + 0x28 + size, 0, 60 - size);
  return {};
}

Result<void> Releaser::Impl::zero_tail(Blk block, std::uint32_t keep_bytes) {
  const auto data = E4_TRY(volume.overlay().view(block)).subspan(keep_bytes);
  if (std::all_of(data.begin(), data.end(), [](std::byte b) { return b == std::byte{0}; })) return {};
  const auto to = E4_TRY(volume.overlay().edit(block));
  std::memset(to.data() + keep_bytes, 0, to.size() - keep_bytes);
  return {};
}

Result<void> Releaser::Impl::relink(const Record& r) {
  const auto names = plan.paths.find(r.ino);
  if (names == plan.paths.end()) return make_error(ErrorKind::usage, "no names known").at_inode(r.ino);
  const auto raw = E4_TRY(inodes.edit(r.ino));
  store<le16>(raw.data(), 0x1A, names->second.size());  // i_links_count
  set_dtime(raw, 0);
  seal_inode(geo, r.ino, raw);
  ++totals.relinked;
  return {};
}

Result<void> Releaser::Impl::untrack(const Record& r) {
  switch (r.source) {
    case Source::list: return unlink_from_list(r);
    case Source::file: return clear_file_slot(r);
    case Source::unlisted: return {};
  }
  return {};
}

Result<void> Releaser::Impl::unlink_from_list(const Record& r) {
  Ino next = 0;
  if (!ends_list(r)) {
    if (r.slot + 1 < plan.list.inodes.size())
      next = plan.list.inodes[r.slot + 1];
    else if (plan.list.end == ListReport::End::unreadable)
      next = plan.list.bad;
    if (r.action == Action::drop) {  // a live inode: what was a pointer must not stay as a deletion time
      const auto raw = E4_TRY(inodes.edit(r.ino));
      set_dtime(raw, 0);
      seal_inode(geo, r.ino, raw);
    }
  }
  if (kept_before == 0) return volume.set_last_orphan(next);
  const auto raw = E4_TRY(inodes.edit(kept_before));
  set_dtime(raw, next);
  seal_inode(geo, kept_before, raw);
  return {};
}

Result<void> Releaser::Impl::clear_file_slot(const Record& r) {
  set_slot(E4_TRY(volume.overlay().edit(plan.file.blocks[r.block].physical)), r.slot, 0);
  block_touched[r.block] = true;
  if (slots_left > 0) --slots_left;
  return {};
}

Releaser::Releaser(Volume& volume, Plan& plan, ReleaseOptions options)
    : impl_(std::make_unique<Impl>(volume, plan, std::move(options))) {}
Releaser::~Releaser() = default;
Result<bool> Releaser::batch() { return impl_->batch(); }
const ReleaseTotals& Releaser::totals() const { return impl_->totals; }

Result<ReleaseTotals> release_all(Volume& volume, Plan& plan, const ReleaseOptions& options) {
  ReleaseOptions all = options;
  all.capacity_blocks = static_cast<std::size_t>(-1);
  Releaser releaser(volume, plan, all);
  while (E4_TRY(releaser.batch())) {
  }
  return releaser.totals();
}

}  // namespace e4::orphan
