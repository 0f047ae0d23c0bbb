// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "alloc/allocator.h"
#include "trace/player.h"
#include "trace/free_run.h"

namespace e4::trace {

/// What happens after a difference.
enum class Mode : std::uint8_t {
  resync,    // the kernel's choice is taken and the run goes on from its state
  free_run,  // our choice stays; what the trace says later of the kernel's blocks is translated to ours
};

/// What compare believes to be behind a difference.
enum class Cause : std::uint8_t {
  busy_lock,       // another CPU held a group's lock: the trace shows who, not when exactly
  interleaved,     // another thread changed groups while the request was searching: it saw part of the change
  unknown_size,    // the file's size is not in the trace (growing truncate)
  open_state,      // open or closed for writing was read wrongly from the trace
  discard_worker,  // discard mount: the worker holds freed clusters back while the device works
  earlier,         // follows from an earlier difference (free run)
  lost_events,     // events were lost before
  unexplained,
};
inline constexpr std::size_t kCauses = 8;
const char* cause_name(Cause c);

struct Place {
  Blk block = 0;
  std::uint32_t len = 0;  // clusters
};

/// One request where kernel and model chose differently.
struct Difference {
  std::uint64_t event = 0;  // number of the request_blocks line
  std::uint64_t time_ns = 0;
  Ino ino = 0;
  Lblk lblk = 0;
  Place kernel, ours;
  Cause cause = Cause::unexplained;
  bool possible = false;    // the recorded outcome was reproduced under the believed cause
  std::string why;
};

/// Requests by how they come about.
enum class RequestKind : std::uint8_t { delayed, data, fallocate, metadata };
inline constexpr std::size_t kRequestKinds = 4;
const char* request_kind_name(RequestKind k);

struct Tally {
  std::uint64_t decisions = 0;    // allocations the kernel completed (with or without success)
  std::uint64_t identical = 0;    // same start block, same length
  std::uint64_t same_group = 0;
  std::uint64_t searched = 0;     // with a mballoc_alloc line, which prints all fields
  std::uint64_t same_scan = 0;    // of those: same criterion and number of groups
  std::uint64_t all_fields = 0;   // of those: every printed field
  void add(const Tally& t);
};

struct CompareResult {
  Tally total;
  std::uint64_t refused = 0, refused_same = 0;  // claims
  std::uint64_t refused_by_us = 0;              // completed by the kernel, refused by the model
  std::vector<std::pair<std::string, std::array<Tally, kRequestKinds>>> phases;
  std::optional<Difference> first;
  std::vector<Difference> differences;          // at most kMaxListed
  std::uint64_t differences_count = 0;
  std::array<std::uint64_t, kCauses> causes{};
  std::uint64_t possible = 0;                   // differences whose recorded outcome was reproduced
  std::uint64_t free_errors = 0;                // frees of blocks that are free in the model
  std::uint64_t impose_errors = 0;
  std::uint64_t pa_count_differs = 0;           // discard_preallocations with another number of live ones
  std::uint64_t missed_sizes = 0;
  /// Groups at the moment when the recording read mb_groups.
  bool groups_taken = false;
  std::vector<alloc::GroupCounters> groups;
  static constexpr std::size_t kMaxListed = 1000;
};

/// A target that makes every decision again and compares it. One file system, one thread.
class Comparer final : public Target {
 public:
  Comparer(alloc::Allocator& allocator, Mode mode, bool want_groups);
  /// The player that feeds this target and the window it looks at (for finding causes).
  void attach(Player& player, const Lookahead& ahead) { player_ = &player, ahead_ = &ahead; }
  void note_lost(std::uint64_t lost) { lost_ = lost; }

  Result<void> decide(RequestRecord& record) override;
  Result<void> free(const Freed& freed) override;
  void commit(Tid tid) override { allocator_.commit(tid); }
  void discard_inode(Ino ino, std::uint32_t expected) override;
  Result<void> load_group(GroupNo group) override { return allocator_.load_group(group); }
  void bitmap_cached(GroupNo group) override { allocator_.note_bitmap_cached(group); }
  Result<void> prefetch(GroupNo first, std::uint32_t count) override {
    return allocator_.prefetch_batch(first, count, false);
  }
  void inode_allocated(Ino ino, std::uint32_t mode) override;
  void reserve(std::int64_t clusters, std::uint32_t cpu) override;
  void phase(std::string_view text) override;
  Result<void> discard_started(GroupNo group, std::uint32_t start, std::uint32_t len, Tid tid) override {
    return allocator_.hold(group, start, len, tid);
  }
  void saw(const Event& event) override;

  /// What was found until now.
  [[nodiscard]] const CompareResult& so_far() const { return result_; }
  /// Closes the books.
  CompareResult& finish();

 private:
  /// Something that takes a group's lock, seen lately.
  struct Activity {
    std::uint64_t time_ns;
    std::int32_t pid;
    std::uint16_t cpu;
    Kind kind;
    GroupNo group;
  };
  [[nodiscard]] std::uint64_t cluster_of(Blk block) const;
  [[nodiscard]] Blk block_of(std::uint64_t cluster) const;
  [[nodiscard]] GroupNo group_of(Blk block) const;
  [[nodiscard]] bool matches(const RequestRecord& r, alloc::Status status, const alloc::Outcome& o) const;
  [[nodiscard]] bool same_state(const RequestRecord& r, const alloc::Outcome& o) const;
  void count(const RequestRecord& r, alloc::Status status, const alloc::Outcome& o, bool same);
  void differ(RequestRecord& r, alloc::Status status, alloc::Outcome& o);  // free run: `o` may be made again
  void explain(RequestRecord& r, Difference& d);
  bool try_sizes(RequestRecord& r, Difference& d);
  bool try_stream(RequestRecord& r, Difference& d);
  bool try_locks(RequestRecord& r, Difference& d);
  bool try_request(RequestRecord& r, const alloc::Request& q);
  void resync(RequestRecord& r);
  void adopt(const RequestRecord& r, const alloc::Outcome& o);
  std::vector<Activity> others(const RequestRecord& r) const;
  Tally& row(const RequestRecord& r);

  alloc::Allocator& allocator_;
  Mode mode_;
  bool want_groups_;
  bool reading_groups_ = false;
  Player* player_ = nullptr;
  const Lookahead* ahead_ = nullptr;
  bool hidden_ = false;           // free run: a preallocation differed where the blocks were the same
  std::uint64_t lost_ = 0;
  CompareResult result_;
  FreeRun free_run_;
  std::deque<Activity> recent_;
  bool returning_ = false;        // between run_stats and end_commit
  std::uint64_t trims_ = 0;       // discards started
  std::unordered_map<std::int32_t, Activity> in_flight_;  // other requests
  alloc::EventLog log_;
  std::uint64_t first_free_run_difference_ = 0;
};

/// How many blocks differ between what the allocator holds on disk and an end
/// state, clusters multiplied out; `start` gives bitmaps of groups the run never touched.
Result<std::uint64_t> different_blocks(const alloc::Allocator& allocator, alloc::BitmapSource& start,
                                       alloc::BitmapSource& end);

/// Reads an mb_groups file into lines by group; Error if it is none.
Result<std::vector<alloc::GroupCounters>> read_mb_groups(const std::string& path, unsigned orders);

}  // namespace e4::trace
