// SPDX-License-Identifier: GPL-2.0-only
#include "cli/run.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <thread>

#include "cli/exit_status.h"

namespace e4::cli {

namespace {

/// Turns the first of SIGINT, SIGTERM, SIGHUP into a stop request. The signals
/// are blocked and read from a descriptor, so there is no handler and no
/// global state.
class SignalWatch {
 public:
  SignalWatch() {
    sigset_t set;
    sigemptyset(&set);
    for (const int s : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, s);
    if (pthread_sigmask(SIG_BLOCK, &set, &old_) != 0) return;
    signals_ = signalfd(-1, &set, SFD_CLOEXEC);
    quit_ = eventfd(0, EFD_CLOEXEC);
    if (signals_ >= 0 && quit_ >= 0) thread_ = std::thread([this] { loop(); });
  }
  ~SignalWatch() {
    if (thread_.joinable()) {
      const std::uint64_t one = 1;
      if (::write(quit_, &one, sizeof one) == sizeof one) thread_.join();
      else thread_.detach();
    }
    if (signals_ >= 0) ::close(signals_);
    if (quit_ >= 0) ::close(quit_);
    pthread_sigmask(SIG_SETMASK, &old_, nullptr);
  }
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;
  [[nodiscard]] std::stop_token token() const { return stop_.get_token(); }

 private:
  void loop() {
    bool seen = false;
    for (;;) {
      pollfd p[2] = {{signals_, POLLIN, 0}, {quit_, POLLIN, 0}};
      if (::poll(p, 2, -1) < 0) continue;
      if ((p[1].revents & POLLIN) != 0) return;
      signalfd_siginfo info;
      if (::read(signals_, &info, sizeof info) != static_cast<ssize_t>(sizeof info)) continue;
      if (seen) ::_exit(exit_status::kCancelled);
      seen = true;
      stop_.request_stop();
    }
  }
  sigset_t old_ = {};
  int signals_ = -1, quit_ = -1;
  std::stop_source stop_;
  std::thread thread_;
};

}  // namespace

int guarded(const std::string& name, const std::vector<std::string>& args, Io& io, Tool tool) {
  try {
    const int status = tool(args, io);
    io.out.flush();
    if (!io.out && status == exit_status::kOk) {
      io.err << name << ": cannot write to standard output\n";
      return exit_status::kOperational;
    }
    return status;
  } catch (const std::bad_alloc&) {
    io.err << name << ": out of memory\n";
  } catch (const std::exception& e) {
    io.err << name << ": internal error: " << e.what() << '\n';
  }
  return exit_status::kOperational;
}

int run(int argc, char** argv, Tool tool) {
  ::signal(SIGPIPE, SIG_IGN);
  std::ios::sync_with_stdio(false);
  std::string name = argc > 0 ? argv[0] : "e4";
  name = name.substr(name.rfind('/') + 1);
  const std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
  winsize window = {};
  const bool sized = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0;
  const SignalWatch watch;
  Io io{.in = std::cin,
        .out = std::cout,
        .err = std::cerr,
        .in_is_terminal = ::isatty(STDIN_FILENO) == 1,
        .out_is_terminal = ::isatty(STDOUT_FILENO) == 1,
        .columns = sized ? window.ws_col : 80,
        .environment =
            [](const char* v) {
              const char* s = std::getenv(v);
              return std::string(s != nullptr ? s : "");
            },
        .stop = watch.token()};
  return guarded(name, args, io, tool);
}

}  // namespace e4::cli
