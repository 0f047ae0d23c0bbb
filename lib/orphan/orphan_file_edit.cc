// SPDX-License-Identifier: GPL-2.0-only
#include <algorithm>
#include <cstring>
#include <string>

#include "base/crc32c.h"
#include "orphan/extent.h"
#include "orphan/freeing.h"
#include "orphan/inode.h"
#include "orphan/mapping.h"
#include "orphan/orphan_file.h"
#include "orphan/ownership.h"

// Making, growing, shrinking and removing the orphan file, as edits of the
// overlay. A new file is always complete before the superblock names it, and
// an old one goes only after it has proved itself and that its blocks are its own.
namespace e4::orphan {
namespace {

constexpr std::uint32_t kRootExtents = 4;

/// Free clusters as runs of blocks, `blocks` in all: one run if there is one that long.
Result<std::vector<Run>> allocate_runs(Volume& volume, std::uint32_t blocks) {
  const Geometry& geo = volume.geo();
  std::vector<Run> runs;
  std::uint64_t logical = 0;
  Blk goal = volume.find_free_run((blocks + geo.cluster_blocks - 1) / geo.cluster_blocks);
  while (logical < blocks) {
    const Blk b = E4_TRY(volume.allocate_cluster(goal));
    const auto take = static_cast<std::uint32_t>(std::min<std::uint64_t>(geo.cluster_blocks, blocks - logical));
    if (!runs.empty() && runs.back().physical + runs.back().blocks == b)
      runs.back().blocks += take;
    else
      runs.push_back({logical, b, take, false});
    logical += take;
    goal = b + geo.cluster_blocks;
  }
  return runs;
}

Extent to_extent(const Run& r) {
  Extent e{};
  e.ee_block = static_cast<std::uint32_t>(r.logical);
  e.ee_len = static_cast<std::uint16_t>(r.blocks);
  e.ee_start_lo = static_cast<std::uint32_t>(r.physical);
  e.ee_start_hi = static_cast<std::uint16_t>(r.physical >> 32);
  return e;
}

ExtentHeader header(std::size_t entries, std::uint32_t max, std::uint16_t depth) {
  ExtentHeader h{};
  h.eh_magic = kExtentMagic;
  h.eh_entries = static_cast<std::uint16_t>(entries);
  h.eh_max = static_cast<std::uint16_t>(max);
  h.eh_depth = depth;
  return h;
}

std::uint32_t leaf_entries(const Geometry& geo) { return (geo.block_bytes - 12 - 4) / 12; }

/// Tree and indirect blocks a file of these runs needs.
Result<std::vector<Blk>> allocate_meta(Volume& volume, const std::vector<Run>& runs, std::uint32_t blocks) {
  const Geometry& geo = volume.geo();
  std::uint32_t n = 0;
  if (geo.has_extents()) {
    const std::uint32_t max = leaf_entries(geo);
    n = runs.size() <= kRootExtents ? 0 : static_cast<std::uint32_t>((runs.size() + max - 1) / max);
    if (n > kRootExtents) return make_error(ErrorKind::no_space, "free space is too scattered for an orphan file");
  } else if (blocks > 12) {
    const std::uint32_t per = geo.block_bytes / 4, rest = blocks - 12;
    n = 1 + (rest > per ? 1 + (rest - per + per - 1) / per : 0);
  }
  std::vector<Blk> meta;
  for (std::uint32_t i = 0; i < n; ++i) meta.push_back(E4_TRY(volume.allocate_cluster(runs.front().physical)));
  return meta;
}

/// Writes the extents into i_block, or into leaves below it (`meta`).
Result<void> write_extents(Volume& volume, std::uint32_t seed, std::span<std::byte> raw, const std::vector<Run>& runs,
                           const std::vector<Blk>& meta) {
  const auto i_block = raw.subspan(0x28, 60);
  ExtentNode<std::byte> root(i_block);
  if (meta.empty()) {
    root.put_header(header(runs.size(), kRootExtents, 0));
    for (std::uint32_t i = 0; i < runs.size(); ++i) root.put_extent(i, to_extent(runs[i]));
    return {};
  }
  const std::uint32_t max = leaf_entries(volume.geo());
  root.put_header(header(meta.size(), kRootExtents, 1));
  for (std::uint32_t l = 0; l < meta.size(); ++l) {
    ExtentIndex x{};
    x.ei_block = static_cast<std::uint32_t>(runs[l * max].logical);
    x.ei_leaf_lo = static_cast<std::uint32_t>(meta[l]);
    x.ei_leaf_hi = static_cast<std::uint16_t>(meta[l] >> 32);
    std::memcpy(i_block.data() + 12 + std::size_t{l} * 12, &x, sizeof x);
    const auto block = E4_TRY(volume.overlay().create(meta[l]));
    ExtentNode<std::byte> leaf(block);
    const std::uint32_t n = std::min<std::uint32_t>(max, static_cast<std::uint32_t>(runs.size()) - l * max);
    leaf.put_header(header(n, max, 0));
    for (std::uint32_t i = 0; i < n; ++i) leaf.put_extent(i, to_extent(runs[l * max + i]));
    if (volume.geo().metadata_csum()) {
      const std::size_t at = 12 + std::size_t{max} * 12;
      store<le32>(block.data(), at, crc32c(seed, std::span<const std::byte>(block).first(at)));
    }
  }
  return {};
}

/// The same as a block map; 512 blocks never need more than a double-indirect block.
Result<void> write_block_map(Volume& volume, std::span<std::byte> raw, const std::vector<Run>& runs,
                             const std::vector<Blk>& meta) {
  const std::uint32_t per = volume.geo().block_bytes / 4;
  std::size_t used = 0;
  std::span<std::byte> filling, doubly;
  const auto fresh = [&](std::byte* pointer) -> Result<std::span<std::byte>> {
    const Blk b = meta[used++];
    store<le32>(pointer, 0, b);
    return volume.overlay().create(b);
  };
  std::byte* i_block = raw.data() + 0x28;
  for (const Run& r : runs)
    for (std::uint32_t i = 0; i < r.blocks; ++i) {
      const std::uint64_t l = r.logical + i;
      if (l < 12) {
        store<le32>(i_block, l * 4, r.physical + i);
        continue;
      }
      std::uint64_t at = l - 12;
      if (at == 0) {
        filling = E4_TRY(fresh(i_block + std::size_t{12} * 4));
      } else if (at >= per) {
        at -= per;
        if (at == 0) doubly = E4_TRY(fresh(i_block + std::size_t{13} * 4));
        if (at % per == 0) filling = E4_TRY(fresh(doubly.data() + at / per * 4));
      }
      store<le32>(filling.data(), at % per * 4, r.physical + i);
    }
  return {};
}

struct NewFile {
  Ino ino = 0;
  std::vector<Run> runs;
};

/// The bitmaps said these are free; the inodes must say so too, or a file would be overwritten.
Result<void> prove_free(Volume& volume, const NewFile& file, const Mapping& mapping) {
  const auto refuse = [](const std::string& why) {
    return make_error(ErrorKind::corrupt, why + ": run e4fsck first");
  };
  const auto old = E4_TRY(InodeTable(volume).view(file.ino));
  const GroupNo g = volume.geo().group_of_inode(file.ino);
  const bool ever_used = (file.ino - 1) % volume.geo().inodes_per_group + volume.group(g).itable_unused + 1 <
                         volume.geo().inodes_per_group;
  if (ever_used && InodeView(old).links() != 0)
    return refuse("inode " + std::to_string(file.ino) + " has links, and the bitmap calls it free");
  InodeSet nobody(volume.geo().inodes_count);
  nobody.insert(file.ino);
  Ownership own(volume);
  Ledger ledger;
  std::uint64_t last = kNoCluster;
  for (const Run& r : mapping.runs) own.claim(r.physical, r.blocks, last);
  for (const Blk b : mapping.meta) own.claim(b, 1, last);
  const ScanResult scan = E4_TRY(scan_others(volume, nobody, true, own, ledger));
  if (!scan.complete) return refuse(scan.obstacles.empty() ? "ownership of blocks is not certain" : scan.obstacles.front());
  if (own.any_contest()) return refuse("the block bitmap calls blocks free that are in use");
  return {};
}

/// Inode and empty blocks; nothing points to them yet.
Result<NewFile> build(Volume& volume, std::uint32_t blocks, std::uint64_t now) {
  const Geometry& geo = volume.geo();
  NewFile file;
  file.ino = E4_TRY(volume.allocate_inode(0));
  Mapping mapping;
  file.runs = mapping.runs = E4_TRY(allocate_runs(volume, blocks));
  const std::vector<Blk> meta = mapping.meta = E4_TRY(allocate_meta(volume, file.runs, blocks));
  E4_TRY(prove_free(volume, file, mapping));
  // A newly allocated inode is written, never read: there may be anything in its place.
  const auto raw = E4_TRY(InodeTable(volume).edit(file.ino));
  std::fill(raw.begin(), raw.end(), std::byte{0});
  store<le16>(raw.data(), 0x00, kModeRegular | 0600U);
  set_size(raw, std::uint64_t{blocks} * geo.block_bytes);
  for (const std::size_t at : {0x08U, 0x0CU, 0x10U}) store<le32>(raw.data(), at, now);
  store<le16>(raw.data(), 0x1A, 1U);
  if (raw.size() > 128) {
    const std::uint32_t room = static_cast<std::uint32_t>(raw.size()) - 128;
    const std::uint32_t extra = std::min<std::uint32_t>(geo.want_extra_isize >= 32 ? geo.want_extra_isize & ~3U : 32, room);
    store<le16>(raw.data(), 0x80, extra);
    if (extra >= 20) store<le32>(raw.data(), 0x90, now);  // i_crtime
  }
  const std::uint32_t seed = inode_csum_seed(geo.csum_seed, file.ino, 0);
  if (geo.has_extents()) {
    store<le32>(raw.data(), 0x20, kFlagExtents);
    E4_TRY(write_extents(volume, seed, raw, file.runs, meta));
  } else {
    E4_TRY(write_block_map(volume, raw, file.runs, meta));
  }
  const std::uint64_t clusters = (blocks + geo.cluster_blocks - 1) / geo.cluster_blocks + meta.size();
  set_held_bytes(geo, raw, clusters * geo.cluster_blocks * geo.block_bytes);
  seal_inode(geo, file.ino, raw);
  for (const Run& r : file.runs)
    for (std::uint32_t i = 0; i < r.blocks; ++i)
      seal_orphan_block(E4_TRY(volume.overlay().create(r.physical + i)), seed, r.physical + i, geo.metadata_csum());
  return file;
}

/// Inode and blocks back to the free ones. They have been proved to be its own.
Result<void> dismantle(Volume& volume, const FileReport& report, std::uint64_t now) {
  const Geometry& geo = volume.geo();
  const auto raw = E4_TRY(InodeTable(volume).edit(report.ino));
  Mapping mapping;
  E4_TRY(walk_mapping(volume, report.ino, InodeView(raw), mapping));
  E4_TRY(free_clusters(volume, mapping.runs, mapping.meta));
  E4_TRY(volume.free_inode(report.ino, false));
  set_size(raw, 0);
  set_held_bytes(geo, raw, 0);
  clear_mapping(raw);
  store<le16>(raw.data(), 0x1A, 0U);
  set_dtime(raw, static_cast<std::uint32_t>(std::min<std::uint64_t>(std::max<std::uint64_t>(now, geo.inodes_count), ~0U)));
  seal_inode(geo, report.ino, raw);
  return {};
}

/// An orphan file that is one, and whose blocks nobody else holds.
Result<FileReport> prove_own(Volume& volume) {
  FileReport report = E4_TRY(inspect_orphan_file(volume));
  const auto refuse = [&](const std::string& why) {
    return make_error(ErrorKind::corrupt, "the orphan file cannot be freed: " + why).at_inode(report.ino);
  };
  if (!report.feature) return make_error(ErrorKind::usage, "the file system has no orphan file");
  if (!report.proved()) {
    std::string why;
    for (const auto name : file_fault_names(report.faults)) why += (why.empty() ? "" : ", ") + std::string(name);
    return refuse(why.empty() ? "it has no blocks" : why);
  }
  InodeSet candidate(volume.geo().inodes_count);
  candidate.insert(report.ino);
  Ownership own(volume);
  Ledger ledger;
  const auto view = E4_TRY(InodeTable(volume).view(report.ino));
  const std::vector<std::byte> raw(view.begin(), view.end());
  Mapping mapping;
  E4_TRY(walk_mapping(volume, report.ino, InodeView(raw), mapping));
  std::uint64_t last = kNoCluster;
  for (const Run& r : mapping.runs) own.claim(r.physical, r.blocks, last);
  for (const Blk b : mapping.meta) own.claim(b, 1, last);
  const ScanResult scan = E4_TRY(scan_others(volume, candidate, true, own, ledger));
  if (!scan.complete) return refuse("ownership could not be proved: " + (scan.obstacles.empty() ? "" : scan.obstacles.front()));
  if (own.any_contest()) return refuse("another inode, or metadata, holds blocks of it");
  return report;
}

}  // namespace

Result<Ino> create_orphan_file(Volume& volume, std::uint32_t blocks, std::uint64_t now) {
  if (blocks == 0 || blocks > max_orphan_file_blocks(volume.geo().block_bytes))
    return make_error(ErrorKind::usage, "an orphan file has 1 to " +
                                            std::to_string(max_orphan_file_blocks(volume.geo().block_bytes)) + " blocks here");
  if (!volume.geo().has_journal()) return make_error(ErrorKind::usage, "an orphan file needs a journal");
  const NewFile file = E4_TRY(build(volume, blocks, now));
  E4_TRY(volume.set_orphan_file(file.ino, true));
  E4_TRY(volume.set_orphan_present(false));
  E4_TRY(volume.seal());
  return file.ino;
}

Result<void> resize_orphan_file(Volume& volume, std::uint32_t blocks, std::uint64_t now) {
  const FileReport old = E4_TRY(prove_own(volume));
  const Geometry& geo = volume.geo();
  if (blocks == 0 || blocks > max_orphan_file_blocks(geo.block_bytes))
    return make_error(ErrorKind::usage, "an orphan file has 1 to " + std::to_string(max_orphan_file_blocks(geo.block_bytes)) +
                                            " blocks here");
  if (old.used_slots > std::uint64_t{blocks} * slots_per_block(geo.block_bytes))
    return make_error(ErrorKind::usage, std::to_string(old.used_slots) + " pending orphans do not fit into " +
                                            std::to_string(blocks) + " blocks");
  std::vector<Ino> pending;
  for (const BlockVerdict& v : old.blocks) {
    const OrphanBlock look(E4_TRY(volume.overlay().view(v.physical)));
    for (std::uint32_t i = 0; i < look.slots(); ++i)
      if (look.slot(i) != 0) pending.push_back(look.slot(i));
  }
  const NewFile file = E4_TRY(build(volume, blocks, now));
  const std::uint32_t seed = inode_csum_seed(geo.csum_seed, file.ino, 0), per = slots_per_block(geo.block_bytes);
  std::size_t next = 0;
  for (const Run& r : file.runs)
    for (std::uint32_t i = 0; i < r.blocks && next < pending.size(); ++i) {
      const auto block = E4_TRY(volume.overlay().edit(r.physical + i));
      for (std::uint32_t s = 0; s < per && next < pending.size(); ++s) set_slot(block, s, pending[next++]);
      seal_orphan_block(block, seed, r.physical + i, geo.metadata_csum());
    }
  E4_TRY(volume.set_orphan_file(file.ino, true));
  E4_TRY(dismantle(volume, old, now));
  return volume.seal();
}

Result<void> drop_orphan_file(Volume& volume, std::uint64_t now) {
  const FileReport old = E4_TRY(prove_own(volume));
  if (old.used_slots != 0)
    return make_error(ErrorKind::busy, std::to_string(old.used_slots) + " orphans wait in the orphan file").at_inode(old.ino);
  E4_TRY(dismantle(volume, old, now));
  return forget_orphan_file(volume);
}

Result<void> forget_orphan_file(Volume& volume) {
  E4_TRY(volume.set_orphan_file(0, false));
  E4_TRY(volume.set_orphan_present(false));
  return volume.seal();
}

}  // namespace e4::orphan
