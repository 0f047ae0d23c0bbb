// SPDX-License-Identifier: GPL-2.0-only
#include "orphan/orphan_file.h"

#include <algorithm>
#include <array>

#include "orphan/mapping.h"
#include "orphan/ownership.h"
#include "orphan/record.h"
#include "orphan/validity.h"

// Looking at the orphan file. What it takes to be believed: see FileReport.
namespace e4::orphan {
namespace {

/// Oversized files are looked at this far; the rest is only counted.
constexpr std::uint64_t kBlocksLookedAtMax = 4096;

/// Faults that make the named inode something else than an orphan file.
constexpr std::uint32_t kDisproof = kFileNoInode | kFileReserved | kFileFree | kFileNotRegular | kFileCsum | kFileFlags |
                                    kFileHole | kFileMapping | kFileNamed | kFileNoFeature | kFileBlockOwner;

class Inspection {
 public:
  Inspection(Volume& volume, Ino ino, FileReport& out) : volume_(volume), geo_(volume.geo()), ino_(ino), out_(out) {}

  Result<void> run() {
    if (ino_ == 0 || ino_ > geo_.inodes_count) return fault(kFileNoInode);
    if (ino_ < geo_.first_ino || ino_ == geo_.journal_inum || ino_ == geo_.usr_quota_inum ||
        ino_ == geo_.grp_quota_inum || ino_ == geo_.prj_quota_inum)
      return fault(kFileReserved);
    const auto used = volume_.inode_in_use(ino_);
    if (!used || !*used) E4_TRY(fault(kFileFree));
    const auto view = InodeTable(volume_).view(ino_);
    if (!view) return fault(kFileMapping);
    const std::vector<std::byte> raw(view->begin(), view->end());
    const InodeView inode(raw);
    out_.generation = inode.generation();
    out_.size_bytes = inode.size();
    if (!inode_checksum_ok(geo_, ino_, raw)) E4_TRY(fault(kFileCsum));
    if (inode.type() != kModeRegular) return fault(kFileNotRegular);
    if (inode.links() == 0) E4_TRY(fault(kFileLinks));
    if (inode.has_inline_data()) return fault(kFileFlags);
    if (inode.size() == 0 || inode.size() % geo_.block_bytes != 0) E4_TRY(fault(kFileSize));
    const std::uint64_t blocks = inode.size() / geo_.block_bytes;
    if (blocks > max_orphan_file_blocks(geo_.block_bytes)) E4_TRY(fault(kFileTooBig));
    Mapping mapping;
    E4_TRY(walk_mapping(volume_, ino_, inode, mapping));
    if (!mapping.ok()) return fault(kFileMapping);
    E4_TRY(owners(mapping));
    return look_at(mapping, std::min(blocks, kBlocksLookedAtMax));
  }

 private:
  Result<void> fault(FileFault f) {
    out_.faults |= f;
    return {};
  }

  Result<void> owners(const Mapping& mapping) {
    Ownership own(volume_);
    std::uint64_t last = ~std::uint64_t{0};
    for (const Run& r : mapping.runs) {
      own.claim(r.physical, r.blocks, last);
      for (std::uint32_t i = 0; i < r.blocks; i += geo_.cluster_blocks) {
        const auto used = volume_.cluster_in_use(r.physical + i);
        if (!used || !*used) return fault(kFileBlockOwner);
      }
    }
    for (const Blk b : mapping.meta) own.claim(b, 1, last);
    if (own.any_contest()) return fault(kFileBlockOwner);
    return {};
  }

  Result<void> look_at(const Mapping& mapping, std::uint64_t blocks) {
    const std::uint32_t seed = inode_csum_seed(geo_.csum_seed, ino_, out_.generation);
    std::uint64_t next = 0;
    for (const Run& r : mapping.runs) {
      if (next >= blocks) break;
      if (r.logical != next || r.unwritten) return fault(kFileHole);
      for (std::uint32_t i = 0; i < r.blocks && next < blocks; ++i, ++next)
        E4_TRY(block(static_cast<Lblk>(next), r.physical + i, seed));
    }
    if (next < blocks) return fault(kFileHole);
    return {};
  }

  Result<void> block(Lblk logical, Blk physical, std::uint32_t seed) {
    const auto raw = E4_TRY(volume_.overlay().view(physical));
    const OrphanBlock look(raw);
    BlockVerdict v{logical, physical};
    v.magic_ok = look.magic() == kOrphanBlockMagic;
    v.stored_checksum = look.stored_checksum();
    v.computed_checksum = geo_.metadata_csum() ? orphan_block_checksum(seed, physical, raw) : 0;
    v.checksum_ok = !geo_.metadata_csum() || v.stored_checksum == v.computed_checksum;
    for (std::uint32_t i = 0; i < look.slots(); ++i) v.used_slots += look.slot(i) != 0 ? 1 : 0;
    if (!v.magic_ok) out_.faults |= kFileMagic;
    if (!v.checksum_ok) out_.faults |= kFileBlockCsum;
    if (v.magic_ok) out_.used_slots += v.used_slots;
    out_.blocks.push_back(v);
    return {};
  }

  Volume& volume_;
  const Geometry& geo_;
  Ino ino_;
  FileReport& out_;
};

}  // namespace

std::vector<std::string_view> file_fault_names(std::uint32_t faults) {
  static constexpr std::array<std::string_view, 17> kNames = {
      "no-inode", "reserved", "free", "not-regular", "links-0", "inode-checksum", "flags", "size", "hole",
      "mapping", "too-big", "magic", "block-checksum", "named", "no-journal", "no-feature", "block-owner"};
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if ((faults >> i & 1) != 0) names.push_back(kNames[i]);
  return names;
}

std::uint32_t FileReport::blocks_with_magic() const {
  return static_cast<std::uint32_t>(std::count_if(blocks.begin(), blocks.end(), [](const auto& b) { return b.magic_ok; }));
}

bool FileReport::proved() const { return !blocks.empty() && (faults & (kDisproof | kFileMagic)) == 0; }

bool FileReport::repairable() const {
  return !blocks.empty() && (faults & kDisproof) == 0 && std::size_t{blocks_with_magic()} * 2 > blocks.size();
}

Result<FileReport> inspect_orphan_file(Volume& volume) {
  FileReport report;
  report.feature = volume.geo().has_orphan_file();
  report.present = volume.orphan_present();
  report.ino = volume.orphan_file_inum();
  if (!report.feature) {
    if (report.present) report.faults |= kFileNoFeature;
    return report;
  }
  if (!volume.geo().has_journal()) report.faults |= kFileNoJournal;
  E4_TRY(Inspection(volume, report.ino, report).run());
  return report;
}

Result<Ino> find_orphan_file(Volume& volume) {
  const Geometry& geo = volume.geo();
  std::vector<Ino> likely;
  E4_TRY(for_each_inode(
      volume,
      [&](Ino ino, std::span<const std::byte> raw, bool bit) -> Result<void> {
        const InodeView inode(raw);
        if (bit && ino >= geo.first_ino && inode.type() == kModeRegular && inode.links() == 1 && inode.uid() == 0 &&
            inode.size() != 0 && inode.size() % geo.block_bytes == 0 &&
            inode.size() / geo.block_bytes <= max_orphan_file_blocks(geo.block_bytes))
          likely.push_back(ino);
        return {};
      },
      [](const std::string&) {}));
  for (const Ino ino : likely) {
    FileReport report;
    E4_TRY(Inspection(volume, ino, report).run());
    if (report.proved() && report.faults == 0) return ino;
  }
  return Ino{0};
}

std::uint32_t number_reasons(const Volume& volume, Ino ino) {
  const Geometry& geo = volume.geo();
  if (ino == 0 || ino > geo.inodes_count) return kRange;
  if (ino < geo.first_ino) return kReserved;
  const bool special = (geo.has_orphan_file() && ino == volume.orphan_file_inum()) || ino == geo.journal_inum || ino == geo.usr_quota_inum ||
                       ino == geo.grp_quota_inum || ino == geo.prj_quota_inum;
  return special ? kSpecial : 0U;
}

Result<std::uint32_t> rewrite_orphan_file(Volume& volume, const FileReport& report) {
  if (!report.repairable())
    return make_error(ErrorKind::corrupt, "this is not proved to be an orphan file").at_inode(report.ino);
  const Geometry& geo = volume.geo();
  const std::uint32_t seed = inode_csum_seed(geo.csum_seed, report.ino, report.generation);
  std::uint32_t changed = 0;
  for (const BlockVerdict& v : report.blocks) {
    // Without metadata_csum a left-over checksum is legal for the kernel, but not canonical: make it 0.
    const bool stale = !geo.metadata_csum() && v.stored_checksum != 0;
    if (v.magic_ok && v.checksum_ok && !stale) continue;
    const auto block = v.magic_ok ? E4_TRY(volume.overlay().edit(v.physical)) : E4_TRY(volume.overlay().create(v.physical));
    seal_orphan_block(block, seed, v.physical, geo.metadata_csum());
    ++changed;
  }
  return changed;
}

Result<SlotPlace> claim_slot(Volume& volume, const FileReport& report, Ino ino) {
  if (!report.proved()) return make_error(ErrorKind::corrupt, "the orphan file is damaged").at_inode(report.ino);
  const Geometry& geo = volume.geo();
  const std::uint32_t seed = inode_csum_seed(geo.csum_seed, report.ino, report.generation);
  for (const BlockVerdict& v : report.blocks) {
    const auto look = OrphanBlock(E4_TRY(volume.overlay().view(v.physical)));
    for (std::uint32_t i = 0; i < look.slots(); ++i) {
      if (look.slot(i) != 0) continue;
      const auto block = E4_TRY(volume.overlay().edit(v.physical));
      set_slot(block, i, ino);
      seal_orphan_block(block, seed, v.physical, geo.metadata_csum());
      E4_TRY(volume.set_orphan_present(true));
      E4_TRY(volume.seal());
      return SlotPlace{v.logical, i};
    }
  }
  return make_error(ErrorKind::no_space, "the orphan file is full").at_inode(report.ino);
}

Result<void> clear_slot(Volume& volume, const FileReport& report, SlotPlace place) {
  const Geometry& geo = volume.geo();
  if (place.block >= report.blocks.size() || place.slot >= slots_per_block(geo.block_bytes) ||
      !report.blocks[place.block].magic_ok)
    return make_error(ErrorKind::usage, "no such slot").at_inode(report.ino);
  const Blk physical = report.blocks[place.block].physical;
  const auto block = E4_TRY(volume.overlay().edit(physical));
  set_slot(block, place.slot, 0);
  seal_orphan_block(block, inode_csum_seed(geo.csum_seed, report.ino, report.generation), physical, geo.metadata_csum());
  return {};
}

}  // namespace e4::orphan
