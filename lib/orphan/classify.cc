// SPDX-License-Identifier: GPL-2.0-only
#include "orphan/classify.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "orphan/freeing.h"
#include "orphan/judge.h"
#include "orphan/names.h"
#include "orphan/ownership.h"
#include "orphan/validity.h"

// Judging everything before anything is changed:
//   1. entries of list and file become records; numbers that cannot be, and repeats, are settled at once;
//   2. each inode is looked at, in inode order (judge.cc), and its clusters are claimed;
//   3. one pass over all other inodes contests what is not solely the orphan's;
//   4. directories are searched for names of inodes with links 0;
//   5. what is left of the wishes becomes the plan.
namespace e4::orphan {
namespace {

constexpr std::uint64_t kDirectoryBytesMax = kGiB;

void settle(Record& r, State state, Action action, std::uint32_t reasons) {
  r.state = state;
  r.action = action;
  r.reasons |= reasons;
}

class Classifier {
 public:
  Classifier(Volume& volume, const ClassifyOptions& options)
      : volume_(volume), options_(options), seen_(volume.geo().inodes_count), candidates_(volume.geo().inodes_count) {}

  Result<Plan> run() {
    E4_TRY(collect());
    if (plan_.records.empty() && options_.names != ClassifyOptions::Names::always) {
      plan_.ledger = std::make_shared<Ledger>();
      return std::move(plan_);
    }
    Judge judge(volume_, candidates_);
    E4_TRY(judge.claim_quota_files());
    E4_TRY(judge_all(judge));
    const ScanResult scan = E4_TRY(scan_rest(judge));
    E4_TRY(prove(judge, scan));
    E4_TRY(look_for_names(scan));
    judge.count_back_bytes(plan_.records, release_order(plan_.records));
    plan_.ledger = std::make_shared<Ledger>(std::move(judge.ledger()));
    return std::move(plan_);
  }

 private:
  Result<void> collect() {
    plan_.list = E4_TRY(read_orphan_list(volume_));
    add_list();
    plan_.file = E4_TRY(inspect_orphan_file(volume_));
    E4_TRY(add_file());
    if (options_.find_unlisted) E4_TRY(add_unlisted());
    return {};
  }

  Record& add(Source source, Ino ino, std::uint32_t block, std::uint32_t slot) {
    Record& r = plan_.records.emplace_back();
    r.source = source;
    r.ino = ino;
    r.block = block;
    r.slot = slot;
    return r;
  }

  void add_list() {
    std::uint32_t position = 0;
    for (const Ino ino : plan_.list.inodes) {
      add(Source::list, ino, Record::kNone, position++);
      seen_.insert(ino);
    }
    using End = ListReport::End;
    if (plan_.list.end == End::clean) return;
    Record& r = add(Source::list, plan_.list.bad, Record::kNone, position);
    switch (plan_.list.end) {
      case End::range: settle(r, State::invalid, Action::drop, plan_.list.before != 0 ? kRange | kBadNext : std::uint32_t{kRange}); break;
      case End::reserved: settle(r, State::invalid, Action::drop, number_reasons(volume_, r.ino)); break;
      case End::free: settle(r, State::invalid, Action::drop, kFree); break;
      case End::loop: settle(r, State::invalid, Action::drop, kLoop); break;
      case End::unreadable:
        // Where the chain goes from here cannot be known: it stays as it is.
        settle(r, State::invalid, Action::leave, kUnreadable);
        seen_.insert(r.ino);
        break;
      case End::clean: break;
    }
  }

  Result<void> add_file() {
    if (!plan_.file.repairable()) return {};
    plan_.records.reserve(plan_.records.size() + plan_.file.used_slots);
    for (const BlockVerdict& v : plan_.file.blocks) {
      if (!v.magic_ok || v.used_slots == 0) continue;
      const OrphanBlock block(E4_TRY(volume_.overlay().view(v.physical)));
      for (std::uint32_t i = 0; i < block.slots(); ++i) {
        const Ino ino = block.slot(i);
        if (ino == 0) continue;
        Record& r = add(Source::file, ino, v.logical, i);
        if (const std::uint32_t bad = number_reasons(volume_, ino); bad != 0)
          settle(r, State::invalid, Action::drop, bad);
        else if (!seen_.insert(ino))
          settle(r, State::invalid, Action::drop, kDuplicate);
      }
    }
    return {};
  }

  Result<void> add_unlisted() {
    std::vector<Ino> found;
    E4_TRY(for_each_inode(
        volume_,
        [&](Ino ino, std::span<const std::byte> raw, bool bit) -> Result<void> {
          const InodeView inode(raw);
          if (bit && inode.links() == 0 && inode.mode() != 0 && inode.dtime() == 0 &&
              (inode.flags() & kFlagEaInode) == 0 && number_reasons(volume_, ino) == 0 && !seen_.contains(ino))
            found.push_back(ino);
          return {};
        },
        [](const std::string&) {}));
    for (const Ino ino : found) {
      seen_.insert(ino);
      add(Source::unlisted, ino, Record::kNone, Record::kNone);
    }
    return {};
  }

  Result<void> judge_all(Judge& judge) {
    std::vector<std::uint32_t> order;
    for (std::uint32_t i = 0; i < plan_.records.size(); ++i)
      if (plan_.records[i].reasons == 0) order.push_back(i);
    const auto by_inode = [this](std::uint32_t a, std::uint32_t b) { return plan_.records[a].ino < plan_.records[b].ino; };
    if (!std::is_sorted(order.begin(), order.end(), by_inode)) std::sort(order.begin(), order.end(), by_inode);
    for (const std::uint32_t i : order) E4_TRY(judge.look_at(plan_.records[i]));
    return {};
  }

  Result<ScanResult> scan_rest(Judge& judge) {
    using Names = ClassifyOptions::Names;
    wants_names_ = options_.names == Names::always || options_.paths;
    for (const Record& r : plan_.records)
      wants_names_ = wants_names_ || (options_.names == Names::automatic && r.action == Action::erase);
    const bool mappings = options_.prove_ownership && judge.needs_proof();
    if (!mappings && !wants_names_) return ScanResult{};
    return scan_others(volume_, candidates_, mappings, judge.ownership(), judge.ledger());
  }

  Result<void> prove(Judge& judge, const ScanResult& scan) {
    plan_.ownership_proved = scan.complete;
    plan_.obstacles = scan.obstacles;
    plan_.shared_quota_files = E4_TRY(judge.unproved_quota_files(options_.prove_ownership && scan.complete));
    for (Record& r : plan_.records) {
      if (r.action != Action::erase && r.action != Action::truncate) continue;
      if ((r.flags & kFlagEaInode) != 0 && judge.referenced(r.ino)) settle(r, r.state, Action::leave, kReferenced);
      if (!judge.holds_blocks(r)) continue;
      if (!options_.prove_ownership || !scan.complete)
        settle(r, r.state, Action::leave, kUnproved);
      else if (judge.ownership().any_contest() && E4_TRY(judge.contested(r)))
        settle(r, r.state, Action::leave, kShared);
    }
    return {};
  }

  Result<void> look_for_names(const ScanResult& scan) {
    using Names = ClassifyOptions::Names;
    if (!wants_names_) return {};
    if (options_.names != Names::always && scan.directory_bytes > kDirectoryBytesMax) return {};
    InodeSet wanted(volume_.geo().inodes_count);
    for (const Record& r : plan_.records)
      if (r.action == Action::erase || options_.paths) {
        if (number_reasons(volume_, r.ino) == 0) wanted.insert(r.ino);
      }
    if (plan_.file.feature && plan_.file.ino != 0 && plan_.file.ino <= volume_.geo().inodes_count)
      wanted.insert(plan_.file.ino);
    const NameMap names = E4_TRY(find_names(volume_, scan.directories, wanted));
    plan_.names_checked = true;
    if (names.empty()) return {};
    if (plan_.file.feature && names.contains(plan_.file.ino)) plan_.file.faults |= kFileNamed;
    for (Record& r : plan_.records) {
      if ((plan_.file.faults & kFileNamed) != 0 && r.source == Source::file) settle(r, r.state, Action::leave, kUnproved);
      const auto it = names.find(r.ino);
      if (it == names.end() || r.action != Action::erase) continue;
      // A directory's link count depends on its children too: that is the full check's work.
      const bool simple = (r.mode & kModeTypeMask) != kModeDir && it->second.size() <= 65000;
      settle(r, State::invalid, simple ? Action::fix_links : Action::leave, kNamed);
    }
    plan_.paths = E4_TRY(resolve_paths(volume_, names));
    return {};
  }

  Volume& volume_;
  ClassifyOptions options_;
  InodeSet seen_, candidates_;
  Plan plan_;
  bool wants_names_ = false;
};

}  // namespace

std::vector<std::uint32_t> release_order(const std::vector<Record>& records) {
  std::vector<std::uint32_t> order(records.size());
  std::iota(order.begin(), order.end(), 0U);
  // The list from its head; the rest by inode, so that a batch touches each table block once. Attribute inodes
  // come last: whoever refers to them has let go by then.
  const auto key = [&records](std::uint32_t i) {
    const Record& r = records[i];
    const bool list = r.source == Source::list;
    const bool ea = !list && (r.flags & kFlagEaInode) != 0;
    return std::tuple(list ? 0 : ea ? 2 : 1, list ? i : r.ino, i);
  };
  const auto less = [&key](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); };
  if (!std::is_sorted(order.begin(), order.end(), less)) std::sort(order.begin(), order.end(), less);
  return order;
}

Totals Plan::totals() const {
  Totals t;
  for (const Record& r : records) {
    (r.source == Source::list ? t.listed : r.source == Source::file ? t.in_file : t.unlisted) += 1;
    switch (r.action) {
      case Action::erase: ++t.erase; break;
      case Action::truncate: ++t.truncate; break;
      case Action::drop: ++t.drop; break;
      case Action::fix_links: ++t.fix_links; break;
      case Action::leave: ++t.leave; break;
    }
    t.back_bytes += r.back_bytes;
  }
  return t;
}

Result<Plan> classify(Volume& volume, const ClassifyOptions& options) { return Classifier(volume, options).run(); }

}  // namespace e4::orphan
