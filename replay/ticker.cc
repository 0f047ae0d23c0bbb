// SPDX-License-Identifier: GPL-2.0-only
#include "replay/ticker.h"

#include <fmt/core.h>

#include <ostream>

namespace e4::replay {

using namespace std::chrono_literals;

Ticker::Ticker(cli::Io& io, std::string what) : io_(io), what_(std::move(what)), started_(Clock::now()), last_(started_) {}

bool Ticker::tick(std::uint64_t done, std::optional<std::uint64_t> total) {
  if (io_.stop.stop_requested()) return false;
  const auto now = Clock::now();
  if (!io_.out_is_terminal || now - started_ < 2s || now - last_ < 200ms) return true;
  last_ = now;
  shown_ = true;
  const double seconds = std::chrono::duration<double>(now - started_).count();
  const double rate = static_cast<double>(done) / seconds;
  std::string line = fmt::format("\r{}: {} events, {:.2f} million a second", what_, done, rate / 1e6);
  if (total && *total > done && rate > 0) line += fmt::format(", {:.0f} s left", static_cast<double>(*total - done) / rate);
  io_.err << line << "   " << std::flush;
  return true;
}

void Ticker::done() {
  if (shown_) io_.err << "\r" << std::string(78, ' ') << "\r" << std::flush;
}

}  // namespace e4::replay
