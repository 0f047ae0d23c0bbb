// SPDX-License-Identifier: GPL-2.0-only
#include <fmt/core.h>

#include <algorithm>

#include "base/endian.h"
#include "check/inode_edit.h"
#include "check/session.h"
#include "orphan/classify.h"
#include "orphan/orphan_file.h"
#include "orphan/volume.h"

// The orphan file itself, before and after its entries are dealt with. The
// kernel reads every block of it on every mount and refuses the mount when one
// is damaged, whether or not orphan_present is set, so it is always read here.
//
// It must prove itself before a byte of it is written: regular, allocated, not
// reserved, dense, magic in every block. An inode that does not is not touched,
// whatever the superblock says; then the real orphan file is looked for, and
// if there is none the feature is dropped.
namespace e4::check {

using orphan::FileReport;
using report::arg;

namespace {

std::string why(std::uint32_t faults) {
  std::string s;
  for (const std::string_view n : orphan::file_fault_names(faults)) s += (s.empty() ? "" : ", ") + std::string(n);
  return s.empty() ? "no block of it has the magic" : s;
}

// Offsets in the raw inode (ext4_fs.h, struct ext4_inode).
constexpr std::size_t kMode = 0x00, kSizeLow = 0x04, kLinks = 0x1A, kSectors = 0x1C, kFlags = 0x20, kBlock = 0x28, kSizeHigh = 0x6C;
constexpr std::uint32_t kExtentsFlag = 0x80000;
constexpr std::uint32_t kImpossibleFlags = 0x10000000 | 0x40000000 | 0x200000;  // inline data, casefold, EA inode

/// Blocks from the start of the file that are mapped without a hole and have the magic.
std::uint64_t dense_blocks(const FileReport& r) {
  std::uint64_t n = 0;
  for (const orphan::BlockVerdict& b : r.blocks) {
    if (b.logical != n || !b.magic_ok) break;
    ++n;
  }
  return n;
}

class OrphanFile {
 public:
  OrphanFile(Session& s, orphan::Volume& v) : s_(s), v_(v) {}

  /// One look and at most one repair. True: something was repaired, look again.
  Result<bool> before() {
    const FileReport r = E4_TRY(orphan::inspect_orphan_file(v_));
    if (!r.feature) return without_feature();
    constexpr std::uint32_t kNotIt = orphan::kFileNoInode | orphan::kFileReserved | orphan::kFileFree;
    if ((r.faults & kNotIt) != 0) return not_an_orphan_file(r);
    constexpr std::uint32_t kInode = orphan::kFileNotRegular | orphan::kFileLinks | orphan::kFileCsum | orphan::kFileFlags |
                                     orphan::kFileSize | orphan::kFileHole | orphan::kFileMapping;
    if ((r.faults & kInode) != 0 || E4_TRY(impossible_flags(r.ino))) {
      switch (E4_TRY(mend(r))) {
        case Mend::done: return true;
        case Mend::declined: return false;
        case Mend::not_ours: break;
      }
    }
    if (r.proved() || r.repairable()) return tails(r);
    if (E4_TRY(holds_nothing_else(r)) && E4_TRY(orphan::find_orphan_file(v_)) == 0) return recreate(r);
    return not_an_orphan_file(r);
  }

 private:
  enum class Mend : std::uint8_t { done, declined, not_ours };

  Result<bool> impossible_flags(Ino ino) {
    const auto place = E4_TRY(v_.inode_place(ino));
    const auto block = E4_TRY(v_.overlay().view(place.block));
    return (load<le32>(block.data(), place.offset + kFlags) & kImpossibleFlags) != 0;
  }

  /// Fields of the inode as an orphan file has them; `size_blocks` 0: as it is.
  Result<void> shape(Ino ino, std::uint64_t size_blocks) {
    return edit_inode(v_, ino, [&](std::span<std::byte> raw) {
      if ((load<le16>(raw.data(), kMode) & 0xF000) != 0x8000) store<le16>(raw.data(), kMode, 0100600);
      if (load<le16>(raw.data(), kLinks) == 0) store<le16>(raw.data(), kLinks, 1);
      const bool extents = load<le16>(raw.data(), kBlock) == 0xF30A;
      const std::uint32_t flags = load<le32>(raw.data(), kFlags);
      if ((flags & kImpossibleFlags) != 0 || ((flags & kExtentsFlag) != 0) != extents)
        store<le32>(raw.data(), kFlags, extents ? kExtentsFlag : 0);
      if (size_blocks == 0) return;
      const std::uint64_t bytes = size_blocks * v_.geo().block_bytes;
      store<le32>(raw.data(), kSizeLow, bytes & 0xFFFFFFFF);
      store<le32>(raw.data(), kSizeHigh, bytes >> 32);
    });
  }

  /// Tries what the inode would be with the fields an orphan file has. Kept
  /// only if every block then proves it; else every byte is put back.
  Result<Mend> mend(const FileReport& r) {
    const auto place = E4_TRY(v_.inode_place(r.ino));
    const auto before = E4_TRY(v_.overlay().view(place.block));
    const std::vector<std::byte> saved(before.begin(), before.end());
    const std::uint32_t bs = v_.geo().block_bytes;
    const std::uint64_t held_blocks = std::uint64_t{load<le32>(saved.data(), place.offset + kSectors)} * 512 / bs;
    const bool odd = r.size_bytes == 0 || r.size_bytes % bs != 0;
    E4_TRY(shape(r.ino, odd ? std::clamp<std::uint64_t>(held_blocks, 1, 4096) : 0));
    FileReport now = E4_TRY(orphan::inspect_orphan_file(v_));
    const std::uint64_t dense = dense_blocks(now);
    if ((now.faults & orphan::kFileHole) != 0 && dense != 0 && dense + 8 >= held_blocks) {
      E4_TRY(shape(r.ino, dense));
      now = E4_TRY(orphan::inspect_orphan_file(v_));
    }
    const bool ours = (now.proved() || now.repairable()) && (now.faults & (orphan::kFileSize | orphan::kFileLinks)) == 0;
    const bool yes = ours && ask(r, now);
    if (!yes) {
      const auto block = E4_TRY(v_.overlay().edit(place.block));
      std::copy(saved.begin(), saved.end(), block.begin());
    }
    return yes ? Mend::done : ours ? Mend::declined : Mend::not_ours;
  }

  bool ask(const FileReport& r, const FileReport& now) {
    const auto named = arg("named", std::uint64_t{r.ino});
    if (now.size_bytes != r.size_bytes)
      return s_.judge.found(Problem::orphan_size, {.ino = r.ino}, {named, arg("size", r.size_bytes), arg("bytes", now.size_bytes)});
    return s_.judge.found(Problem::orphan_inode, {.ino = r.ino}, {named, arg("why", r.faults == 0 ? "flags" : why(r.faults))});
  }

  /// Nothing but empty blocks and orphan blocks: no user's data is in there.
  Result<bool> holds_nothing_else(const FileReport& r) {
    constexpr std::uint32_t kHarmless = orphan::kFileMagic | orphan::kFileBlockCsum | orphan::kFileSize | orphan::kFileLinks |
                                        orphan::kFileHole | orphan::kFileTooBig | orphan::kFileNoJournal;
    if ((r.faults & ~kHarmless) != 0 || r.blocks.empty()) return false;
    for (const orphan::BlockVerdict& b : r.blocks) {
      const auto block = E4_TRY(v_.overlay().view(b.physical));
      if (!b.magic_ok && std::any_of(block.begin(), block.end(), [](std::byte x) { return x != std::byte{0}; })) return false;
    }
    return true;
  }

  /// A new file takes its place, and the old inode becomes an orphan itself.
  /// Only when nothing names it and its blocks are its own; else every byte
  /// that was tried is put back.
  Result<bool> recreate(const FileReport& r) {
    const orphan::Geometry geo = v_.geo();
    const auto place = E4_TRY(v_.inode_place(r.ino));
    const auto before = E4_TRY(v_.overlay().view(place.block));
    const std::vector<std::byte> saved(before.begin(), before.end());
    const SuperCopy super = E4_TRY(SuperCopy::read(v_.overlay()));
    E4_TRY(orphan::forget_orphan_file(v_));
    E4_TRY(edit_inode(v_, r.ino, [](std::span<std::byte> raw) { store<le16>(raw.data(), kLinks, 0); }));
    E4_TRY(put_on_list(v_, {r.ino}));
    const orphan::Plan plan = E4_TRY(orphan::classify(v_));
    const bool ours = plan.names_checked && std::any_of(plan.records.begin(), plan.records.end(), [&r](const orphan::Record& o) {
                        return o.ino == r.ino && o.action == orphan::Action::erase;
                      });
    if (!ours || !s_.judge.found(Problem::orphan_hole, {.ino = r.ino}, {arg("named", std::uint64_t{r.ino}), arg("why", why(r.faults))})) {
      const auto block = E4_TRY(v_.overlay().edit(place.block));
      std::copy(saved.begin(), saved.end(), block.begin());
      E4_TRY(super.write(v_.overlay()));
      v_ = E4_TRY(orphan::Volume::load(v_.overlay()));
      return ours ? Result<bool>(false) : not_an_orphan_file(r);
    }
    s_.unlisted_orphans = true;
    // Without room for it the feature stays off, which is as good a state.
    const std::uint32_t blocks = orphan::default_orphan_file_blocks(geo.blocks_count, geo.block_bytes, geo.cluster_blocks);
    auto made = orphan::create_orphan_file(v_, blocks, s_.options.now);
    if (!made && made.error().kind != ErrorKind::no_space) return Error(std::move(made).error());
    return true;
  }

  /// The feature bit is clear. A file that proves itself all the same gets it
  /// back: its entries are real, and without it the inode is a stray.
  Result<bool> without_feature() {
    const SuperCopy super = E4_TRY(SuperCopy::read(*s_.overlay));
    const bool present = v_.orphan_present();
    Ino ino = v_.orphan_file_inum();
    if (ino == 0 && present) ino = E4_TRY(orphan::find_orphan_file(v_));
    if (ino != 0 && ino <= v_.geo().inodes_count) {
      E4_TRY(v_.set_orphan_file(ino, true));
      const FileReport with = E4_TRY(orphan::inspect_orphan_file(v_));
      if (with.proved() && s_.judge.found(Problem::orphan_leftover, {.ino = ino}, {arg("named", std::uint64_t{ino})})) {
        E4_TRY(v_.seal());
        return true;
      }
      E4_TRY(v_.set_orphan_file(ino, false));
      E4_TRY(v_.seal());
      E4_TRY(super.write(*s_.overlay));
    }
    if (!present || !s_.judge.found(Problem::orphan_no_feature)) return false;
    E4_TRY(v_.set_orphan_present(false));
    E4_TRY(v_.seal());
    return true;
  }

  Result<bool> is_blank(Ino ino) {
    const auto place = E4_TRY(v_.inode_place(ino));
    const auto block = E4_TRY(v_.overlay().view(place.block));
    return load<le16>(block.data(), place.offset + kMode) == 0;
  }

  Result<bool> not_an_orphan_file(const FileReport& r) {
    const auto named = arg("named", std::uint64_t{r.ino});
    const auto reason = arg("why", why(r.faults));
    const Ino found = E4_TRY(orphan::find_orphan_file(v_));
    if (found != 0 && found != r.ino) {
      if (!s_.judge.found(Problem::orphan_file_found, {.ino = found}, {named, reason, arg("found", std::uint64_t{found})})) return false;
      E4_TRY(v_.set_orphan_file(found, true));
      E4_TRY(v_.seal());
      return true;
    }
    if (!s_.judge.found(Problem::orphan_file_lost, {.ino = r.ino}, {named, reason})) return false;
    E4_TRY(orphan::forget_orphan_file(v_));
    s_.unlisted_orphans = true;  // whoever was in it
    if ((r.faults & orphan::kFileNotRegular) != 0 && (r.faults & orphan::kFileFree) == 0 && E4_TRY(is_blank(r.ino)))
      s_.judge.found(Problem::orphan_stray, {.ino = r.ino}, {named});
    return true;
  }

  /// Magic and checksum of each block; a block without magic is emptied.
  Result<bool> tails(const FileReport& r) {
    bool yes = false;
    for (const orphan::BlockVerdict& b : r.blocks) {
      const report::Place place{.ino = r.ino, .block = b.physical};
      const auto named = arg("named", std::uint64_t{r.ino});
      const auto lblk = arg("lblk", std::uint64_t{b.logical});
      if (!b.magic_ok) {
        const bool empty = s_.judge.found(Problem::orphan_magic, place, {named, lblk});
        s_.unlisted_orphans = s_.unlisted_orphans || empty;
        yes = yes || empty;
      } else if (!b.checksum_ok || (!v_.geo().metadata_csum() && b.stored_checksum != 0)) {
        // The kernel does not look at a checksum that was left behind, but every other checker calls such a block not clean.
        yes = s_.judge.found(Problem::orphan_checksum, place,
                             {named, lblk, arg("stored", fmt::format("{:#010x}", b.stored_checksum)),
                              arg("computed", fmt::format("{:#010x}", b.computed_checksum))}) ||
              yes;
      }
    }
    if ((r.faults & orphan::kFileNamed) != 0)
      s_.judge.found(Problem::orphan_named_file, {.ino = r.ino}, {arg("named", std::uint64_t{r.ino})});
    if ((r.faults & orphan::kFileBlockOwner) != 0)
      s_.judge.found(Problem::orphan_block_owner, {.ino = r.ino}, {arg("named", std::uint64_t{r.ino})});
    if (!yes) return false;
    return E4_TRY(orphan::rewrite_orphan_file(v_, r)) != 0;
  }

  Session& s_;
  orphan::Volume& v_;
};

}  // namespace

Result<void> orphan_file_phase(Session& s) {
  // Each repair may change what the next look finds; three are enough for any
  // combination (which inode, its fields, its blocks), a fourth changes nothing.
  for (int round = 0; round < 4; ++round) {
    orphan::Volume v = E4_TRY(orphan::Volume::load(*s.overlay));
    if (!E4_TRY(OrphanFile(s, v).before())) break;
  }
  return {};
}

Result<void> orphan_file_after_phase(Session& s) {
  orphan::Volume v = E4_TRY(orphan::Volume::load(*s.overlay));
  const FileReport r = E4_TRY(orphan::inspect_orphan_file(v));
  const auto named = arg("named", std::uint64_t{r.ino});
  if (!r.feature) return {};
  if ((r.faults & orphan::kFileNoJournal) != 0) {
    if (s.judge.found(Problem::orphan_no_journal, {.ino = r.ino}, {named})) {
      if (r.proved() && r.used_slots == 0) return orphan::drop_orphan_file(v, s.options.now);
      if (!r.proved()) return orphan::forget_orphan_file(v);
    }
    return {};
  }
  if ((r.faults & orphan::kFileTooBig) != 0 && r.proved()) {
    const std::uint32_t limit = orphan::max_orphan_file_blocks(v.geo().block_bytes);
    if (s.judge.found(Problem::orphan_too_big, {.ino = r.ino},
                      {named, arg("blocks", r.size_bytes / v.geo().block_bytes), arg("limit", std::uint64_t{limit})}))
      return orphan::resize_orphan_file(v, orphan::clamp_orphan_file_blocks(limit, v.geo().block_bytes, v.geo().cluster_blocks),
                                        s.options.now);
    return {};
  }
  if (r.present && r.used_slots == 0 && r.proved()) {
    // After a crash this is the normal end of recovery, not a finding.
    if (s.recovered || s.verdict.orphans.released() != 0 || s.verdict.orphans.dropped != 0 ||
        s.judge.found(Problem::orphan_present_stale, {.ino = r.ino})) {
      E4_TRY(v.set_orphan_present(false));
      E4_TRY(v.seal());
    }
  }
  return {};
}

}  // namespace e4::check
