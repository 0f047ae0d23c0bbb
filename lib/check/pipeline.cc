// SPDX-License-Identifier: GPL-2.0-only
#include "check/pipeline.h"

#include "check/session.h"

namespace e4::check {

namespace {

struct Phase {
  std::string_view label;
  Result<void> (*run)(Session&);
};

// In this order: each phase may rely on what the ones above it proved.
constexpr Phase kPhases[] = {
    {"superblock", super_phase},   {"group descriptors", descriptor_phase},        {"bitmaps", bitmap_phase},
    {"orphan file", orphan_file_phase}, {"orphans", orphan_phase}, {"orphan file state", orphan_file_after_phase},
};
// A repair may uncover the next fault; what a run has not settled after so many rounds it reports as left.
constexpr int kRoundsMax = 3;

void say_not_checked(const Session& s, report::Verdict& v) {
  v.not_checked = {"inodes and block maps", "directories", "connectivity", "link counts"};
  if (!s.all_bitmaps) v.not_checked.emplace_back("bitmaps of groups recovery did not touch");
  v.not_checked.emplace_back("owners of bits in the bitmaps");
  if (s.incompatible || s.ended) v.not_checked.emplace_back("whatever comes after the point where the check stopped");
}

Result<void> run(Session& s, image::Device& device) {
  int number = 1;
  s.progress.phase(number++, "open");
  E4_TRY(open_phase(s, device));
  if (s.ended) return {};
  if (s.incompatible) return super_phase(s);
  s.progress.phase(number++, "journal");
  E4_TRY(journal_phase(s));
  if (s.judge.halted() || s.ended) return {};
  if (s.stop_requested()) {
    s.cancelled = s.abandoned = true;
    return {};
  }
  if (s.plan.has_work()) {
    note_touched(s);
    if (s.plan.complete() || s.empty_damaged_log) E4_TRY(commit(s));
  }
  for (int round = 0; round < kRoundsMax; ++round) {
    const std::uint64_t before = s.judge.fixed_count();
    for (const Phase& p : kPhases) {
      if (s.ended || s.judge.halted()) break;
      s.progress.phase(number++, p.label);
      E4_TRY(p.run(s));
    }
    if (s.ended || s.judge.halted() || s.judge.fixed_count() == before) break;
  }
  s.progress.phase(number, "writing");
  return finish_phase(s);
}

}  // namespace

Outcome check_image(image::Device& device, const Options& options, report::Sink& sink, report::Progress& progress) {
  Outcome out;
  Judge judge(options.mode, sink);
  Session s{.options = options, .judge = judge, .verdict = out.verdict, .progress = progress};
  if (auto r = run(s, device); !r) out.error = std::move(r).error();
  progress.done();
  if (s.abandoned || judge.writes_refused() || (out.error && !s.committer)) judge.retract();
  report::Verdict& v = out.verdict;
  if (s.committer) v.bytes_written = s.committer->stats().bytes_written;
  v.found = judge.found_count();
  v.fixed = judge.fixed_count();
  v.left = judge.left_count();
  v.halted = judge.halted();
  out.cancelled = s.cancelled;
  out.refused_feature = s.incompatible || (judge.writes_refused() && options.mode != Mode::read_only && v.changed);
  say_not_checked(s, v);
  return out;
}

}  // namespace e4::check
