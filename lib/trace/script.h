// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <vector>

#include "trace/player.h"

namespace e4::trace {

/// One thing to do on an allocator, from a trace.
struct Op {
  enum class Kind : std::uint8_t { request, free, discard_inode, commit, reserve, load_group, bitmap_cached, prefetch, inode_allocated };
  std::uint64_t time_ns = 0;
  std::uint64_t value = 0;       // request: index in Script::requests; reserve: clusters (signed); commit: tid; others: group
  Ino ino = 0;
  std::uint32_t start = 0;       // free: first cluster; prefetch: count
  std::uint32_t len = 0;         // free: clusters
  std::uint32_t flags = 0;       // free
  Tid tid = 0;                   // free
  std::uint16_t cpu = 0;
  Kind kind = Kind::request;
};

/// A trace taken apart once, to be run many times: what to ask the allocator,
/// and what the kernel got (which says how much the caller took and gives the
/// names under which later events speak of the blocks). Grows with the trace.
struct Script {
  struct Request {
    alloc::Request ask;
    Blk kernel_block = 0;
    std::uint32_t kernel_len = 0;  // clusters; 0: it got nothing
  };
  std::vector<Op> ops;             // in trace order
  std::vector<Request> requests;
  std::uint64_t first_ns = 0, last_ns = 0;
};

/// The player's target that writes a Script.
class ScriptWriter final : public Target {
 public:
  explicit ScriptWriter(const alloc::Geometry& geometry) : geometry_(geometry) {}
  Script take() { return std::move(script_); }

  Result<void> decide(RequestRecord& record) override;
  Result<void> free(const Freed& freed) override;
  void commit(Tid tid) override;
  void discard_inode(Ino ino, std::uint32_t expected) override;
  Result<void> load_group(GroupNo group) override;
  void bitmap_cached(GroupNo group) override;
  Result<void> prefetch(GroupNo first, std::uint32_t count) override;
  void inode_allocated(Ino ino, std::uint32_t mode) override;
  void reserve(std::int64_t clusters, std::uint32_t cpu) override;
  void phase(std::string_view) override {}
  void saw(const Event& event) override;

 private:
  Op& add(Op::Kind kind, Ino ino, std::uint64_t value);
  alloc::Geometry geometry_;
  Script script_;
  std::uint64_t now_ns_ = 0;
  std::uint16_t cpu_ = 0;
};

}  // namespace e4::trace
