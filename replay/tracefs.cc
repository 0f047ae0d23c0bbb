// SPDX-License-Identifier: GPL-2.0-only
#include "replay/tracefs.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace e4::replay {
namespace fs = std::filesystem;
namespace {

constexpr const char* kPrefix = "e4replay.";

void remove_stale(const std::string& instances) {
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(instances, ec)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    int pid = 0;
    std::from_chars(name.data() + 9, name.data() + name.size(), pid);
    if (pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH) ::rmdir(entry.path().c_str());
  }
}

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

}  // namespace

std::string TraceInstance::root() {
  for (const char* p : {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"})
    if (::access((std::string(p) + "/instances").c_str(), W_OK) == 0) return p;
  return {};
}

Result<std::unique_ptr<TraceInstance>> TraceInstance::create(std::uint32_t buffer_kib) {
  const std::string top = root();
  if (top.empty())
    return make_error(ErrorKind::io, "no writable tracefs at /sys/kernel/tracing (root is needed; mount -t tracefs tracefs /sys/kernel/tracing)");
  remove_stale(top + "/instances");
  const std::string path = top + "/instances/" + kPrefix + std::to_string(::getpid());
  if (::mkdir(path.c_str(), 0700) != 0) return errno_error(errno, path + ": cannot make a trace instance");
  std::unique_ptr<TraceInstance> t(new TraceInstance(path));
  E4_TRY(t->write("tracing_on", "0"));
  E4_TRY(t->write("buffer_size_kb", std::to_string(buffer_kib)));
  E4_TRY(t->write("trace_clock", "global"));  // one clock for all CPUs, or their order is lost
  return t;
}

TraceInstance::~TraceInstance() {
  (void)write("tracing_on", "0");
  if (drainer_.joinable()) {
    drainer_.request_stop();
    drainer_.join();
  }
  for (const int fd : pipes_) ::close(fd);
  for (const int fd : outs_) ::close(fd);
  if (marker_ >= 0) ::close(marker_);
  for (const std::string& e : enabled_) (void)write("events/" + e + "/enable", "0");
  ::rmdir(path_.c_str());
}

Result<void> TraceInstance::write(const std::string& file, std::string_view text) {
  const std::string path = path_ + "/" + file;
  const int fd = ::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
  if (fd < 0) return errno_error(errno, path + ": cannot open");
  const ssize_t n = ::write(fd, text.data(), text.size());
  const int e = errno;
  ::close(fd);
  if (n != static_cast<ssize_t>(text.size())) return errno_error(e, path + ": cannot write '" + std::string(text) + "'");
  return {};
}

Result<bool> TraceInstance::enable(const std::string& event, const std::string& filter) {
  const std::string dir = "events/" + event;
  if (::access((path_ + "/" + dir).c_str(), F_OK) != 0) return false;
  if (!filter.empty()) E4_TRY(write(dir + "/filter", filter));
  E4_TRY(write(dir + "/enable", "1"));
  enabled_.push_back(event);
  return true;
}

void TraceInstance::mark(std::string_view text) {
  if (marker_ >= 0) (void)!::write(marker_, text.data(), text.size());
}

Result<void> TraceInstance::start(const std::string& raw_prefix) {
  std::error_code ec;
  for (int cpu = 0;; ++cpu) {
    const std::string dir = fmt::format("{}/per_cpu/cpu{}", path_, cpu);
    if (!fs::exists(dir, ec)) break;
    const int in = ::open((dir + "/trace_pipe_raw").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (in < 0) return errno_error(errno, dir + "/trace_pipe_raw: cannot open");
    pipes_.push_back(in);
    raw_paths_.push_back(raw_prefix + std::to_string(cpu));
    const int out = ::open(raw_paths_.back().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (out < 0) return errno_error(errno, raw_paths_.back() + ": cannot make");
    outs_.push_back(out);
  }
  marker_ = ::open((path_ + "/trace_marker").c_str(), O_WRONLY | O_CLOEXEC);
  E4_TRY(write("tracing_on", "1"));
  drainer_ = std::jthread([this](std::stop_token stop) { drain(stop); });
  return {};
}

bool TraceInstance::drain_once() {
  std::array<char, 65536> page{};  // a sub-buffer is a page, or what buffer_subbuf_size_kb says
  bool any = false;
  for (std::size_t cpu = 0; cpu < pipes_.size(); ++cpu) {
    for (;;) {
      const ssize_t n = ::read(pipes_[cpu], page.data(), static_cast<std::size_t>(::getpagesize()));
      if (n <= 0) break;
      any = true;
      for (ssize_t done = 0; done < n;) {
        const ssize_t w = ::write(outs_[cpu], page.data() + done, static_cast<std::size_t>(n - done));
        if (w < 0) {
          if (errno == EINTR) continue;
          drain_error_ = fmt::format("{}: cannot write (errno {})", raw_paths_[cpu], errno);
          return false;
        }
        done += w;
      }
    }
  }
  return any;
}

void TraceInstance::drain(std::stop_token stop) {
  // Seldom enough not to disturb what is recorded, often enough for the buffer.
  while (!stop.stop_requested() && drain_error_.empty()) {
    drain_once();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

Result<std::vector<std::string>> TraceInstance::stop() {
  E4_TRY(write("tracing_on", "0"));
  drainer_.request_stop();
  drainer_.join();
  while (drain_error_.empty() && drain_once()) {
  }
  if (!drain_error_.empty()) return make_error(ErrorKind::io, drain_error_);
  for (std::size_t cpu = 0; cpu < pipes_.size(); ++cpu) {
    std::istringstream in(slurp(fmt::format("{}/per_cpu/cpu{}/stats", path_, cpu)));
    CpuStats s;
    for (std::string line; std::getline(in, line);) {
      const std::size_t colon = line.find(": ");
      if (colon == std::string::npos) continue;
      std::uint64_t v = 0;
      std::from_chars(line.data() + colon + 2, line.data() + line.size(), v);
      const std::string key = line.substr(0, colon);
      if (key == "entries") s.entries = v;
      else if (key == "overrun") s.overrun = v;
      else if (key == "commit overrun") s.commit_overrun = v;
      else if (key == "dropped events") s.dropped = v;
    }
    stats_.push_back(s);
  }
  return raw_paths_;
}

namespace {

/// The pieces of a trace.dat. Numbers are in the machine's own order, which the head tells.
class DatFile {
 public:
  explicit DatFile(const std::string& path) : out_(path, std::ios::binary | std::ios::trunc) {}
  void text(std::string_view s) { out_.write(s.data(), static_cast<std::streamsize>(s.size())); }
  void name(std::string_view s) {
    text(s);
    out_.put('\0');
  }
  template <class T>
  void number(T v) {
    out_.write(reinterpret_cast<const char*>(&v), sizeof v);
  }
  void sized(const std::string& s) {
    number(static_cast<std::uint64_t>(s.size()));
    text(s);
  }
  [[nodiscard]] std::uint64_t at() { return static_cast<std::uint64_t>(out_.tellp()); }
  void pad_to(std::uint64_t offset) {
    while (at() < offset) out_.put('\0');
  }
  std::ofstream& out() { return out_; }

 private:
  std::ofstream out_;
};

}  // namespace

Result<void> write_trace_dat(const std::string& path, const TraceInstance& instance, const std::vector<std::string>& raw_paths) {
  const std::string top = TraceInstance::root();
  const auto page = static_cast<std::uint64_t>(::getpagesize());
  DatFile f(path);
  f.text("\x17\x08\x44tracing");
  f.name("6");
  const std::uint16_t probe = 1;
  f.number(static_cast<std::uint8_t>(*reinterpret_cast<const char*>(&probe) == 1 ? 0 : 1));
  f.number(static_cast<std::uint8_t>(sizeof(long)));
  f.number(static_cast<std::uint32_t>(page));
  f.name("header_page");
  f.sized(slurp(top + "/events/header_page"));
  f.name("header_event");
  f.sized(slurp(top + "/events/header_event"));
  // ftrace's own events: print, for the marks.
  const std::string print = slurp(top + "/events/ftrace/print/format");
  f.number(static_cast<std::uint32_t>(1));
  f.sized(print);
  std::vector<std::pair<std::string, std::vector<std::string>>> systems;
  for (const std::string& e : instance.enabled()) {
    const std::string system = e.substr(0, e.find('/'));
    if (systems.empty() || systems.back().first != system) systems.emplace_back(system, std::vector<std::string>());
    systems.back().second.push_back(slurp(top + "/events/" + e + "/format"));
  }
  f.number(static_cast<std::uint32_t>(systems.size()));
  for (const auto& [system, formats] : systems) {
    f.name(system);
    f.number(static_cast<std::uint32_t>(formats.size()));
    for (const std::string& format : formats) f.sized(format);
  }
  f.number(static_cast<std::uint32_t>(0));  // kallsyms
  f.number(static_cast<std::uint32_t>(0));  // printk formats
  f.sized(slurp(top + "/saved_cmdlines"));
  f.number(static_cast<std::uint32_t>(raw_paths.size()));
  f.name("flyrecord");
  // Offsets and sizes of each CPU's pages, which start at page boundaries.
  std::uint64_t offset = (f.at() + raw_paths.size() * 16 + page - 1) / page * page;
  std::vector<std::uint64_t> offsets;
  std::error_code ec;
  for (const std::string& raw : raw_paths) {
    const std::uint64_t size = fs::file_size(raw, ec);
    if (ec) return make_error(ErrorKind::io, raw + ": cannot read");
    offsets.push_back(offset);
    f.number(offset);
    f.number(size);
    offset = (offset + size + page - 1) / page * page;
  }
  for (std::size_t cpu = 0; cpu < raw_paths.size(); ++cpu) {
    f.pad_to(offsets[cpu]);
    std::ifstream in(raw_paths[cpu], std::ios::binary);
    if (in.peek() != std::ifstream::traits_type::eof()) f.out() << in.rdbuf();
  }
  f.out().flush();
  if (!f.out()) return make_error(ErrorKind::io, path + ": cannot write");
  return {};
}

}  // namespace e4::replay
