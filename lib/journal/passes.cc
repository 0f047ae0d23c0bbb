// SPDX-License-Identifier: GPL-2.0-only
#include "journal/passes.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "journal/descriptor.h"
#include "journal/fs_super.h"
#include "journal/revoke.h"

namespace e4::journal {

namespace {

constexpr std::uint32_t kReadBytes = 1U << 20;

// Home blocks that cannot be right are dropped and named; the rest of the
// transaction is still worth having.
std::optional<ProblemKind> refused(const Passes& p, const LoggedTag& t) {
  if (t.home < p.first_block || t.home >= p.blocks_count) return ProblemKind::target_out_of_range;
  if (p.log.holds(t.home)) return ProblemKind::target_in_journal;
  if (t.home == super_block(p.log.block_bytes())) {
    const auto super = logged_super(p.device, p.log, t.log_block);
    if (super && super->log_block_size() != p.log_block_size) return ProblemKind::target_bad_super;
    if (!super && super.error().kind == ErrorKind::corrupt) return ProblemKind::target_bad_super;
  }
  return std::nullopt;
}

// Verifies tags[from..] as far as their log blocks lie in a row on the
// device, reading them at once. Returns how many tags were dealt with.
class DataCheck {
 public:
  explicit DataCheck(Passes& p) : p_(p) {}

  std::size_t run(std::size_t from) {
    const std::uint32_t bs = p_.log.block_bytes();
    const std::uint32_t first = p_.tags[from].log_block;
    const std::size_t most = std::min<std::size_t>({p_.tags.size() - from, p_.log.contiguous(first),
                                                    p_.log.super().ring_end() - first, std::max(1U, kReadBytes / bs)});
    std::size_t n = 1;
    while (n < most && p_.tags[from + n].log_block == first + n) ++n;
    buffer_.resize(n * bs);
    const bool all = p_.device.read(p_.log.physical(first) * bs, buffer_).has_value();
    for (std::size_t i = 0; i < n; ++i) {
      const std::span<std::byte> block(buffer_.data() + i * bs, bs);
      one(from + i, block, all);
    }
    return n;
  }

 private:
  void one(std::size_t index, std::span<std::byte> block, bool have) {
    const LoggedTag& t = p_.tags[index];
    Passes::Home* home = p_.find(t.home);
    if (home->revoked && !tid_after(t.tid, home->revoke_tid)) {
      ++p_.plan.revoked_tags;
      return;
    }
    Problem problem{.kind = ProblemKind::data_checksum, .tid = t.tid, .log_block = t.log_block, .home = t.home};
    if (const auto kind = refused(p_, t)) {
      problem.kind = *kind;
      return p_.problem(std::move(problem));
    }
    if (!have) {
      if (auto r = p_.log.read(p_.device, t.log_block, block); !r) {
        problem.kind = ProblemKind::data_unreadable;
        problem.detail = r.error().message();
        return p_.problem(std::move(problem));
      }
    }
    const Tag tag{.block = t.home, .flags = 0, .checksum = t.checksum};
    if (!data_checksum_ok(p_.log.format(), t.tid, tag, block)) return p_.problem(std::move(problem));
    home->winner = static_cast<std::uint32_t>(index);
  }

  Passes& p_;
  std::vector<std::byte> buffer_;
};

}  // namespace

void Passes::problem(Problem p) const {
  if (p.is_damage() && plan.verdict != Verdict::failed) plan.verdict = Verdict::partial;
  if (plan.problems.size() < RecoveryPlan::kMaxProblems) {
    plan.problems.push_back(std::move(p));
  } else {
    ++plan.problems_dropped;
  }
}

void Passes::fail(Problem p) const {
  plan.verdict = Verdict::failed;
  problem(std::move(p));
}

Passes::Home* Passes::find(Blk block) {
  const auto it = std::ranges::lower_bound(homes, block, {}, &Home::block);
  return it != homes.end() && it->block == block ? &*it : nullptr;
}

void revoke(Passes& p) {
  // Only blocks that some tag names matter: the table is bounded by the log's
  // length however many records a crafted log holds.
  std::vector<Blk> blocks(p.tags.size());
  std::ranges::transform(p.tags, blocks.begin(), &LoggedTag::home);
  std::ranges::sort(blocks);
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  p.homes.resize(blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) p.homes[i].block = blocks[i];

  std::vector<std::byte> block(p.log.block_bytes());
  for (const Passes::RevokeBlock& r : p.revokes) {
    if (auto read = p.log.read(p.device, r.log_block, block); !read) {
      return p.fail({.kind = ProblemKind::log_block_unreadable, .tid = r.tid, .log_block = r.log_block,
                     .detail = read.error().message()});
    }
    const std::uint32_t records = revoke_records(block, p.log.format()).value_or(0);
    p.plan.revoke_records += records;
    for (std::uint32_t i = 0; i < records; ++i) {
      Passes::Home* home = p.find(revoke_record(block, p.log.format(), i));
      if (home == nullptr) continue;
      if (!home->revoked || tid_after(r.tid, home->revoke_tid)) home->revoke_tid = r.tid;
      home->revoked = true;
    }
  }
}

void replay(Passes& p) {
  p.plan.tags = p.tags.size();
  if (p.log.format().sealed()) {
    DataCheck check(p);
    for (std::size_t i = 0; i < p.tags.size();) i += check.run(i);
  } else {
    for (std::size_t i = 0; i < p.tags.size(); ++i) {
      const LoggedTag& t = p.tags[i];
      Passes::Home* home = p.find(t.home);
      if (home->revoked && !tid_after(t.tid, home->revoke_tid)) {
        ++p.plan.revoked_tags;
      } else if (const auto kind = refused(p, t)) {
        p.problem({.kind = *kind, .tid = t.tid, .log_block = t.log_block, .home = t.home});
      } else {
        home->winner = static_cast<std::uint32_t>(i);
      }
    }
  }
  p.plan.blocks.reserve(static_cast<std::size_t>(
      std::ranges::count_if(p.homes, [](const Passes::Home& h) { return h.winner != Passes::Home::kNone; })));
  for (const Passes::Home& home : p.homes) {
    if (home.winner == Passes::Home::kNone) continue;
    const LoggedTag& t = p.tags[home.winner];
    p.plan.blocks.push_back({.block = t.home, .log_block = t.log_block, .tid = t.tid, .escaped = t.escaped});
  }
}

}  // namespace e4::journal
