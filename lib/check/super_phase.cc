// SPDX-License-Identifier: GPL-2.0-only
#include <fmt/core.h>

#include "check/session.h"

// Fields of the superblock that contradict each other. Geometry was checked
// when it was opened; here are the rules with a repair that keeps everything.
namespace e4::check {

using report::arg;

namespace {

constexpr std::size_t kState = 0x3A, kCompat = 0x5C, kIncompat = 0x60, kRoCompat = 0x64, kMinExtra = 0x15C, kWantExtra = 0x15E,
                      kChecksumSeed = 0x270;

void clear_bits_at(SuperCopy& super, std::size_t at, std::uint32_t bits) { super.set_u32(at, super.u32(at) & ~bits); }
void set_bits_at(SuperCopy& super, std::size_t at, std::uint32_t bits) { super.set_u32(at, super.u32(at) | bits); }

void check_feature_pairs(Session& s, SuperCopy& super) {
  const auto has = [&](std::size_t at, std::uint32_t bit) { return (super.u32(at) & bit) != 0; };
  if (has(kRoCompat, EXT4_FEATURE_RO_COMPAT_METADATA_CSUM) && has(kRoCompat, EXT4_FEATURE_RO_COMPAT_GDT_CSUM) &&
      s.judge.found(Problem::feature_two_csums))
    clear_bits_at(super, kRoCompat, EXT4_FEATURE_RO_COMPAT_GDT_CSUM);
  if (has(kIncompat, EXT4_FEATURE_INCOMPAT_CSUM_SEED) && !has(kRoCompat, EXT4_FEATURE_RO_COMPAT_METADATA_CSUM) &&
      s.judge.found(Problem::feature_csum_seed)) {
    clear_bits_at(super, kIncompat, EXT4_FEATURE_INCOMPAT_CSUM_SEED);
    super.set_u32(kChecksumSeed, 0);
  }
  if (has(kIncompat, EXT4_FEATURE_INCOMPAT_64BIT) && !has(kIncompat, EXT3_FEATURE_INCOMPAT_EXTENTS) &&
      s.judge.found(Problem::feature_64bit_no_extents))
    set_bits_at(super, kIncompat, EXT3_FEATURE_INCOMPAT_EXTENTS);
  if (has(kCompat, EXT2_FEATURE_COMPAT_RESIZE_INODE) && has(kIncompat, EXT2_FEATURE_INCOMPAT_META_BG))
    s.judge.found(Problem::feature_resize_meta_bg);
}

void check_extra_isize(Session& s, SuperCopy& super) {
  const std::uint32_t inode_bytes = s.fs->super().s_rev_level == 0 ? 128U : s.fs->super().s_inode_size;
  if (inode_bytes <= 128) return;
  for (const auto& [at, field] : {std::pair{kMinExtra, "s_min_extra_isize"}, std::pair{kWantExtra, "s_want_extra_isize"}}) {
    const std::uint16_t v = super.u16(at);
    if (v == 0 || (v >= 4 && v <= inode_bytes - 128 && v % 4 == 0)) continue;
    if (s.judge.found(Problem::super_extra_isize, {},
                      {arg("field", field), arg("value", std::uint64_t{v}), arg("inode_bytes", std::uint64_t{inode_bytes})}))
      super.set_u16(at, 32);
  }
}

}  // namespace

Result<void> super_phase(Session& s) {
  const SuperCopy before = E4_TRY(SuperCopy::read(*s.overlay));
  SuperCopy super = before;
  if (!super.checksum_ok() &&
      !s.judge.found(Problem::super_checksum, {},
                     {arg("stored", fmt::format("{:#010x}", super.stored_checksum())),
                      arg("computed", fmt::format("{:#010x}", super.computed_checksum()))})) {
    s.ended = s.abandoned = true;
    return {};
  }
  if (s.incompatible) {
    s.ended = true;
    return {};
  }
  check_feature_pairs(s, super);
  check_extra_isize(s, super);
  const std::uint16_t state = super.u16(kState);
  if ((state & EXT2_ERROR_FS) != 0) s.judge.found(Problem::super_state_error);
  else if ((state & EXT2_VALID_FS) == 0) s.judge.found(Problem::super_state_not_clean);
  if (!(super == before)) {
    super.seal();
    E4_TRY(super.write(*s.overlay));
    E4_TRY(reopen(s));
  }
  return {};
}

}  // namespace e4::check
