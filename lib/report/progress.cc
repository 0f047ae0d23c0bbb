// SPDX-License-Identifier: GPL-2.0-only
#include "report/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ostream>

namespace e4::report {

namespace {

using Clock = std::chrono::steady_clock;

class Silent final : public Progress {
 public:
  void phase(int, std::string_view) override {}
  void step(std::uint64_t, std::uint64_t) override {}
  void done() override {}
};

/// Lets one update through every `kGap`, and always the last of a phase.
class Paced : public Progress {
 public:
  void phase(int number, std::string_view label) override {
    number_ = number;
    label_ = label;
    last_ = {};
    step(0, 1);
  }
  void step(std::uint64_t current, std::uint64_t max) override {
    const auto now = Clock::now();
    if (current < max && last_ != Clock::time_point{} && now - last_ < kGap) return;
    last_ = now;
    draw(current, max);
  }

 protected:
  static constexpr std::chrono::milliseconds kGap{100};
  virtual void draw(std::uint64_t current, std::uint64_t max) = 0;
  int number_ = 0;
  std::string label_;

 private:
  Clock::time_point last_;
};

class Descriptor final : public Paced {
 public:
  Descriptor(int fd, std::string device) : fd_(fd), device_(std::move(device)) {}
  void done() override {}

 private:
  void draw(std::uint64_t current, std::uint64_t max) override {
    if (broken_) return;
    const std::string line = fmt::format("{} {} {} {}\n", number_, current, max, device_);
    std::size_t at = 0;
    while (at < line.size()) {
      const ssize_t n = ::write(fd_, line.data() + at, line.size() - at);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        broken_ = true;
        return;
      }
      at += static_cast<std::size_t>(n);
    }
  }
  int fd_;
  std::string device_;
  bool broken_ = false;
};

class Bar final : public Paced {
 public:
  Bar(std::ostream& out, std::string device, int width) : out_(out), device_(std::move(device)), width_(std::max(width, 40)) {}
  void done() override {
    out_ << '\r' << std::string(static_cast<std::size_t>(width_ - 1), ' ') << '\r' << std::flush;
  }

 private:
  void draw(std::uint64_t current, std::uint64_t max) override {
    const double part = max == 0 ? 1.0 : static_cast<double>(std::min(current, max)) / static_cast<double>(max);
    const std::string head = fmt::format("{}: {} ", device_, label_);
    const int room = std::clamp(width_ - static_cast<int>(head.size()) - 10, 4, 60);
    const int full = static_cast<int>(part * room);
    out_ << '\r' << head << '|' << std::string(static_cast<std::size_t>(full), '=')
         << std::string(static_cast<std::size_t>(room - full), ' ') << fmt::format("| {:5.1f}%", part * 100) << std::flush;
  }
  std::ostream& out_;
  std::string device_;
  int width_;
};

}  // namespace

std::unique_ptr<Progress> no_progress() { return std::make_unique<Silent>(); }
std::unique_ptr<Progress> descriptor_progress(int fd, std::string device) {
  return std::make_unique<Descriptor>(fd, std::move(device));
}
std::unique_ptr<Progress> bar_progress(std::ostream& out, std::string device, int width) {
  return std::make_unique<Bar>(out, std::move(device), width);
}

}  // namespace e4::report
