// SPDX-License-Identifier: GPL-2.0-only
// Releasing N orphans (orphan file full, the rest on the list): e4fsck -y beside
// e2fsck -fy and, where root allows, the kernel's own mount, on copies of one
// image in one run. CPU is user + system of the process that does the work;
// the kernel's clean-up runs inside mount(8).
//   recovery_bench [ORPHANS] [RUNS]
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "support/child.h"
#include "support/orphan_image.h"
#include "support/temp_dir.h"

namespace {

using namespace e4::testing_support;

ChildRun median_of(std::vector<ChildRun> runs) {
  std::sort(runs.begin(), runs.end(), [](const ChildRun& a, const ChildRun& b) { return a.cpu_s() < b.cpu_s(); });
  return runs[runs.size() / 2];
}

void row(const char* what, const ChildRun& r, const ChildRun& ours) {
  fmt::print("{:<28} {:>8.2f} {:>8.2f} {:>10.3f} {:>10.3f} {:>10.1f}\n", what, r.cpu_s(), r.wall_s,
             ours.cpu_s() / r.cpu_s(), ours.wall_s / r.wall_s, static_cast<double>(r.peak_kib) / 1024);
}

}  // namespace

int main(int argc, char** argv) {
  const auto orphans = static_cast<std::uint32_t>(argc > 1 ? std::atol(argv[1]) : 1000000);
  const int runs = argc > 2 ? std::atoi(argv[2]) : 3;
  const char* bin = std::getenv("E4_BIN");
  const std::string e4fsck = std::string(bin != nullptr ? bin : "build/bin") + "/e4fsck";
  TempDir dir;
  const std::string img = dir / "img", work = dir / "work", mnt = dir / "mnt";
  auto made = make_orphan_image(img, {.orphans = orphans});
  if (!made) {
    fmt::print(stderr, "recovery_bench: {}\n", made.error().message());
    return 1;
  }
  auto fresh = [&] { return run_child({"cp", "--sparse=always", img, work}).status == 0; };
  std::vector<ChildRun> ours, theirs, kernel;
  for (int i = 0; i < runs; ++i) {
    if (!fresh()) return 1;
    ours.push_back(run_child({e4fsck, "-y", work}, dir / "log"));
    if (ours.back().status > 1 || run_child({"e2fsck", "-fn", work}).status != 0) {
      fmt::print(stderr, "recovery_bench: e4fsck -y exits {} or leaves the image unclean\n", ours.back().status);
      return 1;
    }
    if (!fresh()) return 1;
    theirs.push_back(run_child({"e2fsck", "-fy", work}, dir / "log"));
  }
  if (::geteuid() == 0) {
    run_child({"mkdir", mnt});
    for (int i = 0; i < runs; ++i) {
      if (!fresh()) return 1;
      const ChildRun r = run_child({"mount", "-o", "loop", work, mnt}, dir / "log");
      if (r.status != 0) break;
      kernel.push_back(r);
      run_child({"umount", mnt});
    }
  }
  fmt::print("releasing {} orphans (median of {})\n", orphans, runs);
  fmt::print("{:<28} {:>8} {:>8} {:>10} {:>10} {:>10}\n", "", "CPU s", "wall s", "ours/CPU", "ours/wall", "peak MiB");
  const ChildRun o = median_of(ours);
  row("e4fsck -y", o, o);
  row("e2fsck -fy", median_of(theirs), o);
  if (kernel.empty())
    fmt::print("kernel mount: not run (needs root and loop devices)\n");
  else
    row("kernel mount", median_of(kernel), o);
  return 0;
}
