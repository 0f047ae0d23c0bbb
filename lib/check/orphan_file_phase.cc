// SPDX-License-Identifier: GPL-2.0-only
#include <fmt/core.h>

#include "base/endian.h"
#include "check/inode_edit.h"
#include "check/session.h"
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

/// Changes fields of the orphan file's inode.
struct InodeFix {
  std::optional<std::uint64_t> size_bytes = {};
  bool one_link = false;
};
Result<void> fix_inode(orphan::Volume& v, Ino ino, const InodeFix& fix) {
  return edit_inode(v, ino, [&fix](std::span<std::byte> raw) {
    if (fix.size_bytes) {
      store<le32>(raw.data(), 0x04, *fix.size_bytes);
      store<le32>(raw.data(), 0x6C, *fix.size_bytes >> 32);
    }
    if (fix.one_link) store<le16>(raw.data(), 0x1A, 1);
  });
}

class OrphanFile {
 public:
  OrphanFile(Session& s, orphan::Volume& v) : s_(s), v_(v) {}

  /// One look and at most one repair. True: something was repaired, look again.
  Result<bool> before() {
    const FileReport r = E4_TRY(orphan::inspect_orphan_file(v_));
    const auto named = arg("named", std::uint64_t{r.ino});
    if (!r.feature) return without_feature(r);
    constexpr std::uint32_t kNotIt = orphan::kFileNoInode | orphan::kFileReserved | orphan::kFileFree | orphan::kFileNotRegular;
    if ((r.faults & kNotIt) != 0) return not_an_orphan_file(r);
    if ((r.faults & orphan::kFileSize) != 0 && dense_prefix(r) != 0 &&
        s_.judge.found(Problem::orphan_size, {.ino = r.ino}, {named, arg("size", r.size_bytes), arg("bytes", dense_prefix(r))})) {
      E4_TRY(fix_inode(v_, r.ino, {.size_bytes = dense_prefix(r)}));
      return true;
    }
    constexpr std::uint32_t kInode = orphan::kFileLinks | orphan::kFileCsum;
    if ((r.faults & kInode) != 0 && r.blocks_with_magic() != 0 &&
        s_.judge.found(Problem::orphan_inode, {.ino = r.ino}, {named, arg("why", why(r.faults & kInode))})) {
      E4_TRY(fix_inode(v_, r.ino, {.one_link = (r.faults & orphan::kFileLinks) != 0}));
      return true;
    }
    if (r.proved() || r.repairable()) return tails(r);
    return not_an_orphan_file(r);
  }

 private:
  /// Bytes from the start that are mapped without a hole.
  [[nodiscard]] std::uint64_t dense_prefix(const FileReport& r) const {
    std::uint64_t n = 0;
    for (const orphan::BlockVerdict& b : r.blocks) {
      if (b.logical != n || !b.magic_ok) break;
      ++n;
    }
    return n * v_.geo().block_bytes;
  }

  Result<bool> without_feature(const FileReport& r) {
    if (v_.orphan_present()) {
      if (!s_.judge.found(Problem::orphan_no_feature)) return false;
      E4_TRY(v_.set_orphan_present(false));
      E4_TRY(v_.seal());
      return true;
    }
    // The inode left over when only the feature bit was cleared.
    const Ino left = v_.orphan_file_inum();
    if (left == 0 || left > v_.geo().inodes_count) return false;
    const SuperCopy super = E4_TRY(SuperCopy::read(*s_.overlay));
    E4_TRY(v_.set_orphan_file(left, true));
    const FileReport with = E4_TRY(orphan::inspect_orphan_file(v_));
    if (with.proved() && with.used_slots == 0 && s_.judge.found(Problem::orphan_leftover, {.ino = left}, {arg("named", std::uint64_t{left})})) {
      E4_TRY(orphan::drop_orphan_file(v_, s_.options.now));
      return true;
    }
    E4_TRY(v_.set_orphan_file(r.ino, false));
    E4_TRY(v_.seal());
    E4_TRY(super.write(*s_.overlay));
    return false;
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
        yes = s_.judge.found(Problem::orphan_magic, place, {named, lblk}) || yes;
      } else if (!b.checksum_ok) {
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
