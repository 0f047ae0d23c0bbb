// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "alloc/allocator.h"
#include "alloc/context.h"
#include "alloc/cpu_slots.h"
#include "alloc/freed.h"
#include "alloc/group.h"
#include "alloc/prealloc.h"
#include "alloc/stream_goal.h"

namespace e4::alloc {

/// The allocator's parts and the steps of a request; see README.md. Private to lib/alloc.
class Allocator::Impl {
 public:
  Impl(const Geometry& geometry, const MountOptions& mount, const Tunables& tunables, const Policy& policy,
       BitmapSource& source);

  // --- constant after construction, or changed only while quiescent
  const Geometry geo;
  const MountOptions mount;
  Tunables tun;
  const Policy policy;
  const std::uint32_t cpus_count;
  const std::uint32_t stripe_clusters;   // 0: none
  const std::uint64_t root_clusters;
  std::uint64_t reserved;

  // --- each part locks itself
  ContainerLock freed_lock;              // s_md_lock
  GroupTable groups;
  InodePas inode_pas;
  std::unique_ptr<LocalityGroup[]> localities;
  std::unique_ptr<PaPool[]> pools;
  std::unique_ptr<CpuSlot[]> cpus;
  CpuCounter free_counter, dirty_counter;
  StreamGoals stream;
  FreedLists freed;
  std::atomic<std::uint32_t> last_trim_minimum{0};  // of the last trim; a hint
  Mutex error_mutex;
  std::string error_text E4_GUARDED_BY(error_mutex);

  // --- a request (allocate.cc)
  Status allocate(const Request& rq, Outcome& out, EventLog* log, ExplainSink* explain);
  void initialize(Context& c, std::uint32_t len) const;
  bool mark_disk(Context& c);
  void release(Context& c);
  bool retry_after_discard(Context& c, std::uint64_t& changes_seen, unsigned retries);

  // --- claim.cc
  [[nodiscard]] std::uint32_t claim(const Request& rq, std::uint32_t len) const;
  [[nodiscard]] bool has_room(const Request& rq, std::uint64_t len, std::int64_t free, std::int64_t dirty) const;
  [[nodiscard]] std::int64_t free_sum() const;
  [[nodiscard]] std::int64_t dirty_sum() const;

  // --- locality.cc
  void group_or_file(Context& c);
  bool use_existing(Context& c);
  void normalize_request(Context& c);
  void make_pa(Context& c, GroupBody& body);
  void use_inode_pa(Context& c, Pa* pa);
  void use_group_pa(Context& c, Pa* pa);
  void relist(Context& c);
  void trim_list(std::uint32_t cpu, unsigned order, EventLog* log);
  void drop_reference(Pa* pa);

  // --- criteria.cc
  void regular(Context& c);
  void scan(Context& c);
  void scan_optimized(Context& c, GroupNo start, GroupNo ngroups);
  GroupNo scan_linear(Context& c, GroupNo start, GroupNo count, GroupNo ngroups);
  bool visit_lists(Context& c, GroupNo visits);
  GroupNo best_available_in_lists(Context& c);
  bool visit_set(Context& c, GroupIndex::Kind kind, unsigned order, GroupNo from, GroupNo to);
  void prefetch(Context& c, GroupNo g);
  void prefetch_finish(Context& c);
  bool prefetch_group(GroupNo g);
  void visit(Context& c, GroupNo g);
  Verdict judge_unlocked(Context& c, GroupNo g, unsigned cr);
  [[nodiscard]] Verdict judge(const Context& c, GroupNo g, unsigned cr) const;
  [[nodiscard]] GroupNo usable_groups(const Context& c) const;
  [[nodiscard]] GroupNo first_good_in_list(Context& c, GroupIndex::Kind kind, unsigned order) const;

  // --- search.cc: inside one locked group
  bool probe_goal(Context& c);
  void search_group(Context& c, GroupNo g, GroupLock& l, GroupBody& body) E4_REQUIRES(l.spin);
  void search_piece(Context& c, GroupNo g, GroupLock& l, GroupBody& body) E4_REQUIRES(l.spin);
  void search_aligned(Context& c, GroupNo g, GroupLock& l, GroupBody& body) E4_REQUIRES(l.spin);
  void search_runs(Context& c, GroupNo g, GroupLock& l, GroupBody& body) E4_REQUIRES(l.spin);
  void measure_short(Context& c, GroupNo g, const Buddy& buddy, std::uint32_t from, std::uint32_t to);
  void measure(Context& c, GroupNo g, GroupLock& l, GroupBody& body, Buddy::Run run) E4_REQUIRES(l.spin);
  void check_limits(Context& c, GroupNo g, GroupLock& l, GroupBody& body, bool final) E4_REQUIRES(l.spin);
  void take(Context& c, GroupLock& l, GroupBody& body) E4_REQUIRES(l.spin);
  void take_best_late(Context& c);

  // --- on-disk bitmap and B under the group lock (free.cc)
  void disk_take(GroupNo g, GroupBody& body, std::uint32_t start, std::uint32_t len, CpuSlot& cpu);
  void disk_give(GroupNo g, GroupBody& body, std::uint32_t start, std::uint32_t len, CpuSlot& cpu, bool count_free);
  void buddy_take(GroupNo g, GroupLock& l, GroupBody& body, std::uint32_t start, std::uint32_t len) E4_REQUIRES(l.spin);
  void buddy_give(GroupNo g, GroupLock& l, GroupBody& body, std::uint32_t start, std::uint32_t len) E4_REQUIRES(l.spin);
  Result<void> free_clusters(GroupNo g, std::uint32_t start, std::uint32_t len, const FreeRequest& how, EventLog* log);
  void commit(Tid tid, EventLog* log);

  // --- discard.cc
  unsigned discard_inode(Ino ino, EventLog* log);
  std::uint64_t discard_group(GroupNo g, bool* busy, EventLog* log);
  std::uint64_t discard_for(std::uint64_t needed, EventLog* log);
  void release_inode_pa(GroupNo g, GroupLock& l, GroupBody& body, Pa* pa, EventLog* log) E4_REQUIRES(l.spin);
  void release_group_pa(GroupNo g, GroupLock& l, GroupBody& body, Pa* pa, EventLog* log)
      E4_REQUIRES(l.spin);
  void unlink_from_group(GroupBody& body, Pa* pa);
  void unlink_from_object(Pa* pa);
  void recycle(Pa* pa) { pools[pa->pool].put(pa); }

  // --- impose.cc
  void undo(const Request& rq, const Outcome& out);
  Result<void> impose(const Request& rq, const Imposed& choice);
  Result<void> impose_from_pa(const Request& rq, const Imposed& choice, Pa* pa);
  Pa* adopt_pa(GroupNo g, const PaInfo& info, std::uint32_t free_clusters, const Request& rq);
  void forget_pa(Pa* pa);
  void vacate(GroupNo g, std::uint32_t start, std::uint32_t len);

  // --- helpers
  CpuSlot& cpu_slot(std::uint32_t cpu) const { return cpus[cpu % cpus_count]; }
  void remember_error(const Error& e);
  struct Place {
    GroupNo group;
    std::uint32_t cluster;
  };
  [[nodiscard]] Place place(Blk block) const {
    const Blk rel = block - geo.first_data_block;
    return {static_cast<GroupNo>(rel / geo.blocks_per_group),
            static_cast<std::uint32_t>(rel % geo.blocks_per_group) >> geo.cluster_bits};
  }
  [[nodiscard]] Blk block_at(const Position& p) const {
    return geo.first_block(p.group) + (static_cast<std::int64_t>(p.start) << geo.cluster_bits);
  }
  [[nodiscard]] bool in_range(Blk block, std::uint64_t count) const {
    return block >= geo.first_data_block && block < geo.blocks_count && count <= geo.blocks_count - block;
  }
};

}  // namespace e4::alloc
