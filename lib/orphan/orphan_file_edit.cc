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

/// Writes the extents into i_block, or into leaves below it. Returns how many tree blocks it took.
Result<std::uint32_t> write_extents(Volume& volume, std::uint32_t seed, std::span<std::byte> raw, const std::vector<Run>& runs) {
  const auto i_block = raw.subspan(0x28, 60);
  ExtentNode<std::byte> root(i_block);
  if (runs.size() <= kRootExtents) {
    root.put_header(header(runs.size(), kRootExtents, 0));
    for (std::uint32_t i = 0; i < runs.size(); ++i) root.put_extent(i, to_extent(runs[i]));
    return 0;
  }
  const Geometry& geo = volume.geo();
  const std::uint32_t max = (geo.block_bytes - 12 - 4) / 12;
  const auto leaves = static_cast<std::uint32_t>((runs.size() + max - 1) / max);
  if (leaves > kRootExtents) return make_error(ErrorKind::no_space, "free space is too scattered for an orphan file");
  root.put_header(header(leaves, kRootExtents, 1));
  for (std::uint32_t l = 0; l < leaves; ++l) {
    const Blk where = E4_TRY(volume.allocate_cluster(runs[l * max].physical));
    ExtentIndex x{};
    x.ei_block = static_cast<std::uint32_t>(runs[l * max].logical);
    x.ei_leaf_lo = static_cast<std::uint32_t>(where);
    x.ei_leaf_hi = static_cast<std::uint16_t>(where >> 32);
    std::memcpy(i_block.data() + 12 + l * 12, &x, sizeof x);
    const auto block = E4_TRY(volume.overlay().create(where));
    ExtentNode<std::byte> leaf(block);
    const std::uint32_t n = std::min<std::uint32_t>(max, static_cast<std::uint32_t>(runs.size()) - l * max);
    leaf.put_header(header(n, max, 0));
    for (std::uint32_t i = 0; i < n; ++i) leaf.put_extent(i, to_extent(runs[l * max + i]));
    if (geo.metadata_csum()) {
      const std::size_t at = 12 + std::size_t{max} * 12;
      store<le32>(block.data(), at, crc32c(seed, std::span<const std::byte>(block).first(at)));
    }
  }
  return leaves;
}

/// The same as a block map; 512 blocks never need more than a double-indirect block.
Result<std::uint32_t> write_block_map(Volume& volume, std::span<std::byte> raw, const std::vector<Run>& runs) {
  const Geometry& geo = volume.geo();
  const std::uint32_t per = geo.block_bytes / 4;
  std::uint32_t meta = 0;
  Blk indirect[2] = {0, 0};  // the block being filled, and the double-indirect one
  const auto fresh = [&](std::byte* pointer) -> Result<Blk> {
    const Blk b = E4_TRY(volume.allocate_cluster(runs.front().physical));
    E4_TRY(volume.overlay().create(b));
    store<le32>(pointer, 0, b);
    ++meta;
    return b;
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
        indirect[0] = E4_TRY(fresh(i_block + std::size_t{12} * 4));
      } else if (at >= per) {
        at -= per;
        if (at == 0) indirect[1] = E4_TRY(fresh(i_block + std::size_t{13} * 4));
        if (at % per == 0) {
          const auto table = E4_TRY(volume.overlay().edit(indirect[1]));
          indirect[0] = E4_TRY(fresh(table.data() + at / per * 4));
        }
      }
      store<le32>(E4_TRY(volume.overlay().edit(indirect[0])).data(), at % per * 4, r.physical + i);
    }
  return meta;
}

struct NewFile {
  Ino ino = 0;
  std::vector<Run> runs;
};

/// Inode and empty blocks; nothing points to them yet.
Result<NewFile> build(Volume& volume, std::uint32_t blocks, std::uint64_t now) {
  const Geometry& geo = volume.geo();
  NewFile file;
  file.ino = E4_TRY(volume.allocate_inode(0));
  file.runs = E4_TRY(allocate_runs(volume, blocks));
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
  std::uint32_t meta = 0;
  if (geo.has_extents()) {
    store<le32>(raw.data(), 0x20, kFlagExtents);
    meta = E4_TRY(write_extents(volume, seed, raw, file.runs));
  } else {
    meta = E4_TRY(write_block_map(volume, raw, file.runs));
  }
  const std::uint64_t clusters = (blocks + geo.cluster_blocks - 1) / geo.cluster_blocks + meta;
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
