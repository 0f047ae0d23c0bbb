// SPDX-License-Identifier: GPL-2.0-only
#include "trace/dat_reader.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <vector>

// tracefs.h 1.6 is not C++ (it passes an int for an enum), and nothing of it is needed here.
#define _TRACE_FS_H
#include <trace-cmd/trace-cmd.h>

#include "trace/event_table.h"

namespace e4::trace {
namespace {

struct HandleCloser {
  void operator()(tracecmd_input* h) const { tracecmd_close(h); }
};
using Handle = std::unique_ptr<tracecmd_input, HandleCloser>;

/// One field to copy from a record into an Event.
struct Move {
  std::uint16_t from, to;
  std::uint8_t from_bytes, to_bytes;
  bool is_signed;
};

/// How records of one event id are decoded.
struct Decoder {
  enum class Use : std::uint8_t { unseen, decode, ignore, unknown, other, mark } use = Use::unseen;
  Kind kind = Kind::unknown;
  std::uint32_t min_bytes = 0;   // a shorter record is malformed
  Move dev{};                    // to_bytes 0: none
  Move dev_minor{};              // trim events keep major and minor apart
  std::uint16_t text_from = 0;   // marks
  std::vector<Move> moves;
  std::string name;
};

std::uint64_t fetch(const char* from, std::uint8_t bytes, bool is_signed) {
  switch (bytes) {
    case 1: { std::uint8_t v; std::memcpy(&v, from, 1); return is_signed ? static_cast<std::uint64_t>(static_cast<std::int8_t>(v)) : v; }
    case 2: { std::uint16_t v; std::memcpy(&v, from, 2); return is_signed ? static_cast<std::uint64_t>(static_cast<std::int16_t>(v)) : v; }
    case 4: { std::uint32_t v; std::memcpy(&v, from, 4); return is_signed ? static_cast<std::uint64_t>(static_cast<std::int32_t>(v)) : v; }
    default: { std::uint64_t v; std::memcpy(&v, from, 8); return v; }
  }
}

void put(char* to, std::uint8_t bytes, std::uint64_t value) {
  switch (bytes) {
    case 1: { const auto v = static_cast<std::uint8_t>(value); std::memcpy(to, &v, 1); break; }
    case 2: { const auto v = static_cast<std::uint16_t>(value); std::memcpy(to, &v, 2); break; }
    case 4: { const auto v = static_cast<std::uint32_t>(value); std::memcpy(to, &v, 4); break; }
    default: std::memcpy(to, &value, 8);
  }
}

bool usable(const tep_format_field& f) {
  return f.offset >= 0 && f.offset < 4096 && (f.size == 1 || f.size == 2 || f.size == 4 || f.size == 8);
}

Move move_of(const tep_format_field& f, const Field* field) {
  Move m{};
  m.from = static_cast<std::uint16_t>(f.offset);
  m.from_bytes = static_cast<std::uint8_t>(f.size);
  m.is_signed = (f.flags & TEP_FIELD_IS_SIGNED) != 0;
  m.to = field != nullptr ? field->offset : 0;
  m.to_bytes = field != nullptr ? field->bytes : 4;
  return m;
}

class DatReader final : public Reader {
 public:
  DatReader(Handle main, std::string path, ReaderOptions options, bool cut)
      : Reader(std::move(options)), path_(std::move(path)), main_(std::move(main)) {
    notes_.unit = "record";
    tep_ = tracecmd_get_tep(main_.get());
    if (cut) notes_.add(Trouble::cut, "the compressed stream ends early", 0);
    add_streams(main_.get());
    for (int i = 0; i < tracecmd_buffer_instances(main_.get()); ++i) {
      Handle h(tracecmd_buffer_instance_handle(main_.get(), i));
      if (h == nullptr) continue;
      add_streams(h.get());
      instances_.push_back(std::move(h));
    }
  }
  ~DatReader() override {
    for (Stream& s : streams_)
      if (s.record != nullptr) tracecmd_free_record(s.record);
    if (held_ != nullptr) tracecmd_free_record(held_);
  }

  Result<bool> next(Event& event) override {
    for (;;) {
      Stream* best = nullptr;
      for (Stream& s : streams_)
        if (s.record != nullptr && (best == nullptr || s.record->ts < best->record->ts)) best = &s;
      if (best == nullptr) return false;
      if (held_ != nullptr) tracecmd_free_record(held_);
      held_ = best->record;
      best->record = tracecmd_read_data(best->handle, best->cpu);
      ++events_read_;
      if (held_->missed_events != 0)
        notes_.add(Trouble::lost, "CPU " + std::to_string(best->cpu), events_read_,
                   held_->missed_events > 0 ? static_cast<std::uint64_t>(held_->missed_events) : 1);
      if (decode(*held_, best->cpu, event)) return true;
    }
  }
  [[nodiscard]] std::string thread_name(std::int32_t pid) const override {
    const char* c = tep_data_comm_from_pid(tep_, pid);
    return c != nullptr ? c : "";
  }
  [[nodiscard]] std::string form() const override { return "trace.dat"; }

 private:
  struct Stream {
    tracecmd_input* handle;
    int cpu;
    tep_record* record;
  };

  void add_streams(tracecmd_input* handle) {
    const int cpus = tep_get_cpus(tep_);
    for (int cpu = 0; cpu < cpus; ++cpu)
      if (tep_record* r = tracecmd_read_data(handle, cpu)) streams_.push_back({handle, cpu, r});
  }

  const Decoder& decoder(std::uint16_t id) {
    if (id >= decoders_.size()) decoders_.resize(std::size_t{id} + 1);
    Decoder& d = decoders_[id];
    if (d.use == Decoder::Use::unseen) make_decoder(id, d);
    return d;
  }

  void make_decoder(std::uint16_t id, Decoder& d) {
    tep_event* const e = tep_find_event(tep_, id);
    if (e == nullptr || e->name == nullptr) {
      d.use = Decoder::Use::unknown;
      d.name = "without a format, id " + std::to_string(id);
      return;
    }
    d.name = e->name;
    const EventFormat* f = find_format(d.name);
    if (f == nullptr) {
      const bool ours = d.name.starts_with("ext4_") || d.name.starts_with("jbd2_");
      d.use = ours ? Decoder::Use::unknown : Decoder::Use::other;
      return;
    }
    d.kind = f->kind;
    if (f->kind == Kind::ignored) {
      d.use = Decoder::Use::ignore;
      return;
    }
    if (f->kind == Kind::mark) {
      const tep_format_field* buf = tep_find_field(e, "buf");
      d.use = buf != nullptr && buf->offset >= 0 ? Decoder::Use::mark : Decoder::Use::ignore;
      if (buf != nullptr) d.text_from = static_cast<std::uint16_t>(buf->offset);
      return;
    }
    d.use = Decoder::Use::decode;
    const auto add = [&](const char* name, const Field* to, Move& out) {
      const tep_format_field* field = tep_find_field(e, name);
      if (field == nullptr || !usable(*field)) return false;
      out = move_of(*field, to);
      d.min_bytes = std::max(d.min_bytes, static_cast<std::uint32_t>(out.from + out.from_bytes));
      return true;
    };
    if (!add("dev", nullptr, d.dev) && add("dev_major", nullptr, d.dev)) add("dev_minor", nullptr, d.dev_minor);
    for (const Field& field : f->fields) {
      Move m{};
      if (add(field.name, &field, m)) d.moves.push_back(m);
      else notes_.add(Trouble::malformed, d.name + " has no field " + field.name, 0);
    }
  }

  bool decode(const tep_record& record, int cpu, Event& event) {
    const char* data = static_cast<const char*>(record.data);
    if (record.size < 8) {
      notes_.add(Trouble::malformed, "record shorter than its head", events_read_);
      return false;
    }
    const Decoder& d = decoder(static_cast<std::uint16_t>(fetch(data, 2, false)));
    switch (d.use) {
      case Decoder::Use::ignore: return false;
      case Decoder::Use::other: notes_.add(Trouble::other_event, d.name, events_read_); return false;
      case Decoder::Use::unknown:
      case Decoder::Use::unseen: notes_.add(Trouble::unknown_event, d.name, events_read_); return false;
      case Decoder::Use::decode:
      case Decoder::Use::mark: break;
    }
    std::memset(&event, 0, sizeof event);
    event.kind = d.kind;
    event.number = events_read_;
    event.time_ns = record.ts;
    event.cpu = static_cast<std::uint16_t>(cpu);
    event.pid = static_cast<std::int32_t>(fetch(data + 4, 4, true));
    const auto size = static_cast<std::uint32_t>(record.size);
    if (d.use == Decoder::Use::mark) {
      if (size <= d.text_from) return false;
      const char* text = data + d.text_from;
      std::size_t n = strnlen(text, size - d.text_from);
      while (n > 0 && text[n - 1] == '\n') --n;
      event.mark = {text, static_cast<std::uint32_t>(n)};
      return true;
    }
    if (size < d.min_bytes) {
      notes_.add(Trouble::malformed, d.name + " record too short", events_read_);
      return false;
    }
    if (d.dev.from_bytes != 0) event.dev = static_cast<std::uint32_t>(fetch(data + d.dev.from, d.dev.from_bytes, false));
    if (d.dev_minor.from_bytes != 0)
      event.dev = make_dev(event.dev, static_cast<std::uint32_t>(fetch(data + d.dev_minor.from, d.dev_minor.from_bytes, false)));
    if (d.dev.from_bytes != 0 && !wanted(event.dev, events_read_)) return false;
    for (const Move& m : d.moves)
      put(reinterpret_cast<char*>(&event) + m.to, m.to_bytes, fetch(data + m.from, m.from_bytes, m.is_signed));
    return true;
  }

  std::string path_;
  Handle main_;
  std::vector<Handle> instances_;
  tep_handle* tep_ = nullptr;
  std::vector<Stream> streams_;
  std::vector<Decoder> decoders_;
  tep_record* held_ = nullptr;
};

constexpr int kOpenFlags = TRACECMD_FL_LOAD_NO_PLUGINS | TRACECMD_FL_LOAD_NO_SYSTEM_PLUGINS;

/// libtracecmd 3.1 can crash while it opens a cut or damaged file. So a child tries first; it costs a few
/// milliseconds, and what it meets becomes an error here.
bool child_can_open(int fd) {
  const pid_t pid = ::fork();
  if (pid < 0) return true;  // no child to be had: the risk is taken
  if (pid == 0) {
    const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null >= 0) ::dup2(null, STDERR_FILENO);
    for (const int sig : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) ::signal(sig, SIG_DFL);
    constexpr unsigned kSeconds = 20;
    ::alarm(kSeconds);
    ::_exit(tracecmd_open_fd(fd, kOpenFlags) != nullptr ? 0 : 1);
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  ::lseek(fd, 0, SEEK_SET);  // the child moved it: they share the open file
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

Result<std::unique_ptr<Reader>> open_dat(std::unique_ptr<ByteSource> source, const std::string& path,
                                         ReaderOptions options) {
  tracecmd_set_loglevel(TEP_LOG_NONE);
  tep_set_loglevel(TEP_LOG_NONE);
  int fd = -1;
  bool cut = false;
  if (path != "-") {  // a plain file can be read in place
    fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    char magic[10] = {};
    if (fd >= 0 && (::pread(fd, magic, sizeof magic, 0) != sizeof magic || std::memcmp(magic, "\x17\x08\x44tracing", 10) != 0)) {
      ::close(fd);
      fd = -1;
    }
  }
  if (fd < 0) {
    fd = E4_TRY(spool(*source));
    cut = source->cut();
  }
  source.reset();
  Handle handle(child_can_open(fd) ? tracecmd_open_fd(fd, kOpenFlags) : nullptr);
  if (handle == nullptr) {
    ::close(fd);
    return make_error(ErrorKind::corrupt, path + ": libtracecmd cannot read it: not a whole trace.dat of version 6 or 7" +
                                              (cut ? " (the compressed stream ends early)" : ""));
  }
  tep_handle* const tep = tracecmd_get_tep(handle.get());
  if (tep_is_file_bigendian(tep) != tep_is_local_bigendian(tep))
    return make_error(ErrorKind::incompatible, path + ": recorded on a machine of the other byte order");
  return std::unique_ptr<Reader>(new DatReader(std::move(handle), path, std::move(options), cut));
}

}  // namespace e4::trace
