// SPDX-License-Identifier: GPL-2.0-only
// Replaying a full log: ours beside e2fsck -E journal_only, each in a process
// of its own, on copies of one image in one run. CPU is user + system.
//   journal_bench [LOG_MIB] [RUNS]
#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/random.h"
#include "journal/fs_super.h"
#include "journal/layout.h"
#include "journal/log_writer.h"
#include "journal/writeback.h"
#include "support/child.h"
#include "support/temp_dir.h"

namespace {

using namespace e4;
using namespace e4::testing_support;

constexpr std::uint32_t kBlockBytes = 4096, kTransactionBlocks = 1000;

// Transactions of 1000 blocks with checksums v3 until the ring is full; homes
// in runs of eight, scattered over the file system wherever data may be.
Result<std::uint64_t> fill_log(const std::string& path) {
  auto device = E4_TRY(image::open_file(path, {.writable = true}));
  image::Filsys fs = E4_TRY(image::Filsys::open(*device));
  journal::Log log = E4_TRY(journal::Log::open(*device, fs));
  journal::SuperOnDisk raw = log.super().raw;
  raw.s_feature_incompat = journal::kIncompatCsumV3 | journal::kIncompat64bit | journal::kIncompatRevoke;
  raw.s_checksum_type = journal::kChecksumTypeCrc32c;
  raw.s_start = raw.s_first;
  E4_TRY(log.write_super(*device, raw));
  log = E4_TRY(journal::Log::open(*device, fs));
  const std::uint64_t blocks = ext2fs_blocks_count(&fs.super());
  journal::LogWriter writer(*device, log, raw.s_first, raw.s_sequence);
  const journal::Layout layout(fs);
  Random random(1);
  std::vector<std::byte> block(kBlockBytes);
  const std::uint64_t room = log.super().ring_blocks();
  std::uint64_t logged = 0;
  while (writer.blocks_written() + journal::LogWriter::blocks_needed(log.format(), kTransactionBlocks) <= room) {
    for (std::uint32_t i = 0; i < kTransactionBlocks; i += 8) {
      Blk home = 0;
      do {
        home = 8 + random.below(blocks - 16) / 8 * 8;
      } while (layout.first_in(home, 8) || log.holds(home) || log.holds(home + 7));
      for (std::uint32_t k = 0; k < 8; ++k) {
        for (std::size_t at = 0; at < block.size(); at += 8) store<le64>(block.data(), at, random.next());
        E4_TRY(writer.add(home + k, block));
        ++logged;
      }
    }
    E4_TRY(writer.commit({.sec = 1700000000 + writer.tid(), .nsec = 0}));
  }
  auto super = E4_TRY(journal::FsSuper::read(*device));
  super.set_recover(true);
  E4_TRY(super.write(*device));
  E4_TRY(device->flush());
  return logged;
}

// What a child of this program does.
Result<void> replay(const std::string& path, bool write) {
  auto device = E4_TRY(image::open_file(path, {.writable = write}));
  if (write) {
    E4_TRY(journal::recover(*device));
    return {};
  }
  image::Filsys fs = E4_TRY(image::Filsys::open(*device));
  const journal::RecoveryPlan plan = E4_TRY(journal::plan_recovery(*device, fs));
  if (plan.verdict != journal::Verdict::ok) {
    return make_error(ErrorKind::corrupt, plan.problems.empty() ? to_string(plan.verdict) : plan.problems[0].text());
  }
  image::Overlay overlay(*device, fs.block_bytes());
  return journal::apply(plan, overlay);
}

int child(const std::string& path, bool write) {
  const auto r = replay(path, write);
  if (!r) fmt::print(stderr, "journal_bench: {}\n", r.error().message());
  return r ? 0 : 1;
}

ChildRun median_of(std::vector<ChildRun> runs) {
  std::ranges::sort(runs, {}, [](const ChildRun& r) { return r.cpu_s(); });
  return runs[runs.size() / 2];
}

void row(const char* what, const ChildRun& r, const ChildRun& theirs) {
  fmt::print("{:<28} {:>8.2f} {:>8.2f} {:>8.2f} {:>9.2f}x {:>9.2f}x {:>10.1f}\n", what, r.user_s, r.system_s, r.wall_s,
             r.cpu_s() / theirs.cpu_s(), r.wall_s / theirs.wall_s, static_cast<double>(r.peak_kib) / 1024);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--replay") return child(argv[2], true);
  if (argc == 3 && std::string(argv[1]) == "--look") return child(argv[2], false);
  const int log_mib = argc > 1 ? std::atoi(argv[1]) : 1024;
  const int runs = argc > 2 ? std::atoi(argv[2]) : 3;
  TempDir dir;
  const std::string image = dir / "image", work = dir / "work", theirs_image = dir / "theirs";
  if (run_child({"mke2fs", "-F", "-q", "-t", "ext4", "-b", "4096", "-J", fmt::format("size={}", log_mib), "-E",
                 "lazy_itable_init=1,lazy_journal_init=1", image, fmt::format("{}M", 4 * log_mib)})
          .status != 0) {
    fmt::print(stderr, "journal_bench: mke2fs failed\n");
    return 1;
  }
  const auto logged = fill_log(image);
  if (!logged) {
    fmt::print(stderr, "journal_bench: {}\n", logged.error().message());
    return 1;
  }
  const auto fresh = [&](const std::string& to) { return run_child({"cp", "--sparse=always", image, to}).status == 0; };
  std::vector<ChildRun> ours, looks, theirs;
  for (int i = 0; i < runs; ++i) {
    if (!fresh(work)) return 1;
    looks.push_back(run_child({argv[0], "--look", work}));
    ours.push_back(run_child({argv[0], "--replay", work}));
    if (!fresh(theirs_image)) return 1;
    theirs.push_back(run_child({"e2fsck", "-E", "journal_only", "-y", theirs_image}));
    if (looks.back().status != 0 || ours.back().status != 0 || theirs.back().status > 1) {
      fmt::print(stderr, "journal_bench: exit statuses {}, {}, e2fsck {}\n", looks.back().status, ours.back().status,
                 theirs.back().status);
      return 1;
    }
    // Both must have come to the same; the journal and the superblock apart.
    if (i == 0 && run_child({"cmp", fmt::format("--ignore-initial={}", 2ULL * log_mib << 20), work, theirs_image}).status != 0) {
      fmt::print(stderr, "journal_bench: the two replays differ\n");
      return 1;
    }
  }
  const ChildRun t = median_of(theirs);
  fmt::print("replay of a {} MiB log, {} blocks logged (median of {})\n", log_mib, *logged, runs);
  fmt::print("{:<28} {:>8} {:>8} {:>8} {:>10} {:>10} {:>10}\n", "", "user s", "sys s", "wall s", "CPU", "wall", "peak MiB");
  row("e2fsck -E journal_only", t, t);
  row("ours", median_of(ours), t);
  row("ours, in memory only", median_of(looks), t);
  return 0;
}
