// SPDX-License-Identifier: GPL-2.0-only
#include <fmt/core.h>

#include <bit>
#include <chrono>
#include <thread>

#include "check/session.h"
#include "image/features.h"
#include "image/undo.h"

// Finds a superblock that can be used, puts the overlay on top of the device,
// and names what the superblock asks of us that we do not know. Only this
// phase may replace the superblock as a whole, and then by one backup copy:
// fields of two copies are never mixed.
namespace e4::check {

using report::arg;

namespace {

struct Chosen {
  SuperCopy super = {};
  std::string why = {};  // what is wrong with the primary; empty if it is used as it is
  Blk backup_block = 0;  // 0: the primary
};

/// -b N, with -B or without.
Result<Chosen> named_superblock(image::Device& device, const Options& options) {
  for (std::uint32_t bs = 1024; bs <= 65536; bs *= 2) {
    if (options.block_bytes != 0 && options.block_bytes != bs) continue;
    if (options.superblock > device.size() / bs) continue;
    auto copy = SuperCopy::read(device, options.superblock * bs);
    if (copy && why_unusable(*copy).empty() && copy->block_bytes() == bs)
      return Chosen{.super = *copy, .why = "another one was asked for", .backup_block = options.superblock};
  }
  return make_error(ErrorKind::corrupt, fmt::format("block {} holds no usable superblock", options.superblock));
}

Result<Chosen> choose(Session& s, image::Device& device) {
  if (s.options.superblock != 0) return named_superblock(device, s.options);
  Chosen c{.super = E4_TRY(SuperCopy::read(device))};
  const auto geometry = image::check_geometry(c.super.raw(), 0);
  if (!geometry && geometry.error().kind == ErrorKind::incompatible) return Error(geometry.error());
  c.why = why_unusable(c.super);
  if (c.why.empty()) return c;
  const auto backups = find_backups(device, c.super);
  if (!backups.empty()) return Chosen{.super = backups.front().super, .why = c.why, .backup_block = backups.front().block};
  if (!geometry) {
    s.judge.found(Problem::super_no_backup, {}, {arg("why", c.why)});
    return Error(geometry.error());
  }
  return c;  // sane but for its checksum
}

/// Puts the chosen copy into the overlay. False: declined.
bool take_superblock(Session& s, const Chosen& c, SuperCopy& super) {
  if (c.why.empty()) return true;
  if (c.backup_block == 0)
    return s.judge.found(Problem::super_checksum, {},
                         {arg("stored", fmt::format("{:#010x}", c.super.stored_checksum())),
                          arg("computed", fmt::format("{:#010x}", c.super.computed_checksum()))});
  if (!s.judge.found(Problem::super_damaged, {.block = c.backup_block}, {arg("why", c.why), arg("backup", c.backup_block)}))
    return false;
  super.set_u16(0x5A, 0);  // s_block_group_nr: it is the primary now
  // Backups are written without the valid bit. With a journal there is a proof of consistency, without one there is none.
  if ((super.u32(0x5C) & EXT3_FEATURE_COMPAT_HAS_JOURNAL) != 0) super.set_u16(0x3A, super.u16(0x3A) | EXT2_VALID_FS);
  s.super_restored = true;
  return true;
}

void name_unknown_features(Session& s, const SuperCopy& super) {
  const image::FeatureBits bits = image::feature_bits(super.raw());
  using image::FeatureWord;
  const auto each = [&](FeatureWord word, Problem problem) {
    bool any = false;
    for (std::uint32_t left = bits.word(word); left != 0; left &= left - 1) {
      const image::FeatureBit bit{word, left & ~(left - 1)};
      const image::Feature* known = image::find_feature(bit);
      if (known != nullptr && *known->linux_since != '\0') continue;
      any = true;
      s.judge.found(problem, {},
                    {arg("name", image::feature_name(bit)), arg("bit", static_cast<std::uint64_t>(std::countr_zero(bit.mask)))});
    }
    return any;
  };
  const bool c = each(FeatureWord::compat, Problem::feature_unknown_compat);
  const bool r = each(FeatureWord::ro_compat, Problem::feature_unknown_ro_compat);
  const bool i = each(FeatureWord::incompat, Problem::feature_unknown_incompat);
  if (c || r || i) s.judge.refuse_writes();
  s.incompatible = i;
}

/// Multiple-mount protection: a live sequence number means somebody else has
/// the file system mounted. (Linux 6.18 fs/ext4/mmp.c.)
Result<void> check_mmp(Session& s, const SuperCopy& super) {
  constexpr std::uint32_t kMagic = 0x004D4D50, kClean = 0xFF4D4D50;
  const Blk block = load<le64>(&super, 0x168);
  if ((super.u32(0x60) & 0x100) == 0 || !s.judge.writes()) return {};
  if (block <= super.u32(0x14) || block >= super.blocks_count()) return {};
  std::vector<std::byte> first(super.block_bytes()), second(super.block_bytes());
  E4_TRY(s.base->read(block * super.block_bytes(), first));
  if (load<le32>(first.data(), 0) != kMagic || load<le32>(first.data(), 4) == kClean) return {};
  const std::uint32_t interval = std::min<std::uint32_t>(std::max<std::uint32_t>(load<le16>(first.data(), 112), super.u16(0x166)), 30);
  s.judge.say(fmt::format("multiple-mount protection is active; watching it for {} seconds", 2 * interval + 1));
  for (std::uint32_t i = 0; i < 2 * interval + 1 && !s.stop_requested(); ++i) std::this_thread::sleep_for(std::chrono::seconds(1));
  E4_TRY(s.base->read(block * super.block_bytes(), second));
  if (load<le32>(first.data(), 4) != load<le32>(second.data(), 4))
    return make_error(ErrorKind::busy, "multiple-mount protection: another system has this file system in use").at_block(block);
  return {};
}

}  // namespace

Result<void> open_phase(Session& s, image::Device& device) {
  Chosen c = E4_TRY(choose(s, device));
  SuperCopy super = c.super;
  s.base = &device;
  if (!s.options.undo_path.empty() && s.judge.writes()) {
    s.undo = E4_TRY(image::open_undo(device, s.options.undo_path, super.block_bytes()));
    s.base = s.undo.get();
  }
  s.overlay = std::make_unique<image::Overlay>(*s.base, super.block_bytes());
  if (!take_superblock(s, c, super)) {
    s.ended = s.abandoned = true;
    return {};
  }
  if (!c.why.empty()) {
    super.seal();
    E4_TRY(super.write(*s.overlay));
  }
  if (const std::uint64_t held = device.size() / super.block_bytes(); super.blocks_count() > held) {
    s.judge.found(Problem::super_too_long, {},
                  {arg("blocks", super.blocks_count()), arg("device", held), arg("from", held * super.block_bytes()),
                   arg("to", super.blocks_count() * super.block_bytes() - 1)});
    s.ended = s.abandoned = true;
    return {};
  }
  name_unknown_features(s, super);
  E4_TRY(check_mmp(s, super));
  if (s.incompatible) return {};
  return reopen(s);
}

Result<void> reopen(Session& s) {
  s.fs.reset();
  s.fs = E4_TRY(image::Filsys::open(*s.overlay, {.writable = false, .ignore_checksums = true, .any_features = true}));
  return {};
}

}  // namespace e4::check
