// SPDX-License-Identifier: GPL-2.0-only
// The allocator beside libext2fs's on the same bitmaps: allocate two blocks and free them, near the last goal, at random
// goals, from goal 0; and what it costs to get ready: building buddies from fragmented bitmaps, opening without reading them.
//   alloc_libext2fs [GROUPS] [MILLISECONDS A CELL]
#include <ext2fs/ext2fs.h>
#include <fmt/core.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <functional>

#include "alloc/allocator.h"
#include "base/random.h"
#include "image/filsys.h"
#include "space/image_space.h"

namespace {

using namespace e4;
using namespace e4::alloc;
using Clock = std::chrono::steady_clock;

double cpu_ns() {
  rusage u{};
  ::getrusage(RUSAGE_SELF, &u);
  const auto s = [](const timeval& t) { return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_usec) * 1e3; };
  return s(u.ru_utime) + s(u.ru_stime);
}

/// A device of any size that holds nothing: layouts live in libext2fs's memory, and nothing is ever flushed.
class Hollow final : public image::Device {
 public:
  explicit Hollow(std::uint64_t bytes) : bytes_(bytes) {}
  Result<void> read(std::uint64_t, std::span<std::byte> out) override {
    std::ranges::fill(out, std::byte{0});
    return {};
  }
  Result<void> write(std::uint64_t, std::span<const std::byte>) override { return {}; }
  Result<void> flush() override { return {}; }
  [[nodiscard]] std::uint64_t size() const override { return bytes_; }
  [[nodiscard]] bool writable() const override { return true; }
  [[nodiscard]] const std::string& name() const override { return name_; }

 private:
  std::uint64_t bytes_;
  std::string name_ = "hollow";
};

/// CPU nanoseconds of one call of `pair`, over about the given time.
double measure(double milliseconds, const std::function<void()>& pair) {
  std::uint64_t n = 0;
  const double start = cpu_ns();
  const auto end = Clock::now() + std::chrono::duration<double, std::milli>(milliseconds);
  do {
    for (int i = 0; i < 64; ++i, ++n) pair();
  } while (Clock::now() < end);
  return (cpu_ns() - start) / static_cast<double>(n);
}

}  // namespace

int main(int argc, char** argv) {
  const auto groups = static_cast<GroupNo>(argc > 1 ? std::atoi(argv[1]) : 2048);
  const double ms = argc > 2 ? std::atof(argv[2]) : 200;
  const Blk blocks = Blk{groups} * 32768;
  Hollow device(blocks * 4096);
  ext2_super_block wishes{};
  wishes.s_log_block_size = wishes.s_log_cluster_size = 2;
  ext2fs_blocks_count_set(&wishes, blocks);
  wishes.s_feature_incompat = EXT4_FEATURE_INCOMPAT_64BIT | EXT3_FEATURE_INCOMPAT_EXTENTS | EXT4_FEATURE_INCOMPAT_FLEX_BG;
  ext2fs_blocks_count_set(&wishes, blocks);
  wishes.s_log_groups_per_flex = 4;
  auto fs = image::Filsys::create(device, wishes);
  if (!fs) return std::fprintf(stderr, "%s\n", fs.error().message().c_str()), 1;
  ext2_filsys raw = fs->raw();

  // 95 % full, free runs of 1 to 64 blocks.
  Geometry g = space::geometry_of(fs->super());
  MountOptions m;
  MemorySource source(g);
  Random random(1);
  for (GroupNo i = 0; i < g.groups(); ++i) {
    const std::uint32_t clusters = g.clusters_in(i);
    source.set_used(i, 0, clusters);
    for (std::uint32_t free = 0; free < clusters / 20;) {
      const auto n = static_cast<std::uint32_t>(random.between(1, random.one_in(8) ? 64 : 8));
      source.set_free(i, static_cast<std::uint32_t>(random.below(clusters - 64)), n);
      free += n;
    }
    const auto words = source.words(i);
    for (std::uint32_t c = 0; c < clusters;) {
      std::uint32_t end = c;
      const bool used = (words[c / 64] >> (c % 64)) & 1;
      while (end < clusters && (((words[end / 64] >> (end % 64)) & 1) != 0) == used) ++end;
      if (used) ext2fs_mark_block_bitmap_range2(raw->block_map, g.block_of(i, c), end - c);
      c = end;
    }
    ext2fs_bg_free_blocks_count_set(raw, i, source.descriptor(i).free_clusters);
  }

  const double open_start = cpu_ns();
  auto a = std::move(*Allocator::create(g, m, Tunables::defaults(g, m), {}, source));
  Outcome out;
  Request rq;
  rq.ino = 12;
  rq.len_clusters = 2;
  rq.goal = blocks / 2;
  a->allocate(rq, out);
  const double open_ns = cpu_ns() - open_start;
  const std::uint64_t read_by_then = a->stats().groups_loaded;
  if (!a->load_all()) return 1;
  const Stats st = a->stats();
  fmt::print("{} groups, 95 % full, free runs of 1 to 64 blocks\n", groups);
  fmt::print("open and first allocation     {:>10.1f} us, {} groups read by then\n", open_ns / 1e3, read_by_then);
  fmt::print("building a group's buddies    {:>10.2f} us wall (a 6.18 kernel's mb_stats: 42 us)\n",
             static_cast<double>(st.load_ns) / 1e3 / static_cast<double>(st.groups_loaded));
  fmt::print("memory a group                {:>10} bytes untouched, {} touched\n\n", st.memory_untouched_bytes / groups,
             st.memory_touched_bytes / st.groups_loaded);

  const auto ours = [&](Blk goal) {
    rq.goal = goal;
    rq.flags = kHintTryGoal;
    if (a->allocate(rq, out) != Status::ok) std::abort();
    FreeRequest f;
    f.block = out.block;
    f.count_blocks = out.len;
    f.when = FreeRequest::When::at_once;
    if (!a->free(f)) std::abort();
    return out.block;
  };
  const auto theirs = [&](Blk goal) {
    // As its own tools do: a block, then the next with the first as its goal.
    blk64_t pair[2] = {goal, goal};
    for (blk64_t& at : pair) {
      if (ext2fs_new_block3(raw, &at == pair ? goal : pair[0] + 1, raw->block_map, &at, nullptr) != 0) std::abort();
      ext2fs_block_alloc_stats2(raw, at, +1);
    }
    for (const blk64_t at : pair) ext2fs_block_alloc_stats2(raw, at, -1);
    return static_cast<Blk>(pair[0]);
  };
  fmt::print("{:<28} {:>12} {:>12} {:>8}\n", "two blocks, allocate + free", "libext2fs ns", "ours ns", "ratio");
  const auto row = [&](const char* name, auto goal_for) {
    Random r1(5), r2(5);
    Blk last = blocks / 3;
    const double t = measure(ms, [&] { last = theirs(goal_for(r1, last)); });
    last = blocks / 3;
    const double o = measure(ms, [&] { last = ours(goal_for(r2, last)); });
    fmt::print("{:<28} {:>12.0f} {:>12.0f} {:>7.1f}x\n", name, t, o, t / o);
  };
  row("near the last", [](Random&, Blk last) { return last; });
  row("random goals", [blocks](Random& r, Blk) { return 1 + r.below(blocks - 2); });
  row("from goal 0", [](Random&, Blk) { return Blk{0}; });
  return 0;
}
