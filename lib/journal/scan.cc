// SPDX-License-Identifier: GPL-2.0-only
#include <algorithm>
#include <optional>

#include "journal/commit.h"
#include "journal/crc32_be.h"
#include "journal/descriptor.h"
#include "journal/passes.h"
#include "journal/revoke.h"

namespace e4::journal {

namespace {

// Pass 1 of recovery. The order of tests is that of the kernel's do_one_pass.
class Scan {
 public:
  explicit Scan(Passes& p) : p_(p), block_(p.log.block_bytes()) {}

  void run() {
    const SuperOnDisk& super = p_.log.super().raw;
    tid_ = super.s_sequence;
    at_ = super.s_start;
    p_.plan.first_tid = tid_;
    p_.plan.head = at_;
    bool more = true;
    while (more) more = step();
    if (p_.plan.verdict == Verdict::failed) return;
    const Tid end = end_.value_or(tid_);
    p_.plan.end_tid = end;
    p_.plan.transactions = end - p_.plan.first_tid;
    keep_replayable(end);
  }

 private:
  // One log block; false at the end of the log.
  bool step() {
    if (auto r = p_.log.read(p_.device, at_, block_); !r) {
      if (end_) return false;  // only looking at what lies behind the damage
      p_.fail({.kind = ProblemKind::log_block_unreadable, .tid = tid_, .log_block = at_, .detail = r.error().message()});
      return false;
    }
    const Header header = parse_header(block_);
    if (!header.is_log_block || header.tid != tid_) return false;
    const std::uint32_t here = at_;
    if (!forward(1)) return false;
    switch (header.type) {
      case kDescriptorBlock: return descriptor(here);
      case kRevokeBlock: return revoke_block(here);
      case kCommitBlock: return commit(here);
      default: return false;
    }
  }

  // Moves on; false when that would pass the start of the log again. A tid
  // occurs once in a ring, so only a crafted or damaged log does this.
  bool forward(std::uint32_t blocks) {
    const std::uint32_t ring = p_.log.super().ring_blocks();
    if (blocks > ring - walked_) {
      if (!end_) p_.fail({.kind = ProblemKind::log_loops, .tid = tid_, .log_block = at_});
      return false;
    }
    walked_ += blocks;
    at_ = p_.log.advance(at_, blocks);
    return true;
  }

  void suspect(ProblemKind kind, std::uint32_t here) {
    if (!suspicious_) suspicious_ = Problem{.kind = kind, .tid = tid_, .log_block = here};
  }

  bool descriptor(std::uint32_t here) {
    if (!tail_checksum_ok(block_, p_.log.format())) suspect(ProblemKind::descriptor_checksum, here);
    read_tags(block_, p_.log.format(), tags_);
    const std::uint32_t data = at_;
    if (!forward(static_cast<std::uint32_t>(tags_.size()))) return false;
    if (p_.log.format().checksums == Checksums::v1 && !end_) {
      crc_ = crc32_be(crc_, block_);
      if (!add_data_to_crc(data)) return false;
    }
    std::uint32_t n = data;
    for (const Tag& t : tags_) {
      p_.tags.push_back({.home = t.block, .log_block = n, .checksum = t.checksum, .tid = tid_, .escaped = t.escaped()});
      n = p_.log.next(n);
    }
    return true;
  }

  // v1 sums over all data blocks. One that cannot be read ends the log quietly.
  bool add_data_to_crc(std::uint32_t n) {
    const std::uint32_t bs = p_.log.block_bytes();
    std::uint32_t left = static_cast<std::uint32_t>(tags_.size());
    while (left > 0) {
      const std::uint32_t in_row = std::min({left, p_.log.contiguous(n), p_.log.super().ring_end() - n,
                                             std::max(1U, kReadBytes / bs)});
      data_.resize(std::size_t{in_row} * bs);
      if (auto r = p_.device.read(p_.log.physical(n) * bs, data_); !r) {
        p_.problem({.kind = ProblemKind::log_block_unreadable, .tid = tid_, .log_block = n, .detail = r.error().message()});
        return false;
      }
      crc_ = crc32_be(crc_, data_);
      n = p_.log.advance(n, in_row);
      left -= in_row;
    }
    return true;
  }

  bool revoke_block(std::uint32_t here) {
    if (!tail_checksum_ok(block_, p_.log.format())) suspect(ProblemKind::revoke_checksum, here);
    const auto records = revoke_records(block_, p_.log.format());
    if (!records) {
      if (end_) return false;
      // A block we do not trust anyway may be a leftover: the commit decides.
      if (!suspicious_) {
        p_.fail({.kind = ProblemKind::revoke_count, .tid = tid_, .log_block = here});
        return false;
      }
      return true;
    }
    p_.revokes.push_back({.log_block = here, .tid = tid_});
    return true;
  }

  bool commit(std::uint32_t here) {
    const std::uint64_t seconds = commit_time(block_).sec;
    if (suspicious_) {
      if (end_ || seconds < last_commit_seconds_) {
        if (!end_) stale(here);
        return false;
      }
      p_.fail(*suspicious_);
      return false;
    }
    const bool v1 = p_.log.format().checksums == Checksums::v1;
    if (end_) {
      // Behind a damaged commit: count what is lost with it.
      ++p_.plan.dropped_transactions;
      p_.plan.failed_commit = *end_;
      ++tid_;
      return true;
    }
    const bool good = v1 ? commit_v1_checksum_ok(block_, crc_) : commit_checksum_ok(block_, p_.log.format());
    if (!good) {
      if (seconds < last_commit_seconds_) {
        stale(here);
        return false;
      }
      end_ = tid_;
      damaged_at_ = here;
      p_.plan.dropped_transactions = 1;
      // With async commit the record may reach the disk before its blocks: a
      // torn last transaction is then an ordinary end of the log.
      if (!p_.log.format().async_commit) p_.plan.failed_commit = tid_;
      ++tid_;
      return true;
    }
    crc_ = ~0U;
    last_commit_seconds_ = seconds;
    p_.plan.head = at_;
    ++tid_;
    return true;
  }

  void stale(std::uint32_t here) {
    p_.problem({.kind = ProblemKind::stale_commit, .tid = tid_, .log_block = here});
  }

  void keep_replayable(Tid end) {
    const auto first_dropped =
        std::ranges::find_if(p_.tags, [end](const LoggedTag& t) { return !tid_before(t.tid, end); });
    if (p_.plan.failed_commit) {
      const Tid last = end + p_.plan.dropped_transactions;
      for (auto it = first_dropped; it != p_.tags.end() && tid_before(it->tid, last); ++it) {
        p_.plan.dropped.push_back({.block = it->home, .log_block = it->log_block, .tid = it->tid, .escaped = it->escaped});
      }
      p_.problem({.kind = ProblemKind::commit_checksum, .tid = end, .log_block = damaged_at_});
      p_.plan.verdict = Verdict::partial;
    } else {
      p_.plan.dropped_transactions = 0;
    }
    p_.tags.erase(first_dropped, p_.tags.end());
    std::erase_if(p_.revokes, [end](const Passes::RevokeBlock& r) { return !tid_before(r.tid, end); });
  }

  static constexpr std::uint32_t kReadBytes = 1U << 20;

  Passes& p_;
  std::vector<std::byte> block_, data_;
  std::vector<Tag> tags_;
  Tid tid_ = 0;
  std::uint32_t at_ = 0;
  std::uint32_t walked_ = 0;
  std::uint32_t crc_ = ~0U;
  std::uint64_t last_commit_seconds_ = 0;
  std::optional<Problem> suspicious_;  // first bad descriptor or revoke block of this transaction
  std::optional<Tid> end_;             // set at the first bad commit block
  std::uint32_t damaged_at_ = 0;
};

}  // namespace

void scan(Passes& p) { Scan(p).run(); }

}  // namespace e4::journal
