// SPDX-License-Identifier: GPL-2.0-only
#include <fmt/compile.h>
#include <fmt/core.h>

#include <iterator>

#include "check/inode_edit.h"
#include "check/session.h"
#include "orphan/classify.h"
#include "orphan/release.h"

// Every orphan is judged before the first is touched (lib/orphan classifies),
// what is no orphan becomes a finding, and the rest is released in batches of
// which each is one transaction: an inode and its slot or link go together.
namespace e4::check {

using orphan::Action;
using orphan::Record;
using report::arg;

namespace {
constexpr std::uint64_t kBatchBytes = 8 * kMiB;  // of changed blocks in one commit

std::string where_of(const Record& r) {
  switch (r.source) {
    case orphan::Source::list: return "on the list";
    case orphan::Source::file: return fmt::format("in slot {} of block {}", r.slot, r.block);
    case orphan::Source::unlisted: return "on no list";
  }
  return "";
}

std::string why_of(const Record& r) {
  std::string s;
  for (const std::string_view n : orphan::reason_names(r.reasons)) s += (s.empty() ? "" : ", ") + std::string(n);
  return s;
}

report::Place place_of(const Record& r, std::uint32_t block_bytes) {
  report::Place p;
  p.ino = r.ino;
  if (r.source == orphan::Source::file && r.slot != Record::kNone)
    p.slot = std::uint64_t{r.block} * orphan::slots_per_block(block_bytes) + r.slot;
  return p;
}

/// Which problem a record that is dropped for cause is; none for the normal
/// end of an orphan's life (nothing past i_size, verity being enabled).
std::optional<Problem> problem_of(const Record& r) {
  constexpr std::uint32_t kNormal = orphan::kCovered | orphan::kVerity;
  if ((r.reasons & orphan::kRange) != 0) return Problem::orphan_range;
  if ((r.reasons & orphan::kReserved) != 0) return Problem::orphan_reserved;
  if ((r.reasons & orphan::kSpecial) != 0) return Problem::orphan_special;
  if ((r.reasons & orphan::kFree) != 0) return Problem::orphan_free;
  if ((r.reasons & orphan::kDuplicate) != 0) return Problem::orphan_duplicate;
  if ((r.reasons & orphan::kWrongType) != 0) return Problem::orphan_type;
  if (r.reasons != 0 && (r.reasons & ~kNormal) == 0) return std::nullopt;
  return Problem::orphan_invalid;
}

/// True: the list is broken and may be cut; what hung behind the break is lost
/// to it and has to be searched for.
bool judge_list(Session& s, const orphan::Plan& plan) {
  using End = orphan::ListReport::End;
  const orphan::ListReport& l = plan.list;
  if (l.end == End::clean || l.end == End::unreadable) return false;  // the second is left, and reported with its inode
  const std::string after = l.before == 0 ? "the superblock" : fmt::format("inode {}", l.before);
  const std::string reason = l.end == End::range ? "past the last inode" : std::string(orphan::to_string(l.end));
  const Problem p = l.end == End::loop ? Problem::orphan_list_loop : Problem::orphan_list_broken;
  return s.judge.found(p, {.ino = l.bad},
                       {arg("after", after), arg("ino", std::uint64_t{l.bad}), arg("why", reason)});
}

/// Tells the judge about each record that is not a plain orphan. One whose
/// repair was declined is left alone.
void judge_records(Session& s, orphan::Plan& plan, std::uint32_t block_bytes) {
  for (Record& r : plan.records) {
    const report::Place place = place_of(r, block_bytes);
    std::vector<report::Arg> args = {arg("where", where_of(r)), arg("ino", std::uint64_t{r.ino}), arg("why", why_of(r))};
    switch (r.action) {
      case Action::erase:
      case Action::truncate: break;
      case Action::leave: s.judge.found(Problem::orphan_left, place, std::move(args)); break;
      case Action::fix_links:
        if (!s.judge.found(Problem::orphan_named, place, std::move(args))) r.action = Action::leave;
        break;
      case Action::drop: {
        // The list's own break was reported with the list.
        const bool end_of_list = r.source == orphan::Source::list && r.ino == plan.list.bad &&
                                 plan.list.end != orphan::ListReport::End::clean;
        const auto problem = problem_of(r);
        if (problem && !end_of_list && !s.judge.found(*problem, place, std::move(args))) r.action = Action::leave;
        if (problem == Problem::orphan_type && r.links == 0)
          s.judge.found(Problem::orphan_stray, {.ino = r.ino}, {arg("named", std::uint64_t{r.ino})});
        break;
      }
    }
  }
}

void say_released(Session& s, const Record& r) {
  const char* verb = r.action == Action::erase ? "Clearing" : r.action == Action::truncate ? "Truncating" : nullptr;
  if (verb == nullptr) return;
  // A million of these are a measurable part of a run, so the format is compiled.
  fmt::memory_buffer line;
  fmt::format_to(std::back_inserter(line), FMT_COMPILE("{} orphaned inode {} (uid={}, gid={}, mode=0{:o}, size={})"),
                 std::string_view(verb), r.ino, r.uid, r.gid, r.mode, r.size_bytes);
  s.judge.say_orphan(std::string_view(line.data(), line.size()));
}

/// Orphans on a file system that claims to need no recovery: a snapshot of a
/// frozen one, or the work of an older tool. Releasing them is recovery; with
/// -n it must still be heard of.
void judge_waiting(Session& s, const orphan::Totals& totals) {
  const std::uint64_t waiting = totals.erase + totals.truncate;
  if (waiting != 0 && !s.recovered && !s.judge.writes())
    s.judge.found(Problem::orphans_waiting, {}, {arg("count", waiting)});
}

/// The list's head went with the superblock: whoever is allocated with links 0
/// and on no list was on it.
Result<void> list_the_unlisted(Session& s, orphan::Volume& v) {
  s.unlisted_orphans = false;
  const orphan::Plan plan = E4_TRY(orphan::classify(v, {.names = orphan::ClassifyOptions::Names::never, .find_unlisted = true}));
  std::vector<Ino> found;
  for (const Record& r : plan.records)
    if (r.source == orphan::Source::unlisted && r.action == Action::erase) found.push_back(r.ino);
  return put_on_list(v, found);
}

}  // namespace

Result<void> orphan_phase(Session& s) {
  orphan::Volume v = E4_TRY(orphan::Volume::load(*s.overlay));
  if (s.unlisted_orphans) E4_TRY(list_the_unlisted(s, v));
  orphan::Plan plan = E4_TRY(orphan::classify(v));
  if (judge_list(s, plan) && plan.list.end != orphan::ListReport::End::loop) {
    E4_TRY(list_the_unlisted(s, v));
    plan = E4_TRY(orphan::classify(v));
  }
  for (const std::string& o : plan.obstacles) s.judge.found(Problem::orphan_obstacle, {}, {arg("what", o)});
  judge_records(s, plan, v.geo().block_bytes);
  const orphan::Totals totals = plan.totals();
  judge_waiting(s, totals);
  const std::uint64_t all = plan.records.size();
  if (all == 0 && plan.list.end == orphan::ListReport::End::clean) return {};

  std::uint64_t done = 0;
  orphan::ReleaseOptions options;
  options.now = s.options.now;
  options.done = [&](const Record& r) {
    say_released(s, r);
    s.progress.step(++done, all);
  };
  // What earlier phases repaired goes out first, so that a batch has the whole log to itself.
  E4_TRY(commit(s));
  if (s.committer && s.committer->capacity_blocks() != 0)
    // A batch that stays in the caches is cheaper than the fewest possible commits.
    options.capacity_blocks = static_cast<std::size_t>(
        std::min<std::uint64_t>(s.committer->capacity_blocks(), std::max<std::uint64_t>(1024, kBatchBytes / s.overlay->block_bytes())));
  orphan::Releaser releaser(v, plan, options);
  while (E4_TRY(releaser.batch())) {
    E4_TRY(commit(s));
    if (s.stop_requested()) {
      s.ended = s.cancelled = true;
      break;
    }
  }
  const orphan::ReleaseTotals& t = releaser.totals();
  report::OrphanVerdict& o = s.verdict.orphans;
  o.deleted += t.erased;
  o.truncated += t.truncated;
  o.dropped += t.dropped + t.relinked;
  o.left = t.left;
  o.freed_blocks += t.freed_bytes / v.geo().block_bytes;
  return {};
}

}  // namespace e4::check
