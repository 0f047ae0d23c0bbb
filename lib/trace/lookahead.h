// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "trace/reader.h"
#include "trace/request_record.h"

namespace e4::trace {

/// An event and its part in a request.
struct Item {
  Event event{};
  enum class Role : std::uint8_t {
    none,
    begin,   // the request_blocks line
    decide,  // the first line that shows the allocator at work on it: here the request takes its turn
    inside,  // any other line of the thread until allocate_blocks
  } role = Role::none;
  bool ends = false;                       // the allocate_blocks line (also with decide)
  std::shared_ptr<RequestRecord> request;  // unless role is none
};

/// A window over the events of a trace. A request is handed out only when its
/// end in the same thread has been seen, so that the player can decide it and
/// compare at once; and whether a delayed request's file was still open is
/// found by looking further, when somebody asks.
///
/// Open or closed (fact sheet, "open for writing"): the delayed request's
/// thread goes on to a da_update_reserve_space of the inode that brings the
/// reservation to zero. Followed directly by discard_preallocations of that
/// inode: closed. Otherwise open.
///
/// Memory: at most `limit` events are held. What needs a longer view is taken
/// as abandoned, or open.
class Lookahead {
 public:
  explicit Lookahead(Reader& reader, std::size_t limit = 1 << 17) : reader_(reader), limit_(limit) {}

  /// The next event in order; false at the end.
  Result<bool> next(Item& item);
  /// Makes request.open known (never Open::unknown afterwards).
  Result<void> resolve_open(RequestRecord& request);
  /// Requests whose end was never seen.
  [[nodiscard]] std::uint64_t abandoned() const { return abandoned_; }

  /// Is anything of another thread near `time_ns` in what lies ahead (within `span_ns`) that takes a group's lock?
  template <class F>
  void each_ahead(std::uint64_t until_ns, F&& f) const {
    for (const Item& i : window_) {
      if (i.event.time_ns > until_ns) break;
      f(i);
    }
  }

 private:
  struct Thread {
    std::shared_ptr<RequestRecord> current;               // between request_blocks and its end
    std::vector<std::shared_ptr<RequestRecord>> waiting;  // delayed requests whose file may be open or closed
    Ino emptied = 0;                                      // its reservation just went to zero: the next event tells
    std::uint32_t emptied_dev = 0;
  };
  Result<bool> fill();
  void look_at(Item& item);
  void in_request(Thread& t, Item& item);
  void settle(Thread& t, Ino ino, std::uint32_t dev, RequestRecord::Open open);
  Thread& thread(std::int32_t pid);

  Reader& reader_;
  std::size_t limit_;
  std::deque<Item> window_;
  std::unordered_map<std::int32_t, Thread> threads_;
  std::int32_t last_pid_ = -1;
  Thread* last_thread_ = nullptr;
  bool ended_ = false;
  std::uint64_t abandoned_ = 0;
};

}  // namespace e4::trace
