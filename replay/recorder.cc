// SPDX-License-Identifier: GPL-2.0-only
#include "replay/recorder.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "replay/mounted.h"
#include "replay/state_saver.h"
#include "replay/tracefs.h"
#include "trace/reader.h"

namespace e4::replay {
namespace fs = std::filesystem;
namespace {

using nlohmann::ordered_json;

/// What replay uses. Grouped by system; a kernel that lacks one goes on without it.
constexpr const char* kEvents[] = {
    "ext4/ext4_request_blocks", "ext4/ext4_allocate_blocks", "ext4/ext4_mballoc_alloc", "ext4/ext4_mballoc_prealloc",
    "ext4/ext4_mballoc_free", "ext4/ext4_mballoc_discard", "ext4/ext4_free_blocks", "ext4/ext4_mb_new_inode_pa",
    "ext4/ext4_mb_new_group_pa", "ext4/ext4_mb_release_inode_pa", "ext4/ext4_mb_release_group_pa",
    "ext4/ext4_discard_preallocations", "ext4/ext4_mb_discard_preallocations", "ext4/ext4_trim_extent",
    "ext4/ext4_request_inode", "ext4/ext4_allocate_inode", "ext4/ext4_free_inode", "ext4/ext4_evict_inode",
    "ext4/ext4_drop_inode", "ext4/ext4_unlink_enter", "ext4/ext4_unlink_exit", "ext4/ext4_truncate_enter",
    "ext4/ext4_truncate_exit", "ext4/ext4_begin_ordered_truncate", "ext4/ext4_ext_remove_space",
    "ext4/ext4_fallocate_enter", "ext4/ext4_fallocate_exit", "ext4/ext4_punch_hole", "ext4/ext4_zero_range",
    "ext4/ext4_collapse_range", "ext4/ext4_insert_range", "ext4/ext4_da_write_begin", "ext4/ext4_da_write_end",
    "ext4/ext4_write_begin", "ext4/ext4_write_end", "ext4/ext4_journalled_write_end", "ext4/ext4_da_reserve_space",
    "ext4/ext4_da_update_reserve_space", "ext4/ext4_da_release_space", "ext4/ext4_ext_map_blocks_enter",
    "ext4/ext4_ext_map_blocks_exit", "ext4/ext4_ind_map_blocks_enter", "ext4/ext4_ind_map_blocks_exit",
    "ext4/ext4_get_implied_cluster_alloc_exit", "ext4/ext4_mb_bitmap_load", "ext4/ext4_mb_buddy_bitmap_load",
    "ext4/ext4_read_block_bitmap_load", "ext4/ext4_load_inode_bitmap", "ext4/ext4_prefetch_bitmaps",
    "ext4/ext4_sync_fs", "ext4/ext4_sync_file_enter", "ext4/ext4_sync_file_exit", "ext4/ext4_writepages",
    "ext4/ext4_writepages_result", "ext4/ext4_error", "ext4/ext4_shutdown", "ext4/ext4_mark_inode_dirty",
    "jbd2/jbd2_start_commit", "jbd2/jbd2_commit_locking", "jbd2/jbd2_commit_flushing", "jbd2/jbd2_commit_logging",
    "jbd2/jbd2_run_stats", "jbd2/jbd2_end_commit",
    "syscalls/sys_enter_truncate", "syscalls/sys_enter_ftruncate", "syscalls/sys_exit_truncate",
    "syscalls/sys_exit_ftruncate", "workqueue/workqueue_execute_end"};

/// Start and end of a function of the kernel; 0 where symbols are hidden.
std::pair<std::uint64_t, std::uint64_t> code_range(std::string_view function) {
  std::ifstream in("/proc/kallsyms");
  std::uint64_t start = 0, end = 0;
  std::vector<std::uint64_t> text;
  for (std::string line; std::getline(in, line);) {
    if (line.size() < 20 || (line[17] != 't' && line[17] != 'T')) continue;
    const std::uint64_t at = std::strtoull(line.c_str(), nullptr, 16);
    text.push_back(at);
    const std::string_view name = std::string_view(line).substr(19);
    if (name.substr(0, name.find('\t')) == function) start = at;
  }
  for (const std::uint64_t at : text)
    if (start != 0 && at > start && (end == 0 || at < end)) end = at;
  return {start, end};
}

/// "ip >= A && ip < B" for the code of ext4_setattr: the only caller whose marking an inode dirty tells a truncate.
/// Empty where symbols are hidden; then all of them are recorded.
std::string setattr_filter() {
  const auto [start, end] = code_range("ext4_setattr");
  if (start == 0 || end == 0) return {};
  return fmt::format("ip >= 0x{:x} && ip < 0x{:x}", start, end);
}

std::string now_text() {
  const auto ns = std::chrono::steady_clock::now().time_since_epoch().count();
  return fmt::format("{}.{:09}", ns / 1'000'000'000, ns % 1'000'000'000);
}

/// Everything that must be undone, whatever happens.
class Session {
 public:
  Session(const RecordOptions& options, std::stop_token stop, const std::function<void(const std::string&)>& say)
      : options_(options), stop_(std::move(stop)), say_(say) {}
  ~Session() {
    trace_.reset();
    if (!mounted_now_) (void)mount();
    if (keep_alive_ >= 0) ::close(keep_alive_);
    std::error_code ec;
    for (const std::string& f : raw_) fs::remove(f, ec);
    if (!finished_ && made_directory_) fs::remove_all(options_.output, ec);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Result<Recorded> run() {
    E4_TRY(prepare());
    E4_TRY(start());
    E4_TRY(workload());
    E4_TRY(end());
    E4_TRY(write_meta());
    finished_ = true;
    return result_;
  }

 private:
  Result<void> prepare() {
    if (::geteuid() != 0) return make_error(ErrorKind::usage, "recording needs root");
    m_ = E4_TRY(find_mounted(options_.target));
    std::error_code ec;
    if (fs::exists(options_.output, ec)) return make_error(ErrorKind::usage, options_.output + ": exists already");
    if (!fs::create_directories(options_.output, ec)) return make_error(ErrorKind::io, options_.output + ": cannot make the directory");
    made_directory_ = true;
    struct stat out{}, target{};
    if (::stat(options_.output.c_str(), &out) == 0 && ::stat(m_.mount_point.c_str(), &target) == 0 && out.st_dev == target.st_dev)
      return make_error(ErrorKind::usage, options_.output + ": lies on the file system that is recorded");
    output_ = fs::canonical(options_.output, ec).string();
    // An automatic loop device would go with its last user.
    keep_alive_ = ::open(m_.device.c_str(), O_RDONLY | O_CLOEXEC);
    if (keep_alive_ < 0) return errno_error(errno, m_.device + ": cannot open");
    return {};
  }

  Result<void> unmount() {
    if (E4_TRY(run_program({"umount", m_.mount_point})) != 0)
      return make_error(ErrorKind::busy, m_.mount_point + ": cannot unmount it for the start state; is something using it?");
    mounted_now_ = false;
    return {};
  }
  Result<void> mount() {
    if (E4_TRY(run_program({"mount", "-t", "ext4", "-o", m_.options, m_.device, m_.mount_point})) != 0)
      return make_error(ErrorKind::io, m_.device + ": cannot mount it again on " + m_.mount_point);
    mounted_now_ = true;
    return {};
  }

  Result<void> enable_events() {
    const std::uint64_t dev = std::uint64_t{m_.major} << 20 | m_.minor;
    const std::string by_dev = fmt::format("dev == {}", dev);
    const std::string setattr = setattr_filter();
    const std::uint64_t discard_work = code_range("ext4_discard_work").first;
    for (const char* event : kEvents) {
      const std::string name = event;
      std::string filter = by_dev;
      if (name == "ext4/ext4_trim_extent") filter = fmt::format("dev_major == {} && dev_minor == {}", m_.major, m_.minor);
      else if (name == "ext4/ext4_mark_inode_dirty" && !setattr.empty()) filter += " && " + setattr;
      else if (name == "workqueue/workqueue_execute_end") {
        // The end of the discard worker; of no use without its address, and without the discard option.
        if (discard_work == 0 || !mounted_with_discard()) continue;
        filter = fmt::format("function == 0x{:x}", discard_work);
      }
      else if (name.starts_with("syscalls/")) filter.clear();
      if (!E4_TRY(trace_->enable(name, filter))) result_.notes.push_back("this kernel has no event " + name);
    }
    return {};
  }

  [[nodiscard]] bool mounted_with_discard() const {
    const std::string o = "," + m_.options + ",";
    return o.find(",discard,") != std::string::npos;
  }

  void phase(const std::string& what) {
    trace_->mark("phase: " + what);
    phases_.push_back({now_text(), what});
    say_(what);
  }

  Result<void> start() {
    say_("unmounting " + m_.mount_point);
    ::sync();
    E4_TRY(unmount());
    say_("saving the start state");
    E4_TRY(save_state(m_.device, output_ + "/start"));
    trace_ = E4_TRY(TraceInstance::create(options_.buffer_kib));
    E4_TRY(enable_events());
    E4_TRY(trace_->start(output_ + "/cpu"));
    phase("tracing on, before mount");
    E4_TRY(mount());
    phase("mounted");
    proc_options_ = proc_options(m_);
    tunables_start_ = sysfs_tunables(m_);
    return {};
  }

  Result<void> workload() {
    phase("workload start");
    const auto started = std::chrono::steady_clock::now();
    if (!options_.command.empty()) {
      result_.command_status = E4_TRY(run_program(options_.command, m_.mount_point));
      if (stop_.stop_requested()) return make_error(ErrorKind::cancelled, "interrupted; nothing was kept");
      if (result_.command_status != 0)
        result_.notes.push_back(fmt::format("{} ended with status {}", options_.command[0], result_.command_status));
    } else {
      while (!stop_.stop_requested()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
        if (options_.seconds > 0 && s >= options_.seconds) break;
      }
    }
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    phase("workload end");
    return {};
  }

  Result<void> end() {
    E4_TRY(run_program({"sync", "-f", m_.mount_point}));
    phase("synced");
    const std::string proc = "/proc/fs/ext4/" + m_.name + "/";
    tunables_end_ = sysfs_tunables(m_);
    phase("reading mb_groups");
    copy_text(proc + "mb_groups", output_ + "/mb_groups.txt");
    phase("before umount");
    copy_text(proc + "mb_structs_summary", output_ + "/mb_structs_summary.txt");
    if (!options_.no_end) {
      E4_TRY(unmount());
      phase("unmounted");
    }
    raw_ = E4_TRY(trace_->stop());
    for (const TraceInstance::CpuStats& s : trace_->stats()) {
      result_.lost += s.overrun + s.commit_overrun + s.dropped;
      stats_.push_back({{"overrun", s.overrun}, {"commit overrun", s.commit_overrun}, {"dropped events", s.dropped}});
    }
    E4_TRY(write_trace_dat(output_ + "/trace.dat", *trace_, raw_));
    events_enabled_ = trace_->enabled();
    trace_.reset();
    if (result_.lost != 0) result_.notes.push_back(fmt::format("{} events were lost: a larger --buffer is needed", result_.lost));
    if (!options_.no_end) {
      say_("saving the end state");
      E4_TRY(save_state(m_.device, output_ + "/end"));
      E4_TRY(mount());
    }
    // Read it back: it must be whole.
    const auto reader = E4_TRY(trace::open_trace(output_ + "/trace.dat"));
    trace::Event e{};
    while (E4_TRY(reader->next(e))) {
    }
    result_.events = reader->events_read();
    result_.lost = std::max(result_.lost, reader->notes().count(trace::Trouble::lost));
    return {};
  }

  static void copy_text(const std::string& from, const std::string& to) {
    std::ifstream in(from);
    if (!in) return;
    std::ofstream out(to);
    if (in.peek() != std::ifstream::traits_type::eof()) out << in.rdbuf();
  }

  Result<void> write_meta() {
    utsname u{};
    ::uname(&u);
    ordered_json j;
    j["name"] = options_.name.empty() ? fs::path(output_).filename().string() : options_.name;
    j["what"] = options_.command.empty() ? "recorded from a live file system" : "recorded while a command ran";
    j["kernel"] = u.release;
    j["arch"] = u.machine;
    j["page_size"] = ::getpagesize();
    j["cpus_online"] = read_line("/sys/devices/system/cpu/online");
    j["cpus_possible"] = read_line("/sys/devices/system/cpu/possible");
    j["recorder"] = std::string("e4replay ") + E4_VERSION;
    ordered_json f;
    f["device"] = fmt::format("{}:{}", m_.major, m_.minor);
    f["mount_point"] = m_.mount_point;
    f["proc_mounts"] = m_.proc_mounts;
    f["proc_fs_options"] = proc_options_;
    f["rotational"] = is_rotational(m_) ? 1 : 0;
    f["tunables_start"] = tunables_start_;
    f["tunables_end"] = tunables_end_;
    j["filesystems"] = ordered_json::array({f});
    std::string command;
    for (const std::string& a : options_.command) command += (command.empty() ? "" : " ") + a;
    j["workload"] = {{"command", command}, {"seconds", seconds_}, {"exit_status", result_.command_status}, {"run_as_uid", ::geteuid()}};
    ordered_json t;
    t["clock"] = "global";
    t["buffer_kb_per_cpu"] = options_.buffer_kib;
    t["dat_format"] = "file version 6";
    t["events_enabled"] = ordered_json::array();
    for (const std::string& e : events_enabled_) t["events_enabled"].push_back(e.substr(e.find('/') + 1));
    t["sizes_in_trace"] = true;
    t["phases"] = ordered_json::array();
    for (const auto& p : phases_) t["phases"].push_back({p.first, p.second});
    t["events_total"] = result_.events;
    t["lost"] = result_.lost;
    t["lost_detail"] = stats_;
    j["trace"] = t;
    std::ofstream out(output_ + "/meta.json");
    out << j.dump(1, ' ', false, ordered_json::error_handler_t::replace) << "\n";
    out.flush();
    if (!out) return make_error(ErrorKind::io, output_ + "/meta.json: cannot write");
    return {};
  }

  const RecordOptions& options_;
  std::stop_token stop_;
  const std::function<void(const std::string&)>& say_;
  Mounted m_;
  std::string output_;
  int keep_alive_ = -1;
  bool mounted_now_ = true, made_directory_ = false, finished_ = false;
  std::unique_ptr<TraceInstance> trace_;
  std::vector<std::string> raw_, proc_options_, events_enabled_;
  std::map<std::string, std::string> tunables_start_, tunables_end_;
  std::vector<std::pair<std::string, std::string>> phases_;
  ordered_json stats_ = ordered_json::array();
  double seconds_ = 0;
  Recorded result_;
};

}  // namespace

Result<Recorded> record(const RecordOptions& options, std::stop_token stop, const std::function<void(const std::string&)>& say) {
  Session session(options, std::move(stop), say);
  return session.run();
}

}  // namespace e4::replay
