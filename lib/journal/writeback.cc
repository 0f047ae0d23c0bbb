// SPDX-License-Identifier: GPL-2.0-only
#include "journal/writeback.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/assert.h"
#include "journal/committer.h"
#include "journal/descriptor.h"
#include "journal/fast_commit.h"
#include "journal/fast_commit_format.h"
#include "journal/passes.h"

namespace e4::journal {

namespace {

constexpr std::uint32_t kCopyBytes = 1U << 20;

// Reads the log blocks of `blocks` (which lie side by side at home) into
// `out`, neighbours in the log at once.
Result<void> gather(const Log& log, image::Device& device, std::span<const HomeBlock> blocks, std::span<std::byte> out) {
  const std::uint32_t bs = log.block_bytes();
  for (std::size_t i = 0; i < blocks.size();) {
    const Blk from = log.physical(blocks[i].log_block);
    std::size_t n = 1;
    while (i + n < blocks.size() && log.physical(blocks[i + n].log_block) == from + n) ++n;
    auto read = device.read(from * bs, out.subspan(i * bs, n * bs));
    if (!read) return std::move(read).error().context("journal: copying logged blocks home");
    i += n;
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].escaped) unescape(out.subspan(i * bs, bs));
  }
  return {};
}

// The smallest tid from `next` on such that none of `tids` lies in the
// `window` behind it.
Tid first_clear(Tid next, std::vector<Tid> tids) {
  constexpr std::uint32_t kWindow = 1U << 30;
  for (Tid& t : tids) t -= next;  // distance from `next`, modulo 2^32
  std::ranges::sort(tids);
  std::uint32_t from = 0, best = 0, best_gap = 0;
  for (const std::uint32_t t : tids) {
    if (t >= from) {
      if (t - from >= kWindow) return next + from;
      if (t - from > best_gap) best = from, best_gap = t - from;
    }
    if (t == 0xFFFFFFFFU) return next + best;
    from = std::max(from, t + 1);
  }
  // Behind the last one up to where the circle closes.
  const std::uint32_t gap = 0U - from;
  return from == 0 || gap >= kWindow || gap > best_gap ? next + from : next + best;
}

}  // namespace

Result<std::uint64_t> copy_home(const RecoveryPlan& plan, image::Device& device, Blk skip) {
  if (plan.blocks.empty()) return 0;
  const Log& log = *plan.log;
  const std::uint32_t bs = log.block_bytes();
  const std::size_t most = std::max(1U, kCopyBytes / bs);
  std::vector<std::byte> buffer(most * bs);
  std::uint64_t copied = 0;
  const std::span<const HomeBlock> blocks = plan.blocks;
  for (std::size_t i = 0; i < blocks.size();) {
    if (blocks[i].block == skip) {
      ++i;
      continue;
    }
    std::size_t n = 1;
    while (n < most && i + n < blocks.size() && blocks[i + n].block == blocks[i].block + n &&
           blocks[i + n].block != skip) {
      ++n;
    }
    const std::span<std::byte> out(buffer.data(), n * bs);
    E4_TRY(gather(log, device, blocks.subspan(i, n), out));
    E4_TRY(device.write(blocks[i].block * bs, out));
    copied += n;
    i += n;
  }
  return copied;
}

Result<Tid> safe_next_tid(const RecoveryPlan& plan, image::Device& device) {
  E4_ASSERT(plan.log.has_value());
  const Log& log = *plan.log;
  const Superblock& super = log.super();
  const std::uint64_t bs = log.block_bytes();
  std::vector<Tid> tids;
  std::array<std::byte, sizeof(BlockHeader)> head{};
  // The replayed part, s_start up to head, holds tids below end_tid only.
  const bool walked = super.raw.s_start != 0 && plan.complete();
  const std::uint32_t known =
      walked ? (plan.head + super.ring_blocks() - super.raw.s_start) % super.ring_blocks() : 0;
  std::uint32_t n = walked ? plan.head : super.ring_first();
  for (std::uint32_t left = super.ring_blocks() - known; left > 0; --left, n = log.next(n)) {
    E4_TRY(device.read(log.physical(n) * bs, head));
    const Header h = parse_header(head);
    if (h.is_log_block) tids.push_back(h.tid);
  }
  if (const FastCommitArea area = fast_commit_area(super); area.blocks > 0) {
    std::array<std::byte, sizeof(FcTl) + sizeof(FcHead)> fc{};
    E4_TRY(device.read(log.physical(area.first) * bs, fc));
    if (load<le16>(fc.data()) == kFcHead) tids.push_back(load<le32>(fc.data(), sizeof(FcTl) + offsetof(FcHead, fc_tid)));
  }
  const Tid end = tid_before(plan.end_tid, super.raw.s_sequence) ? super.raw.s_sequence.get() : plan.end_tid;
  tids.push_back(end);  // as e2fsck and the kernel do: one beyond the first tid not seen
  return first_clear(end, std::move(tids));
}

Result<std::uint64_t> recover(image::Device& device, bool empty_damaged_log) {
  image::Filsys fs = E4_TRY(image::Filsys::open(device));
  RecoveryPlan plan = E4_TRY(plan_recovery(device, fs));
  image::Overlay overlay(device, fs.block_bytes());
  E4_TRY(apply(plan, overlay));
  E4_TRY(replay_fast_commits(plan, overlay));
  Committer committer =
      E4_TRY(Committer::begin(std::move(plan), overlay, {.empty_damaged_log = empty_damaged_log}));
  E4_TRY(committer.finish());
  return committer.stats().bytes_written;
}

}  // namespace e4::journal
