// SPDX-License-Identifier: GPL-2.0-only
// Making a file system, beside mke2fs on the same machine in the same run: medians of alternating runs.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/support/child.h"
#include "tests/support/temp_dir.h"

namespace {

using e4::testing_support::ChildRun;
using e4::testing_support::run_child;

struct Median {
  double wall_s = 0, cpu_s = 0;
  std::uint64_t peak_kib = 0;
};

Median median(std::vector<ChildRun> runs) {
  const auto middle = [&](auto of) {
    std::ranges::sort(runs, {}, of);
    return of(runs[runs.size() / 2]);
  };
  return {middle([](const ChildRun& r) { return r.wall_s; }), middle([](const ChildRun& r) { return r.cpu_s(); }),
          middle([](const ChildRun& r) { return r.peak_kib; })};
}

}  // namespace

int main() {
  const char* bin = std::getenv("E4_BIN");
  const std::string ours = std::string(bin != nullptr ? bin : "build/bin") + "/e4mkfs";
  std::puts("e4mkfs against mke2fs (ext4 with orphan_file, new sparse file), median of 7 runs\n"
            "size    options                   wall ours/theirs         CPU ours/theirs         peak MiB ours/theirs");
  struct Case {
    const char* size;
    std::vector<std::string> options;
  };
  for (const Case& c : {Case{"1G", {}}, Case{"100G", {}}, Case{"1T", {}}, Case{"100G", {"-O", "bigalloc"}},
                        Case{"100G", {"-E", "lazy_itable_init=0"}}}) {
    std::vector<ChildRun> mine, theirs;
    for (int i = 0; i < 7; ++i) {
      for (const bool us : {true, false}) {
        const e4::testing_support::TempDir dir;
        std::vector<std::string> argv = {us ? ours : "mke2fs"};
        if (us) argv.emplace_back("-q");
        else argv.insert(argv.end(), {"-q", "-F", "-t", "ext4", "-O", "orphan_file"});
        argv.insert(argv.end(), c.options.begin(), c.options.end());
        argv.insert(argv.end(), {dir / "x", c.size});
        const ChildRun r = run_child(argv);
        if (r.status != 0) {
          fmt::print("{} failed with {}\n", argv[0], r.status);
          return 1;
        }
        (us ? mine : theirs).push_back(r);
      }
    }
    const Median a = median(mine), b = median(theirs);
    std::string text;
    for (const std::string& o : c.options) text += o + " ";
    fmt::print("{:<7} {:<24} {:6.3f}/{:6.3f} = {:5.2f}x   {:6.3f}/{:6.3f} = {:5.2f}x   {:7.1f}/{:7.1f} = {:5.2f}x\n", c.size,
               text, a.wall_s, b.wall_s, a.wall_s / b.wall_s, a.cpu_s, b.cpu_s, a.cpu_s / b.cpu_s,
               static_cast<double>(a.peak_kib) / 1024, static_cast<double>(b.peak_kib) / 1024,
               static_cast<double>(a.peak_kib) / static_cast<double>(b.peak_kib));
  }
  return 0;
}
