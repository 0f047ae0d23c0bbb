// SPDX-License-Identifier: GPL-2.0-only
#include <editline/readline.h>
#include <fmt/core.h>

#include <charconv>
#include <cstdlib>
#include <istream>
#include <ostream>
#include <sstream>

#include "replay/commands.h"
#include "replay/replay.h"
#include "replay/stepper.h"

namespace e4::replay {
namespace {

constexpr const char* kHelp =
    "n [K]        go K events on (Enter: one)\n"
    "b [K]        go K events back\n"
    "goto N       to position N\n"
    "d            on to the next decision\n"
    "diff         on to the next decision that differs from the kernel's\n"
    "ino N        on to the next event of inode N\n"
    "explain      what each criterion tried for the decision at this event\n"
    "group G      counters and preallocations of a group\n"
    "file N       size and preallocations of an inode\n"
    "orphans      inodes unlinked and still open\n"
    "state        totals\n"
    "help, q\n";

/// Lines from a terminal with editing and history, else from the stream.
bool next_line(cli::Io& io, const std::string& prompt, std::string& line) {
  if (!io.in_is_terminal) return static_cast<bool>(std::getline(io.in, line));
  char* text = ::readline(prompt.c_str());
  if (text == nullptr) return false;
  line = text;
  if (!line.empty()) ::add_history(text);
  std::free(text);
  return true;
}

class Session {
 public:
  Session(Stepper& stepper, cli::Io& io) : s_(stepper), io_(io) {}

  /// False: the user is done.
  Result<bool> command(const std::string& line) {
    std::istringstream in(line);
    std::string word, argument;
    in >> word >> argument;
    std::uint64_t number = 1;
    const bool has_number = !argument.empty();
    if (has_number) {
      const auto r = std::from_chars(argument.data(), argument.data() + argument.size(), number);
      if (r.ec != std::errc{} || r.ptr != argument.data() + argument.size())
        return make_error(ErrorKind::usage, "'" + argument + "' is not a number");
    }
    auto need = [&]() -> Result<void> {
      return has_number ? Result<void>{} : make_error(ErrorKind::usage, word + ": which one?");
    };
    if (word == "q" || word == "quit") return false;
    if (word.empty() || word == "n" || word == "next") {
      E4_TRY(s_.go_to(s_.position() + number));
      show();
    } else if (word == "b" || word == "back") {
      E4_TRY(s_.go_to(s_.position() > number ? s_.position() - number : 0));
      show();
    } else if (word == "goto" || word == "g") {
      E4_TRY(need());
      E4_TRY(s_.go_to(number));
      show();
    } else if (word == "d" || word == "decision") {
      found(E4_TRY(s_.find([](const trace::Item& i) { return i.role == trace::Item::Role::decide; })));
    } else if (word == "diff") {
      found(E4_TRY(s_.find([this](const trace::Item& i) {
        return i.role == trace::Item::Role::decide && s_.decision().find("they differ") != std::string::npos;
      })));
    } else if (word == "ino") {
      E4_TRY(need());
      found(E4_TRY(s_.find([number](const trace::Item& i) { return i.event.ino == number; })));
    } else if (word == "explain" || word == "e") {
      io_.out << E4_TRY(s_.explain());
    } else if (word == "group") {
      E4_TRY(need());
      if (number > UINT32_MAX) return make_error(ErrorKind::usage, "no such group");
      io_.out << s_.group_text(static_cast<GroupNo>(number));
    } else if (word == "file") {
      E4_TRY(need());
      if (number == 0 || number > UINT32_MAX) return make_error(ErrorKind::usage, "no such inode");
      io_.out << s_.inode_text(static_cast<Ino>(number));
    } else if (word == "orphans") {
      io_.out << s_.orphans_text();
    } else if (word == "state") {
      io_.out << s_.state_text();
    } else if (word == "help" || word == "h" || word == "?") {
      io_.out << kHelp;
    } else {
      return make_error(ErrorKind::usage, "unknown command '" + word + "' (help)");
    }
    return true;
  }

 private:
  void show() {
    io_.out << s_.line() << "\n";
    if (const std::string d = s_.decision(); !d.empty()) io_.out << "  " << d << "\n";
  }
  void found(bool yes) {
    if (yes)
      show();
    else
      io_.out << "the trace ends; nothing more of that kind\n";
  }
  Stepper& s_;
  cli::Io& io_;
};

}  // namespace

Result<int> cmd_step(const StepOptions& o, cli::Io& io) {
  const auto stepper = E4_TRY(Stepper::open(o.from, o.policy));
  Session session(*stepper, io);
  if (io.in_is_terminal) io.out << "'help' lists the commands.\n";
  std::string line;
  int status = kSame;
  while (!io.stop.stop_requested() && next_line(io, fmt::format("{}> ", stepper->position()), line)) {
    const auto more = session.command(line);
    if (!more) {
      // A script must notice; a person types again.
      io.err << "e4replay: " << more.error().message() << "\n";
      if (!io.in_is_terminal) status = kCouldNot;
      continue;
    }
    if (!*more) break;
  }
  return status;
}

}  // namespace e4::replay
