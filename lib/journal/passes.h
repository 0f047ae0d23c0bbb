// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "image/device.h"
#include "journal/recovery.h"

namespace e4::journal {

/// One tag met by the scan.
struct LoggedTag {
  Blk home = 0;
  std::uint32_t log_block = 0;
  std::uint32_t checksum = 0;
  Tid tid = 0;
  bool escaped = false;
};
static_assert(sizeof(LoggedTag) <= 24);

/// What the three passes hand to each other.
struct Passes {
  image::Device& device;
  const Log& log;
  RecoveryPlan& plan;
  std::vector<LoggedTag> tags{};       // in log order; after scan() only replayable ones
  struct RevokeBlock {
    std::uint32_t log_block;
    Tid tid;
  };
  std::vector<RevokeBlock> revokes{};
  struct Home {
    Blk block = 0;
    Tid revoke_tid = 0;
    bool revoked = false;
    std::uint32_t winner = kNone;      // index into tags
    static constexpr std::uint32_t kNone = 0xFFFFFFFFU;
  };
  std::vector<Home> homes{};           // ascending by block: each home named by a tag

  /// Limits for home blocks: [first_block, blocks_count). The superblock's must
  /// get a superblock of this block size.
  Blk first_block = 0;
  Blk blocks_count = 0;
  std::uint32_t log_block_size = 0;   // s_log_block_size

  void problem(Problem p) const;
  /// The log cannot be followed: nothing is replayed.
  void fail(Problem p) const;
  [[nodiscard]] Home* find(Blk block);
};

/// Pass 1: walks from s_start to the end of the log; sets end_tid, head,
/// transactions, failed_commit; collects tags and revoke blocks.
void scan(Passes& p);
/// Pass 2: the highest tid that revokes each home block.
void revoke(Passes& p);
/// Pass 3: drops revoked and impossible tags, verifies the data of the others
/// and leaves the newest good content of every home block in plan.blocks.
void replay(Passes& p);

/// Whether tid `a` comes after `b`, modulo 2^32.
constexpr bool tid_after(Tid a, Tid b) { return static_cast<std::int32_t>(a - b) > 0; }
constexpr bool tid_before(Tid a, Tid b) { return static_cast<std::int32_t>(a - b) < 0; }

}  // namespace e4::journal
