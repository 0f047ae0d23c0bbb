// SPDX-License-Identifier: GPL-2.0-only
#include "alloc/allocator.h"

#include <algorithm>
#include <thread>

#include "alloc/impl.h"

namespace e4::alloc {

namespace {

constexpr std::uint32_t kMaxCpus = 8192;
constexpr GroupNo kOptimizeFromGroups = 16;

Result<void> check(const Geometry& g, const MountOptions& m) {
  const auto bad = [](const std::string& what) { return make_error(ErrorKind::corrupt, "geometry: " + what); };
  if (g.block_bytes < 1024 || g.block_bytes > 65536 || (g.block_bytes & (g.block_bytes - 1)) != 0)
    return bad("block size " + std::to_string(g.block_bytes));
  if (g.cluster_bits > 16) return bad("2^" + std::to_string(g.cluster_bits) + " blocks in a cluster");
  if (g.clusters_per_group == 0 || g.clusters_per_group > g.bitmap_bits() ||
      std::uint64_t{g.clusters_per_group} << g.cluster_bits != g.blocks_per_group)
    return bad(std::to_string(g.clusters_per_group) + " clusters, " + std::to_string(g.blocks_per_group) +
               " blocks in a group");
  if (g.first_data_block > 1 || g.blocks_count <= g.first_data_block)
    return bad(std::to_string(g.blocks_count) + " blocks, first " + std::to_string(g.first_data_block));
  const std::uint64_t groups = (g.blocks_count - g.first_data_block - 1) / g.blocks_per_group + 1;
  if (groups > 0xFFFFFFF0ULL) return bad(std::to_string(groups) + " groups");
  if (g.blocks_count > std::uint64_t{1} << 48) return bad(std::to_string(g.blocks_count) + " blocks");
  if (g.log_groups_per_flex > 31) return bad("2^" + std::to_string(g.log_groups_per_flex) + " groups in a flex group");
  if (g.inodes_per_group == 0) return bad("no inodes in a group");
  if (m.page_bytes < 1024 || m.page_bytes > (1U << 26)) return bad("page size " + std::to_string(m.page_bytes));
  return {};
}

/// Stripe in blocks as the mount code leaves it: none if 1, too long, or not whole clusters.
std::uint32_t usable_stripe(const Geometry& g, const MountOptions& m) {
  if (m.stripe_blocks <= 1 || m.stripe_blocks > g.blocks_per_group) return 0;
  return m.stripe_blocks % g.cluster_blocks() == 0 ? m.stripe_blocks : 0;
}

MountOptions sane(const Geometry& g, MountOptions m) {
  m.stripe_blocks = usable_stripe(g, m);
  m.possible_cpus = std::clamp(m.possible_cpus, 1U, kMaxCpus);
  return m;
}

/// Bounds that keep every loop finite whatever the numbers say.
Tunables sane(const Geometry& g, Tunables t) {
  const GroupNo groups = g.groups();
  t.mb_prefetch = std::min(t.mb_prefetch, groups);
  t.mb_group_prealloc = std::min(t.mb_group_prealloc, g.clusters_per_group);  // the kernel refuses more
  t.mb_max_to_scan = std::min(t.mb_max_to_scan, 0x7FFFFFFFU);
  if (t.mb_max_linear_groups > 2 * std::uint64_t{groups}) t.mb_max_linear_groups = groups + t.mb_max_linear_groups % groups;
  return t;
}

/// No recording can wrap the totals.
std::int64_t sane_amount(std::uint64_t clusters) {
  return static_cast<std::int64_t>(std::min(clusters, std::uint64_t{1} << 32));
}

bool optimized(const Geometry& g, const MountOptions& m, const Policy& p) {
  if (p.scan != Policy::Scan::by_mount) return p.scan == Policy::Scan::optimized;
  return m.optimize_scan.value_or(g.groups() >= kOptimizeFromGroups);
}

}  // namespace

Allocator::Impl::Impl(const Geometry& geometry, const MountOptions& mount_options, const Tunables& tunables,
                      const Policy& p, BitmapSource& source)
    : geo(geometry),
      mount(sane(geometry, mount_options)),
      tun(sane(geometry, tunables)),
      policy(p),
      cpus_count(mount.possible_cpus),
      stripe_clusters(static_cast<std::uint32_t>(geometry.ceil_clusters(mount.stripe_blocks))),
      root_clusters(std::min<Blk>(mount.root_blocks, geometry.blocks_count) >> geometry.cluster_bits),
      reserved(std::min<std::uint64_t>(
          geometry.blocks_count,
          mount.reserved_clusters.value_or(
              geometry.extents ? std::min<std::uint64_t>((geometry.blocks_count >> geometry.cluster_bits) / 50, 4096) : 0))),
      groups(geometry, mount, policy, optimized(geometry, mount, policy), source),
      localities(std::make_unique<LocalityGroup[]>(cpus_count)),
      pools(std::make_unique<PaPool[]>(cpus_count)),
      cpus(std::make_unique<CpuSlot[]>(cpus_count)),
      stream(policy.stream_goal, cpus_count, groups.count(), freed_lock),
      freed(policy.freed_extents, freed_lock) {
  std::int64_t free = 0;
  for (GroupNo g = 0; g < groups.count(); ++g) free += groups.view(g).free.load(std::memory_order_relaxed);
  free_counter.set(free);
}

void Allocator::Impl::remember_error(const Error& e) {
  MutexLock held(error_mutex);
  if (error_text.empty()) error_text = e.message();
}

Result<std::unique_ptr<Allocator>> Allocator::create(const Geometry& geometry, const MountOptions& mount,
                                                     const Tunables& tunables, const Policy& policy,
                                                     BitmapSource& source) {
  E4_TRY(check(geometry, mount));
  return std::unique_ptr<Allocator>(new Allocator(std::make_unique<Impl>(geometry, mount, tunables, policy, source)));
}

Allocator::Allocator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Allocator::~Allocator() = default;

const Geometry& Allocator::geometry() const { return impl_->geo; }
const MountOptions& Allocator::mount() const { return impl_->mount; }
const Tunables& Allocator::tunables() const { return impl_->tun; }
const Policy& Allocator::policy() const { return impl_->policy; }
bool Allocator::optimized_scan() const { return impl_->groups.optimized(); }
void Allocator::set_tunables(const Tunables& tunables) { impl_->tun = sane(impl_->geo, tunables); }
void Allocator::set_reserved_clusters(std::uint64_t clusters) { impl_->reserved = std::min<std::uint64_t>(clusters, impl_->geo.blocks_count); }

Status Allocator::allocate(const Request& request, Outcome& out, EventLog* log) {
  return impl_->allocate(request, out, log, nullptr);
}

Result<void> Allocator::free(const FreeRequest& request, EventLog* log) {
  const Geometry& geo = impl_->geo;
  if (!impl_->in_range(request.block, request.count_blocks))
    return make_error(ErrorKind::corrupt, "free of " + std::to_string(request.count_blocks) + " blocks: outside the file system")
        .at_block(request.block);
  const std::uint64_t mask = geo.cluster_blocks() - 1;
  Blk first = request.block - geo.first_data_block, end = first + request.count_blocks;
  if (first & mask) first = request.flags & kFreeNoFirstCluster ? (first + mask) & ~mask : first & ~mask;
  if (end & mask) end = request.flags & kFreeNoLastCluster ? end & ~mask : (end + mask) & ~mask;
  while (first < end) {
    const auto group = static_cast<GroupNo>(first / geo.blocks_per_group);
    const Blk stop = std::min<Blk>(end, (Blk{group} + 1) * geo.blocks_per_group);
    const auto start = static_cast<std::uint32_t>(first % geo.blocks_per_group) >> geo.cluster_bits;
    E4_TRY(impl_->free_clusters(group, start, static_cast<std::uint32_t>((stop - first) >> geo.cluster_bits), request, log));
    first = stop;
  }
  return {};
}

Result<void> Allocator::free_clusters(GroupNo group, std::uint32_t start, std::uint32_t len, const FreeRequest& how,
                                      EventLog* log) {
  return impl_->free_clusters(group, start, len, how, log);
}

void Allocator::commit(Tid tid, EventLog* log) { impl_->commit(tid, log); }
std::uint64_t Allocator::pending_clusters() const { return impl_->freed.pending(); }

unsigned Allocator::discard_inode(Ino ino, EventLog* log) { return impl_->discard_inode(ino, log); }

namespace {

Allocator::PaState state_of(const Pa& pa) {
  return {{pa.kind, pa.pstart, pa.len, pa.lstart}, pa.ino, pa.group, pa.kind == PaKind::group ? pa.len : pa.free};
}

}  // namespace

std::vector<Allocator::PaState> Allocator::inode_preallocations(Ino ino) const {
  std::vector<PaState> list;
  impl_->inode_pas.with(ino, [&](std::vector<Pa*>& pas) {
    for (Pa* pa : pas) {
      Held<PaLock> held(pa->lock);
      if (!pa->deleted) list.push_back(state_of(*pa));
    }
  });
  return list;
}

std::vector<Allocator::PaState> Allocator::group_preallocations(GroupNo group) const {
  std::vector<PaState> list;
  if (group >= impl_->groups.count() || impl_->groups.body(group) == nullptr) return list;
  GroupLock& l = impl_->groups.lock(group);
  impl_->groups.lock_group(l);
  for (Pa* pa = impl_->groups.body(group)->pas; pa != nullptr; pa = pa->group_next) {
    Held<PaLock> held(pa->lock);
    if (!pa->deleted) list.push_back(state_of(*pa));
  }
  l.spin.unlock();
  return list;
}

unsigned Allocator::preallocations(Ino ino) const {
  unsigned n = 0;
  impl_->inode_pas.with(ino, [&n](std::vector<Pa*>& pas) { n = static_cast<unsigned>(pas.size()); });
  return n;
}

std::uint64_t Allocator::discard_all(EventLog* log) {
  std::uint64_t n = 0;
  bool busy = false;
  for (GroupNo g = 0; g < impl_->groups.count(); ++g) n += impl_->discard_group(g, &busy, log);
  return n;
}

void Allocator::da_reserve(std::uint64_t clusters, std::uint32_t cpu) {
  impl_->dirty_counter.add(impl_->cpu_slot(cpu).dirty_clusters, sane_amount(clusters));
}
void Allocator::da_release(std::uint64_t clusters, std::uint32_t cpu) {
  impl_->dirty_counter.add(impl_->cpu_slot(cpu).dirty_clusters, -sane_amount(clusters));
}
std::int64_t Allocator::free_clusters_count() const { return impl_->free_sum(); }
std::int64_t Allocator::dirty_clusters_count() const { return impl_->dirty_sum(); }
std::uint64_t Allocator::reserved_clusters() const { return impl_->reserved; }
std::uint32_t Allocator::claimable(const Request& request) const {
  return impl_->claim(request, request.len_clusters);
}

Result<void> Allocator::load_group(GroupNo group, EventLog* log) {
  if (group >= impl_->groups.count()) return make_error(ErrorKind::usage, "group " + std::to_string(group) + ": there is none");
  if (!impl_->groups.has(group, GroupTable::kNeedInit)) return {};
  return impl_->groups.load(group, log);
}

Result<void> Allocator::load_all(EventLog* log) {
  for (GroupNo g = 0; g < impl_->groups.count(); ++g) E4_TRY(load_group(g, log));
  return {};
}

bool Allocator::group_loaded(GroupNo group) const {
  return group < impl_->groups.count() && !impl_->groups.has(group, GroupTable::kNeedInit);
}

void Allocator::note_inode_allocated(GroupNo group) {
  if (group >= impl_->groups.count()) return;
  GroupLock& l = impl_->groups.lock(group);
  impl_->groups.lock_group(l);
  if (impl_->groups.has(group, GroupTable::kBlockUninit)) {
    impl_->groups.clear_uninit(group);
    impl_->groups.set(group, GroupTable::kCached);  // the bitmap was just written out; otherwise nobody looked at it
  }
  l.spin.unlock();
}

void Allocator::note_bitmap_cached(GroupNo group) {
  if (group < impl_->groups.count()) impl_->groups.set(group, GroupTable::kCached);
}

Result<void> Allocator::prefetch_batch(GroupNo first, std::uint32_t count, bool finish, EventLog* log) {
  const GroupNo n = impl_->groups.count();
  if (first >= n) return make_error(ErrorKind::usage, "group " + std::to_string(first) + ": there is none");
  count = std::min(count, n);
  GroupNo g = first;
  for (std::uint32_t i = 0; i < count; ++i, g = g + 1 == n ? 0 : g + 1) impl_->prefetch_group(g);
  if (!finish) return {};
  for (std::uint32_t i = 0; i < count; ++i) {
    g = g == 0 ? n - 1 : g - 1;
    if (impl_->groups.has(g, GroupTable::kNeedInit) && impl_->groups.view(g).descriptor_free.load() > 0)
      E4_TRY(impl_->groups.load(g, log));
  }
  return {};
}

GroupCounters Allocator::group_counters(GroupNo group) const {
  GroupCounters c;
  if (group >= impl_->groups.count()) return c;
  GroupLock& l = impl_->groups.lock(group);
  impl_->groups.lock_group(l);
  if (const GroupBody* b = impl_->groups.body(group)) c = b->buddy.counters();
  l.spin.unlock();
  return c;
}

std::uint32_t Allocator::descriptor_free(GroupNo group) const {
  return group < impl_->groups.count() ? impl_->groups.view(group).descriptor_free.load() : 0;
}
bool Allocator::block_uninit(GroupNo group) const {
  return group < impl_->groups.count() && impl_->groups.has(group, GroupTable::kBlockUninit);
}

bool Allocator::copy_bitmap(GroupNo group, std::span<std::uint64_t> words) const {
  if (group >= impl_->groups.count()) return false;
  GroupLock& l = impl_->groups.lock(group);
  impl_->groups.lock_group(l);
  const GroupBody* b = impl_->groups.body(group);
  if (b) std::copy_n(b->disk, std::min<std::size_t>(words.size(), impl_->groups.shape().bitmap_words), words.begin());
  l.spin.unlock();
  return b != nullptr;
}

bool Allocator::group_dirty(GroupNo group) const {
  if (group >= impl_->groups.count()) return false;
  if (impl_->groups.has(group, GroupTable::kDescDirty)) return true;
  GroupLock& l = impl_->groups.lock(group);
  impl_->groups.lock_group(l);
  const GroupBody* b = impl_->groups.body(group);
  const bool dirty = b && b->block_map_changed;
  l.spin.unlock();
  return dirty;
}

void Allocator::clear_dirty(GroupNo group) {
  if (group >= impl_->groups.count()) return;
  GroupLock& l = impl_->groups.lock(group);
  impl_->groups.lock_group(l);
  if (GroupBody* b = impl_->groups.body(group)) b->block_map_changed = false;
  impl_->groups.clear(group, GroupTable::kDescDirty);
  l.spin.unlock();
}

std::vector<GroupNo> Allocator::stream_goals() const {
  std::vector<GroupNo> goals;
  for (std::uint32_t i = 0; i < impl_->stream.count(); ++i) goals.push_back(impl_->stream.at(i));
  return goals;
}

void Allocator::undo(const Request& request, const Outcome& outcome) { impl_->undo(request, outcome); }
Result<void> Allocator::impose(const Request& request, const Imposed& choice) { return impl_->impose(request, choice); }
Result<void> Allocator::impose_release(GroupNo group, std::uint32_t start, std::uint32_t len) {
  if (group >= impl_->groups.count() || start >= impl_->geo.clusters_in(group) || len > impl_->geo.clusters_in(group) - start)
    return make_error(ErrorKind::corrupt, "release outside the file system");
  E4_TRY(load_group(group));
  impl_->vacate(group, start, len);
  return {};
}

std::string Allocator::take_error() {
  MutexLock held(impl_->error_mutex);
  return std::exchange(impl_->error_text, {});
}

}  // namespace e4::alloc
