// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <vector>

#include "alloc/types.h"
#include "trace/event.h"

namespace e4::trace {

/// Everything a trace tells about one request for blocks, gathered by looking
/// ahead in its thread.
struct RequestRecord {
  Event request{};                   // the request_blocks line

  enum class End : std::uint8_t {
    open,       // not known yet
    done,       // allocate_blocks seen (perhaps with length 0)
    refused,    // the claim was refused: no allocate_blocks follows
    abandoned,  // the trace ends, or is lost, in the middle
  } end = End::open;

  bool has_alloc = false;            // mballoc_alloc seen
  bool from_prealloc = false;        // mballoc_prealloc seen
  Event alloc{};                     // the mballoc_alloc or mballoc_prealloc line
  Event result{};                    // the allocate_blocks line
  Kind new_pa_kind = Kind::unknown;  // new_inode_pa or new_group_pa; unknown: none
  Event new_pa{};
  bool discarded = false;            // mb_discard_preallocations seen: space was short
  struct Released {
    std::uint32_t group, start, len;  // clusters, from mballoc_discard
  };
  std::vector<Released> released;    // preallocations given back inside the request (bounded)
  std::vector<GroupNo> loaded;       // groups initialised inside the request (bounded)

  /// Was the file open for writing? See Lookahead.
  enum class Open : std::uint8_t { unknown, open, closed } open = Open::unknown;

  std::uint64_t begin_number = 0, decide_number = 0, end_number = 0;  // event numbers
  std::uint64_t decide_ns = 0, end_ns = 0;

  // Filled in by the player.
  alloc::Request ready{};            // at the request line: what the allocator was asked, with size, CPU and open state
  std::vector<GroupNo> cached;       // bitmaps read for this request before it took its turn
  bool played = false;

  [[nodiscard]] bool delayed() const { return (request.req.flags & 0x400U) != 0; }
  [[nodiscard]] bool is_data() const { return (request.req.flags & 0x20U) != 0; }
};

}  // namespace e4::trace
