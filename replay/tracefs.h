// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/result.h"

namespace e4::replay {

/// A ring buffer of our own in the kernel's tracefs: made, filled, drained and
/// removed again. Only event files and the instance's own files are touched
/// (no function-tracer file, which containers refuse).
class TraceInstance {
 public:
  /// Mounts nothing: tracefs must be there (/sys/kernel/tracing). Instances
  /// that a killed recorder left behind are removed. Errors name the file.
  static Result<std::unique_ptr<TraceInstance>> create(std::uint32_t buffer_kib);
  ~TraceInstance();  // stops, drains no more, removes the instance
  TraceInstance(const TraceInstance&) = delete;
  TraceInstance& operator=(const TraceInstance&) = delete;

  /// Turns one event on ("ext4/ext4_mballoc_alloc"), with a filter. False: this kernel does not have it.
  Result<bool> enable(const std::string& event, const std::string& filter);
  /// Starts recording and draining: the pages of each CPU go to `raw_prefix`N.
  Result<void> start(const std::string& raw_prefix);
  /// A mark in the trace.
  void mark(std::string_view text);
  /// Stops recording, drains what is left. Returns the raw files by CPU.
  Result<std::vector<std::string>> stop();

  struct CpuStats {
    std::uint64_t entries = 0, overrun = 0, commit_overrun = 0, dropped = 0;
  };
  /// By CPU, after stop().
  [[nodiscard]] const std::vector<CpuStats>& stats() const { return stats_; }
  [[nodiscard]] const std::vector<std::string>& enabled() const { return enabled_; }  // "ext4/NAME"
  [[nodiscard]] static std::string root();

 private:
  explicit TraceInstance(std::string path) : path_(std::move(path)) {}
  Result<void> write(const std::string& file, std::string_view text);
  void drain(std::stop_token stop);
  bool drain_once();

  std::string path_;
  std::vector<std::string> enabled_;
  std::vector<std::string> raw_paths_;
  std::vector<int> pipes_, outs_;
  int marker_ = -1;
  std::jthread drainer_;
  std::string drain_error_;  // written by the drainer, read after it ended
  std::vector<CpuStats> stats_;
};

/// Writes a trace.dat (trace-cmd file version 6) from raw ring-buffer pages:
/// the formats of the enabled events, thread names, and the pages as they are.
Result<void> write_trace_dat(const std::string& path, const TraceInstance& instance,
                             const std::vector<std::string>& raw_paths);

}  // namespace e4::replay
