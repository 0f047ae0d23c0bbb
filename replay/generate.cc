// SPDX-License-Identifier: GPL-2.0-only
#include "replay/generate.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "image/container.h"
#include "image/overlay.h"
#include "replay/materialize.h"
#include "replay/synth_fs.h"
#include "replay/world.h"
#include "trace/reader.h"

namespace e4::replay {
namespace {

namespace fs = std::filesystem;
constexpr std::uint32_t kDevice = trace::make_dev(7, 0);
constexpr std::uint32_t kFile = S_IFREG | 0644, kDirectory = S_IFDIR | 0755;

/// One workload in progress.
struct Bench {
  SynthFs& fs;
  Random rng;
  const GenerateOptions& options;
  std::uint32_t count;
  std::string stopped;

  bool stop(const char* why) {
    stopped = why;
    return false;
  }
  void as(std::uint32_t worker) { fs.run_as("workload", 1000 + worker, worker % options.cpus); }
  Ino make(Ino dir, std::uint32_t mode, std::size_t name_bytes) {
    const Ino ino = fs.create(dir, mode);
    if (ino == 0) {
      stopped = "no inode free";
      return 0;
    }
    if (!fs.add_name(dir, name_bytes)) {
      stopped = "no space for a name";
      return 0;
    }
    return ino;
  }
  /// Small files are common, large ones hold the bytes: the shape of a source tree or a home directory.
  std::uint64_t file_bytes(std::uint64_t most) {
    std::uint64_t n = 1 + rng.below(6000);
    while (n < most && rng.one_in(3)) n *= 4;
    return std::min(n, most);
  }
};

// will-it-scale's fallocate2: each process grows an unlinked file in 8 KiB steps to 1 MiB, truncates it to nothing, again.
bool fallocate2(Bench& b) {
  std::vector<Ino> files;
  for (std::uint32_t w = 0; w < b.options.cpus; ++w) {
    b.as(w);
    const Ino ino = b.make(2, kFile, 12);
    if (ino == 0) return false;
    b.fs.open(ino);
    b.fs.unlink(ino);
    files.push_back(ino);
  }
  for (std::uint32_t i = 0; i < b.count; ++i) {
    for (std::uint32_t w = 0; w < b.options.cpus; ++w) {
      b.as(w);
      b.fs.advance(4000);
      const std::uint64_t at = b.fs.size(files[w]);
      if (at >= kMiB)
        b.fs.truncate(files[w], 0);
      else if (!b.fs.fallocate(files[w], at, 8 * kKiB))
        return b.stop("no space");
    }
    if (i % 5000 == 4999) b.fs.commit();
  }
  for (const Ino ino : files) b.fs.close(ino);
  return true;
}

// Many files are held open after their last name went: what fills the orphan file.
bool stress_orphan(Bench& b) {
  std::vector<Ino> open;
  for (std::uint32_t i = 0; i < b.count; ++i) {
    b.as(static_cast<std::uint32_t>(b.rng.below(b.options.cpus)));
    b.fs.advance(20000);
    if (open.size() < 200 || b.rng.one_in(2)) {
      const Ino ino = b.make(2, kFile, 10);
      if (ino == 0) return false;
      b.fs.open(ino);
      if (!b.fs.write(ino, 0, b.file_bytes(256 * kKiB)) || !b.fs.flush(ino, false)) return b.stop("no space");
      b.fs.unlink(ino);
      open.push_back(ino);
    } else {
      const std::size_t at = b.rng.below(open.size());
      if (b.rng.one_in(3)) {
        b.fs.truncate(open[at], b.rng.below(b.fs.size(open[at]) + 1));
      } else {
        b.fs.close(open[at]);
        open[at] = open.back();
        open.pop_back();
      }
    }
    if (i % 400 == 399) b.fs.commit();
  }
  return true;
}

bool create_unlink(Bench& b) {
  std::vector<Ino> live;
  for (std::uint32_t i = 0; i < b.count; ++i) {
    b.as(static_cast<std::uint32_t>(b.rng.below(b.options.cpus)));
    b.fs.advance(15000);
    if (live.size() < 100 || b.rng.one_in(2)) {
      const Ino ino = b.make(2, kFile, 14);
      if (ino == 0) return false;
      if (!b.fs.write(ino, 0, b.file_bytes(64 * kKiB))) return b.stop("no space");
      b.fs.close(ino);
      live.push_back(ino);
      if (b.rng.one_in(4) && !b.fs.flush(ino, true)) return b.stop("no space");
    } else {
      const std::size_t at = b.rng.below(live.size());
      b.fs.unlink(live[at]);
      live[at] = live.back();
      live.pop_back();
    }
    if (i % 500 == 499) {
      for (const Ino ino : live)
        if (!b.fs.flush(ino, true)) return b.stop("no space");
      b.fs.commit();
    }
  }
  for (const Ino ino : live)
    if (!b.fs.flush(ino, true)) return b.stop("no space");
  return true;
}

bool untar(Bench& b) {
  std::vector<Ino> dirs{2};
  std::vector<Ino> unflushed;
  b.as(0);
  for (std::uint32_t i = 0; i < b.count; ++i) {
    b.fs.advance(30000);
    if (b.rng.one_in(12)) {
      const Ino dir = b.make(dirs[dirs.size() - 1 - b.rng.below(std::min<std::uint64_t>(dirs.size(), 4))], kDirectory, 8 + b.rng.below(12));
      if (dir == 0) return false;
      dirs.push_back(dir);
      continue;
    }
    const Ino ino = b.make(dirs.back(), kFile, 6 + b.rng.below(20));
    if (ino == 0) return false;
    if (!b.fs.write(ino, 0, b.file_bytes(4 * kMiB))) return b.stop("no space");
    b.fs.close(ino);
    unflushed.push_back(ino);
    if (i % 300 == 299) {  // the flusher comes by
      for (const Ino f : unflushed)
        if (!b.fs.flush(f, true)) return b.stop("no space");
      unflushed.clear();
      b.fs.commit();
    }
  }
  for (const Ino f : unflushed)
    if (!b.fs.flush(f, true)) return b.stop("no space");
  return true;
}

bool append_logs(Bench& b) {
  std::vector<Ino> logs;
  for (std::uint32_t i = 0; i < 12; ++i) {
    b.as(i);
    logs.push_back(b.make(2, kFile, 10));
    if (logs.back() == 0) return false;
  }
  for (std::uint32_t i = 0; i < b.count; ++i) {
    const std::size_t at = b.rng.below(logs.size());
    b.as(static_cast<std::uint32_t>(at));
    b.fs.advance(100000);
    if (!b.fs.write(logs[at], b.fs.size(logs[at]), 80 + b.rng.below(9000))) return b.stop("no space");
    if (b.rng.one_in(3) && !b.fs.flush(logs[at], false)) return b.stop("no space");
    if (b.fs.size(logs[at]) > 2 * kMiB) {  // rotated: a new file under the old name, the old one goes
      b.fs.close(logs[at]);
      b.fs.unlink(logs[at]);
      logs[at] = b.make(2, kFile, 10);
      if (logs[at] == 0) return false;
    }
    if (i % 250 == 249) b.fs.commit();
  }
  for (const Ino ino : logs)
    if (!b.fs.flush(ino, true)) return b.stop("no space");
  return true;
}

// Fills to the wanted level, then replaces files at random: free space ends in pieces.
bool ageing(Bench& b) {
  const std::uint64_t total = b.fs.free_blocks();
  const std::uint64_t keep_free = total - total * std::min(b.options.fill_percent, 99U) / 100;
  std::vector<Ino> live;
  for (std::uint32_t i = 0; i < b.count; ++i) {
    b.as(static_cast<std::uint32_t>(b.rng.below(b.options.cpus)));
    b.fs.advance(50000);
    if (b.fs.free_blocks() > keep_free) {
      const Ino ino = b.make(2, kFile, 12);
      if (ino == 0) return false;
      const std::uint64_t room = (b.fs.free_blocks() - keep_free) * b.fs.block_bytes();
      const std::uint64_t most = std::max<std::uint64_t>(b.fs.block_bytes(), std::min<std::uint64_t>(room, total * b.fs.block_bytes() / 64));
      if (!b.fs.write(ino, 0, b.file_bytes(most)) || !b.fs.flush(ino, true)) return b.stop("no space");
      b.fs.close(ino);
      live.push_back(ino);
    } else {
      for (std::uint64_t n = 1 + b.rng.below(8); n != 0 && !live.empty(); --n) {
        const std::size_t at = b.rng.below(live.size());
        b.fs.unlink(live[at]);
        live[at] = live.back();
        live.pop_back();
      }
      b.fs.commit();
    }
  }
  b.fs.commit();
  return true;
}

struct Workload {
  WorkloadInfo info;
  bool (*go)(Bench&);
};
constexpr Workload kWorkloads[] = {
    {{"fallocate2", "grow unlinked files in 8 KiB steps to 1 MiB, truncate, again", 8000}, fallocate2},
    {{"stress-orphan", "files held open after their last name went", 3000}, stress_orphan},
    {{"create-unlink", "small files made and removed", 4000}, create_unlink},
    {{"untar", "a tree of directories and files", 3000}, untar},
    {{"append-logs", "logs that grow a little at a time, and are rotated", 4000}, append_logs},
    {{"ageing", "fill to a level, then replace files at random", 6000}, ageing},
};

/// Runs e4mkfs from beside this program, else from PATH.
Result<void> make_image(const GenerateOptions& o, const std::string& path) {
  std::error_code ec;
  std::string tool = (fs::read_symlink("/proc/self/exe", ec).parent_path() / "e4mkfs").string();
  if (ec || !fs::exists(tool, ec)) tool = "e4mkfs";
  // A fixed identity: the same seed must give the same bytes.
  const std::vector<std::string> argv{tool, "-q", "-F", "-b", std::to_string(o.block_bytes), "-U", "e4e4e4e4-0000-4000-8000-000000000001",
                                      "-E", "hash_seed=e4e4e4e4-0000-4000-8000-000000000002", path, o.size};
  std::vector<char*> args;
  for (const auto& a : argv) args.push_back(const_cast<char*>(a.c_str()));
  args.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) return errno_error(errno, "cannot start e4mkfs");
  if (pid == 0) {
    ::setenv("SOURCE_DATE_EPOCH", "1700000000", 1);
    ::execvp(args[0], args.data());
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return make_error(ErrorKind::usage, "e4mkfs could not make a start image of " + o.size + "; name one with --image");
  return {};
}

Result<void> write_meta(const GenerateOptions& o, const World& world, const SynthFs& synth, const std::string& path) {
  const alloc::Tunables& t = world.allocator->tunables();
  nlohmann::ordered_json j;
  j["name"] = fs::path(o.output).filename().string();
  j["what"] = fmt::format("synthetic: {}, seed {}", o.workload, o.seed);
  j["kernel"] = "e4replay generate (decisions as linux-6.18)";
  j["page_size"] = world.allocator->mount().page_bytes;
  j["cpus_possible"] = fmt::format("0-{}", o.cpus - 1);
  nlohmann::ordered_json f;
  f["device"] = "7:0";
  f["mount_point"] = "/";
  f["proc_fs_options"] = {"rw", "delalloc", "nodiscard", "data=ordered", "stripe=0", "no_prefetch_block_bitmaps"};
  f["rotational"] = 0;
  f["tunables_start"] = {{"mb_max_to_scan", t.mb_max_to_scan},
                         {"mb_min_to_scan", t.mb_min_to_scan},
                         {"mb_order2_req", t.mb_order2_req},
                         {"mb_stream_req", t.mb_stream_req},
                         {"mb_group_prealloc", t.mb_group_prealloc},
                         {"mb_max_linear_groups", t.mb_max_linear_groups},
                         {"mb_best_avail_max_trim_order", t.mb_best_avail_max_trim_order},
                         {"mb_prefetch", t.mb_prefetch},
                         {"mb_prefetch_limit", t.mb_prefetch_limit},
                         {"reserved_clusters", world.allocator->reserved_clusters()}};
  j["filesystems"] = {f};
  j["workload"] = {{"command", fmt::format("e4replay generate {} --seed {}", o.workload, o.seed)},
                   {"seconds", static_cast<double>(synth.now_ns() - 1000000000) / 1e9},
                   {"run_as_uid", 0}};
  j["trace"] = {{"clock", "global"}, {"lost", 0}, {"events_total", synth.events()}, {"synthetic", true}};
  std::ofstream out(path);
  out << j.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
  out.close();
  return out ? Result<void>{} : make_error(ErrorKind::io, "cannot write " + path);
}

}  // namespace

const std::vector<WorkloadInfo>& workloads() {
  static const std::vector<WorkloadInfo> list = [] {
    std::vector<WorkloadInfo> v;
    for (const auto& w : kWorkloads) v.push_back(w.info);
    return v;
  }();
  return list;
}

Result<Generated> generate(const GenerateOptions& o) {
  const Workload* workload = nullptr;
  std::string names;
  for (const auto& w : kWorkloads) {
    if (o.workload == w.info.name) workload = &w;
    names += (names.empty() ? "" : ", ") + std::string(w.info.name);
  }
  if (workload == nullptr) return make_error(ErrorKind::usage, "no workload '" + o.workload + "'; there are " + names);
  if (o.cpus == 0 || o.cpus > 1024) return make_error(ErrorKind::usage, "--cpus: 1 to 1024");
  std::error_code ec;
  if (fs::exists(o.output, ec) && !fs::is_empty(o.output, ec))
    return make_error(ErrorKind::usage, o.output + " exists and is not empty");
  fs::create_directories(o.output, ec);
  if (ec) return make_error(ErrorKind::io, "cannot make " + o.output, ec.value());
  const std::string start_path = o.output + "/start.img", trace_path = o.output + "/trace.txt";
  if (o.image.empty()) {
    E4_TRY(make_image(o, start_path));
  } else {
    auto image = E4_TRY(image::open_container(o.image));
    E4_TRY(image::export_image(*image, start_path));
  }

  trace::Recording recording = trace::recording_by_hand(start_path, trace_path);
  recording.possible_cpus = o.cpus;
  recording.uid = 0;
  recording.filesystems[0].device = kDevice;
  recording.filesystems[0].rotational = false;
  for (const auto& s : o.set) E4_TRY(trace::apply_setting(recording, s));
  World world = E4_TRY(load_world(recording, recording.filesystems[0], {}));
  if (world.allocator->geometry().cluster_bits != 0 || !world.start->extents())
    return make_error(ErrorKind::incompatible, "synthetic recordings need an extent-mapped file system without bigalloc");
  Generated g;
  {
    std::ofstream out(trace_path, std::ios::binary | std::ios::trunc);
    SynthFs synth(*world.allocator, *world.start, out, kDevice);
    Bench bench{synth, Random(o.seed), o, o.count != 0 ? o.count : workload->info.count, {}};
    synth.phase("mounted");
    synth.phase("workload starts");
    (void)workload->go(bench);
    synth.phase("workload ends");
    synth.commit();
    out.close();
    if (!out) return make_error(ErrorKind::io, "cannot write " + trace_path);
    g.events = synth.events();
    g.stopped = bench.stopped;
    g.free_blocks = synth.free_blocks();
    E4_TRY(write_meta(o, world, synth, o.output + "/meta.json"));
  }
  g.decisions = world.allocator->stats().requests;

  // The end state is what the trace itself leads to.
  auto start = E4_TRY(image::open_container(start_path));
  image::Overlay work(*start, 4096);
  const auto m = E4_TRY(Materializer::open(work));
  const auto reader = E4_TRY(trace::open_trace(trace_path));
  trace::Event e{};
  while (E4_TRY(reader->next(e))) E4_TRY(m->apply(e));
  (void)E4_TRY(m->finish({.crash = false, .now = 1700000000}));
  E4_TRY(image::export_image(work, o.output + "/end.img"));
  return g;
}

}  // namespace e4::replay
