// SPDX-License-Identifier: GPL-2.0-only
#include "trace/text_reader.h"

#include <charconv>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "trace/event_table.h"

namespace e4::trace {
namespace {

constexpr std::size_t kBufferBytes = 1 << 20;  // also the longest line

bool digit(char c) { return c >= '0' && c <= '9'; }

struct Step {
  std::string_view literal;    // matched first
  const Field* field = nullptr;  // then this; nullptr with `skip` a word nobody needs
  bool skip = false;
};

struct Pattern {
  const EventFormat* format = nullptr;
  std::vector<Step> steps;
  explicit Pattern(const EventFormat& f) : format(&f) {
    const std::string_view text = f.text;
    std::size_t from = 0, next = 0;
    while (from < text.size()) {
      const std::size_t percent = text.find('%', from);
      Step s;
      s.literal = text.substr(from, percent == std::string_view::npos ? percent : percent - from);
      if (percent == std::string_view::npos) {
        from = text.size();
      } else if (percent + 1 < text.size() && text[percent + 1] == '-') {
        s.skip = true;
        from = percent + 2;
      } else {
        s.field = &f.fields[next++];
        from = percent + 1;
      }
      steps.push_back(s);
    }
  }
};

struct Patterns {
  std::unordered_map<std::string_view, Pattern> by_name;
  Patterns() {
    for (const EventFormat& f : all_formats()) by_name.emplace(f.name, Pattern(f));
  }
};

const Patterns& patterns() {
  static const Patterns p;
  return p;
}

void put(Event& event, const Field& field, std::uint64_t value) {
  char* to = reinterpret_cast<char*>(&event) + field.offset;
  switch (field.bytes) {
    case 1: { const auto v = static_cast<std::uint8_t>(value); std::memcpy(to, &v, 1); break; }
    case 2: { const auto v = static_cast<std::uint16_t>(value); std::memcpy(to, &v, 2); break; }
    case 4: { const auto v = static_cast<std::uint32_t>(value); std::memcpy(to, &v, 4); break; }
    default: std::memcpy(to, &value, 8);
  }
}

/// A decimal number, wrapping (hostile lengths are nobody's problem here). Advances `p`.
bool number(const char*& p, const char* end, std::uint64_t& value) {
  const bool minus = p < end && *p == '-';
  const char* q = p + (minus ? 1 : 0);
  const char* first = q;
  std::uint64_t v = 0;
  for (; q < end && digit(*q); ++q) v = v * 10 + static_cast<std::uint64_t>(*q - '0');
  if (q == first) return false;
  value = minus ? 0 - v : v;
  p = q;
  return true;
}

bool parse_field(const Field& field, const char*& p, const char* end, Event& event) {
  if (field.form == Form::number || field.form == Form::power) {
    std::uint64_t v = 0;
    if (!number(p, end, v)) return false;
    if (field.form == Form::power) v = v == 0 ? 0 : static_cast<std::uint64_t>(__builtin_ctzll(v));
    put(event, field, v);
    return true;
  }
  const char* word = p;
  while (p < end && *p != ' ') ++p;
  const std::string_view w(word, static_cast<std::size_t>(p - word));
  switch (field.form) {
    case Form::octal: {
      std::uint64_t v = 0;
      for (const char c : w) v = v * 8 + (static_cast<std::uint64_t>(c - '0') & 7);
      put(event, field, v);
      return !w.empty();
    }
    case Form::letters: return true;
    default:
      if (!w.empty()) put(event, field, parse_flags(field.form, w));
      return true;
  }
}

bool parse_dev(const char*& p, const char* end, std::uint32_t& dev) {
  if (end - p < 4 || std::memcmp(p, "dev ", 4) != 0) return false;
  const char* q = p + 4;
  std::uint64_t major = 0, minor = 0;
  if (!number(q, end, major) || q == end || *q != ',') return false;
  ++q;
  if (!number(q, end, minor)) return false;
  dev = make_dev(static_cast<std::uint32_t>(major), static_cast<std::uint32_t>(minor));
  p = q;
  return true;
}

bool match(const Pattern& pattern, const char* p, const char* end, Event& event) {
  for (const Step& s : pattern.steps) {
    if (static_cast<std::size_t>(end - p) < s.literal.size() ||
        std::memcmp(p, s.literal.data(), s.literal.size()) != 0)
      return false;
    p += s.literal.size();
    if (s.skip) {
      while (p < end && *p != ' ') ++p;
    } else if (s.field != nullptr && !parse_field(*s.field, p, end, event)) {
      return false;
    }
  }
  return true;
}

std::string_view after_address(std::string_view text) {
  // trace-cmd report prints the caller's address before a mark's text.
  if (text.starts_with("0x") || text.starts_with("0X")) {
    const std::size_t colon = text.find(": ");
    if (colon != std::string_view::npos && colon < 40) return text.substr(colon + 2);
  }
  return text;
}

class TextReader final : public Reader {
 public:
  TextReader(std::unique_ptr<ByteSource> source, ReaderOptions options)
      : Reader(std::move(options)), source_(std::move(source)), buffer_(kBufferBytes) {}

  Result<bool> next(Event& event) override {
    std::string_view line;
    while (E4_TRY(take_line(line))) {
      ++line_number_;
      if (read_line(line, event)) return true;
    }
    return false;
  }
  [[nodiscard]] std::string thread_name(std::int32_t pid) const override {
    const auto it = names_.find(pid);
    return it == names_.end() ? std::string() : it->second;
  }
  [[nodiscard]] std::string form() const override { return "text"; }

 private:
  Result<bool> take_line(std::string_view& line) {
    for (;;) {
      const char* from = buffer_.data() + begin_;
      if (const void* nl = std::memchr(from, '\n', end_ - begin_)) {
        const auto n = static_cast<std::size_t>(static_cast<const char*>(nl) - from);
        line = {from, n};
        begin_ += n + 1;
        return true;
      }
      if (ended_) {
        if (begin_ == end_) return false;
        line = {from, end_ - begin_};
        begin_ = end_;
        last_unfinished_ = true;
        return true;
      }
      if (begin_ == 0 && end_ == buffer_.size()) {  // no line is that long
        notes_.add(Trouble::malformed, "line longer than a mebibyte", line_number_ + 1);
        begin_ = end_;
      }
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
      auto n = source_->read(buffer_.data() + end_, buffer_.size() - end_);
      if (!n) {  // what came so far is good; the rest is gone
        notes_.add(Trouble::cut, n.error().message(), line_number_ + 1);
        ended_ = true;
        continue;
      }
      end_ += *n;
      if (*n == 0) {
        ended_ = true;
        if (source_->cut()) notes_.add(Trouble::cut, "the compressed stream ends early", line_number_ + 1);
      }
    }
  }

  bool read_line(std::string_view line, Event& event) {
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty() || line[0] == '#') {
      if (!line.empty()) header(line);
      return false;
    }
    LineHead head;
    if (!parse_head(line, head)) {
      no_event(line);
      return false;
    }
    ++events_read_;
    std::memset(&event, 0, sizeof event);
    event.number = line_number_;
    event.time_ns = head.time_ns;
    event.pid = head.pid;
    event.cpu = head.cpu;
    remember(head);
    const auto it = patterns().by_name.find(head.event);
    if (it == patterns().by_name.end()) {
      unlisted(head);
      return false;
    }
    const EventFormat& format = *it->second.format;
    event.kind = format.kind;
    const char* p = head.text.data();
    const char* end = p + head.text.size();
    if (format.kind == Kind::mark) {
      const std::string_view text = after_address(head.text);
      event.mark = {text.data(), static_cast<std::uint32_t>(text.size())};
      return true;
    }
    if (format.kind == Kind::truncate_call || format.kind == Kind::truncate_return) return truncate_text(head.text, event);
    if (format.kind == Kind::work_done) return head.text.find("ext4_discard_work") != std::string_view::npos;
    if (!parse_dev(p, end, event.dev) || !match(it->second, p, end, event)) {
      notes_.add(last_unfinished_ ? Trouble::cut : Trouble::malformed, head.event, line_number_);
      return false;
    }
    return wanted(event.dev, line_number_);
  }

  /// "sys_ftruncate(fd: 3, length: 2000)" (hexadecimal), "sys_ftruncate -> 0x0".
  bool truncate_text(std::string_view text, Event& event) {
    if (event.kind == Kind::truncate_return) return true;
    const std::size_t at = text.find("length: ");
    std::string_view digits = at == std::string_view::npos ? std::string_view() : text.substr(at + 8);
    if (digits.starts_with("0x")) digits.remove_prefix(2);
    const auto [p, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), event.range.pos, 16);
    if (ec == std::errc()) return true;
    notes_.add(Trouble::malformed, "truncate call", line_number_);
    return false;
  }

  void unlisted(const LineHead& head) {
    const EventFormat* f = find_format(head.event);
    if (f != nullptr) return;
    const bool ours = head.event.starts_with("ext4_") || head.event.starts_with("jbd2_");
    notes_.add(ours ? Trouble::unknown_event : Trouble::other_event, head.event, line_number_);
  }

  void header(std::string_view line) {
    const std::size_t at = line.find("entries-in-buffer/entries-written: ");
    if (at == std::string_view::npos) return;
    const char* p = line.data() + at + 35;
    const char* end = line.data() + line.size();
    std::uint64_t in = 0, written = 0;
    if (number(p, end, in) && p < end && *p == '/' && number(++p, end, written) && written > in)
      notes_.add(Trouble::lost, "the ring buffer (overwritten)", line_number_, written - in);
  }

  void no_event(std::string_view line) {
    while (!line.empty() && line[0] == ' ') line.remove_prefix(1);
    if (line.starts_with("CPU:") || line.starts_with("CPU ")) {
      if (line.find("LOST") != std::string_view::npos || line.find("DROPPED") != std::string_view::npos) {
        std::uint64_t cpu = 0, n = 0;
        const char* end = line.data() + line.size();
        const char* p = line.data() + 4;
        number(p, end, cpu);
        while (p < end && !digit(*p)) ++p;
        if (!number(p, end, n)) n = 1;  // the kernel does not know how many
        notes_.add(Trouble::lost, "CPU " + std::to_string(cpu), line_number_, n);
      }
      return;
    }
    if (line.starts_with("cpus=") || line.starts_with("version") || line.starts_with("##### CPU") || line.empty()) return;
    if (last_unfinished_) notes_.add(Trouble::cut, "the last line has no end", line_number_);
    else notes_.add(Trouble::malformed, "not a trace line", line_number_);
  }

  void remember(const LineHead& head) {
    constexpr std::size_t kMaxNames = 65536;
    if (head.pid == last_pid_) return;
    last_pid_ = head.pid;
    if (names_.size() < kMaxNames) names_.try_emplace(head.pid, head.comm);
  }

  std::unique_ptr<ByteSource> source_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;
  bool ended_ = false, last_unfinished_ = false;
  std::uint64_t line_number_ = 0;
  std::int32_t last_pid_ = -1;
  std::unordered_map<std::int32_t, std::string> names_;
};

}  // namespace

bool parse_head(std::string_view line, LineHead& head) {
  const char* begin = line.data();
  const char* end = begin + line.size();
  // "[CPU]": the first bracket that holds only digits and follows a blank.
  const char* open = nullptr;
  const char* close = nullptr;
  for (const char* p = begin; (p = static_cast<const char*>(std::memchr(p, '[', static_cast<std::size_t>(end - p)))) != nullptr; ++p) {
    const char* q = p + 1;
    while (q < end && digit(*q)) ++q;
    if (q == p + 1 || q >= end || *q != ']' || p == begin || p[-1] != ' ') continue;
    const char* before = p;  // a thread's name may hold brackets: its id, or "(tgid)", stands before ours
    while (before > begin && before[-1] == ' ') --before;
    if (before > begin && (digit(before[-1]) || before[-1] == ')')) {
      open = p;
      close = q;
      break;
    }
  }
  if (open == nullptr) return false;
  std::uint64_t v = 0;
  const char* p = open + 1;
  number(p, close, v);
  head.cpu = static_cast<std::uint16_t>(v);

  // Before it: "comm-pid", "comm-pid (tgid)", or perf's "comm pid" and "comm pid/tid".
  const char* e = open;
  while (e > begin && e[-1] == ' ') --e;
  if (e > begin && e[-1] == ')') {
    while (e > begin && *e != '(') --e;
    while (e > begin && e[-1] == ' ') --e;
  }
  const char* d = e;
  while (d > begin && digit(d[-1])) --d;
  if (d == e || d == begin) return false;
  p = d;
  number(p, e, v);
  head.pid = static_cast<std::int32_t>(v);
  const char* comm_end = d - 1;
  if (*comm_end == '/' && comm_end > begin && digit(comm_end[-1])) {
    while (comm_end > begin && digit(comm_end[-1])) --comm_end;
    if (comm_end > begin) --comm_end;
  } else if (*comm_end != '-' && *comm_end != ' ') {
    return false;
  }
  const char* c = begin;
  while (c < comm_end && *c == ' ') ++c;
  while (comm_end > c && comm_end[-1] == ' ') --comm_end;
  head.comm = {c, static_cast<std::size_t>(comm_end - c)};

  // After it: perhaps latency flags, then "seconds.fraction:".
  p = close + 1;
  for (;;) {
    while (p < end && *p == ' ') ++p;
    const char* w = p;
    while (p < end && *p != ' ') ++p;
    if (p == w) return false;
    if (p[-1] != ':' || !digit(*w)) continue;
    const char* q = w;
    std::uint64_t seconds = 0;
    if (!number(q, p, seconds)) return false;
    if (*q != '.') {  // a counter clock
      head.time_ns = seconds;
      break;
    }
    const char* f = ++q;
    std::uint64_t fraction = 0;
    if (!number(q, p, fraction)) return false;
    for (auto digits = q - f; digits < 9; ++digits) fraction *= 10;
    head.time_ns = seconds * 1'000'000'000 + fraction;
    break;
  }
  while (p < end && *p == ' ') ++p;
  const char* name = p;
  const char* colon = static_cast<const char*>(std::memchr(p, ':', static_cast<std::size_t>(end - p)));
  if (colon == nullptr) return false;
  if (colon + 1 < end && colon[1] != ' ' && colon[1] != '\0') {  // perf: "ext4:ext4_free_blocks:"
    const char* second = static_cast<const char*>(std::memchr(colon + 1, ':', static_cast<std::size_t>(end - colon - 1)));
    if (second != nullptr && std::memchr(colon + 1, ' ', static_cast<std::size_t>(second - colon - 1)) == nullptr) {
      name = colon + 1;
      colon = second;
    }
  }
  head.event = {name, static_cast<std::size_t>(colon - name)};
  p = colon + 1;
  while (p < end && *p == ' ') ++p;
  head.text = {p, static_cast<std::size_t>(end - p)};
  return true;
}

bool parse_text(std::string_view name, std::string_view text, Event& event) {
  const auto it = patterns().by_name.find(name);
  if (it == patterns().by_name.end()) return false;
  event.kind = it->second.format->kind;
  const char* p = text.data();
  const char* end = p + text.size();
  return parse_dev(p, end, event.dev) && match(it->second, p, end, event);
}

Result<std::unique_ptr<Reader>> open_text(std::unique_ptr<ByteSource> source, const std::string&, ReaderOptions options) {
  patterns();
  return std::unique_ptr<Reader>(new TextReader(std::move(source), std::move(options)));
}

}  // namespace e4::trace
