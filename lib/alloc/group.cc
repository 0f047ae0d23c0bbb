// SPDX-License-Identifier: GPL-2.0-only
#include "alloc/group.h"

#include <chrono>
#include <new>

namespace e4::alloc {

namespace {

constexpr std::size_t kRecordBytes = 64;  // packed: view and state bits share a cache line, as in the kernel

std::size_t groups_per_page(const Geometry& g, std::uint32_t page_bytes) {
  return std::max<std::size_t>(1, page_bytes / g.block_bytes / 2);
}

std::byte* aligned_bytes(std::size_t n) {
  return static_cast<std::byte*>(::operator new(n, std::align_val_t{64}));
}
void free_aligned(std::byte* p) { ::operator delete(p, std::align_val_t{64}); }

}  // namespace

GroupBody::GroupBody(const BuddyShape& shape)
    : words_(std::make_unique_for_overwrite<bits::Word[]>(2 * shape.bitmap_words + shape.level_words)) {
  disk = words_.get();
  buddy.attach(&shape, disk + shape.bitmap_words, disk + 2 * std::size_t{shape.bitmap_words});
}

GroupTable::GroupTable(const Geometry& geometry, const MountOptions& mount, const Policy& policy, bool optimized,
                       BitmapSource& source)
    : geometry_(geometry),
      shape_(geometry.block_bytes),
      count_(geometry.groups()),
      groups_per_page_(static_cast<std::uint32_t>(groups_per_page(geometry, mount.page_bytes))),
      optimized_(optimized),
      source_(source),
      storage_(nullptr, free_aligned),
      bodies_(std::make_unique<std::atomic<GroupBody*>[]>(count_)),
      locks_(std::make_unique<GroupLock[]>(kLocks)),
      load_locks_(std::make_unique<LoadLock[]>(kLocks)),
      index_(optimized ? count_ : 1, geometry.orders(), policy.order_sets) {
  const bool packed = policy.group_layout == Policy::GroupLayout::packed;
  view_stride_ = packed ? kRecordBytes : sizeof(GroupView);
  state_stride_ = packed ? kRecordBytes : 1;
  storage_bytes_ = packed ? count_ * kRecordBytes : count_ * (sizeof(GroupView) + 1);
  storage_.reset(aligned_bytes(storage_bytes_));
  views_ = storage_.get();
  states_ = views_ + (packed ? sizeof(GroupView) : count_ * sizeof(GroupView));
  for (GroupNo g = 0; g < count_; ++g) {
    new (&view(g)) GroupView;
    const GroupDescriptor d = source.descriptor(g);
    const bool uninit = d.block_uninit && geometry.checksummed_descriptors;
    const std::uint32_t clusters = geometry.clusters_in(g);
    const std::uint32_t free =
        uninit ? clusters - std::min(clusters, source.metadata_clusters(g)) : d.free_clusters;
    new (&state(g)) std::atomic<std::uint8_t>(static_cast<std::uint8_t>(kNeedInit | (uninit ? kBlockUninit : 0)));
    view(g).free.store(free, std::memory_order_relaxed);
    view(g).descriptor_free.store(d.free_clusters, std::memory_order_relaxed);
  }
}

GroupTable::~GroupTable() {
  for (GroupNo g = 0; g < count_; ++g) delete bodies_[g].load(std::memory_order_relaxed);
}

int GroupTable::average_order(std::uint32_t free, std::uint32_t frags) const {
  if (frags == 0) return -1;
  // Width of floor(free / frags), without the division.
  const int k = static_cast<int>(bits::width(free)) - static_cast<int>(bits::width(frags));
  const int w = k < 0 ? 0 : ((std::uint64_t{frags} << k) <= free ? k + 1 : k);
  return std::clamp(w - 2, 0, static_cast<int>(shape_.orders) - 1);
}

void GroupTable::publish(GroupNo g, const GroupBody& body) {
  GroupView& v = view(g);
  const Buddy& b = body.buddy;
  v.free.store(b.free(), std::memory_order_relaxed);
  v.frags.store(b.frags(), std::memory_order_relaxed);
  const int top = b.top(), old_top = v.top.load(std::memory_order_relaxed);
  if (top != old_top) {
    v.top.store(static_cast<std::int8_t>(top), std::memory_order_relaxed);
    if (optimized_) index_.move(GroupIndex::kTop, g, old_top, top);
  }
  if (!optimized_) return;
  const int avg = average_order(b.free(), b.frags()), old_avg = v.avg.load(std::memory_order_relaxed);
  if (avg != old_avg) {
    v.avg.store(static_cast<std::int8_t>(avg), std::memory_order_relaxed);
    index_.move(GroupIndex::kAvg, g, old_avg, avg);
  }
}

void GroupTable::clear_uninit(GroupNo g) {
  if (!has(g, kBlockUninit)) return;
  const std::uint32_t clusters = geometry_.clusters_in(g);
  view(g).descriptor_free.store(clusters - std::min(clusters, source_.metadata_clusters(g)), std::memory_order_relaxed);
  clear(g, kBlockUninit);
  set(g, kDescDirty);
}

Result<void> GroupTable::load(GroupNo g, EventLog* log) {
  const GroupNo first = g - g % groups_per_page_;
  const GroupNo end = std::min<std::uint64_t>(count_, std::uint64_t{first} + groups_per_page_);
  Held<LoadLock> held(load_locks_[(first / groups_per_page_) % kLocks]);
  for (GroupNo i = first; i < end; ++i) {
    if (!has(i, kNeedInit)) continue;
    auto r = load_one(i, log);
    // A neighbour on the page that cannot be built only hurts its own users.
    if (!r && i == g) return r;
  }
  return {};
}

Result<void> GroupTable::load_one(GroupNo g, EventLog* log) {
  if (has(g, kCorrupt)) return make_error(ErrorKind::corrupt, "group " + std::to_string(g) + ": block bitmap is not usable");
  auto body = std::make_unique<GroupBody>(shape_);
  const std::span<bits::Word> disk(body->disk, shape_.bitmap_words);
  if (auto r = source_.read_bitmap(g, disk); !r) {
    set(g, kCorrupt);
    return Error(std::move(r).error()).context("group " + std::to_string(g) + ", block bitmap");
  }
  set(g, kCached);
  const std::uint32_t clusters = geometry_.clusters_in(g);
  bits::set_range(body->disk, clusters, shape_.bits - clusters);

  const auto t0 = std::chrono::steady_clock::now();
  std::copy(disk.begin(), disk.end(), body->buddy.bitmap());
  body->buddy.build(clusters);
  load_ns_.fetch_add(static_cast<std::uint64_t>(
                         std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - t0).count()),
                     std::memory_order_relaxed);

  const std::uint32_t expected = view(g).free.load(std::memory_order_relaxed);
  if (body->buddy.free() != expected) {
    set(g, kCorrupt);
    return make_error(ErrorKind::corrupt, "group " + std::to_string(g) + ": " + std::to_string(body->buddy.free()) +
                                              " clusters free in the bitmap, " + std::to_string(expected) +
                                              " by the descriptor");
  }
  loaded_.fetch_add(1, std::memory_order_relaxed);
  touched_bytes_.fetch_add(sizeof(GroupBody) + (2 * std::size_t{shape_.bitmap_words} + shape_.level_words) * 8,
                           std::memory_order_relaxed);
  GroupLock& l = lock(g);
  lock_group(l);
  GroupBody* const b = body.release();
  bodies_[g].store(b, std::memory_order_release);
  publish(g, *b);
  clear(g, kNeedInit);
  l.spin.unlock();
  if (log) log->push_back({Event::Kind::group_loaded, g});
  return {};
}

std::uint64_t GroupTable::changes() const {
  std::uint64_t n = 0;
  for (unsigned i = 0; i < kLocks; ++i) n += locks_[i].seq.load(std::memory_order_relaxed);
  return n;
}

void GroupTable::add_counts(LockCounts& to) const {
  for (unsigned i = 0; i < kLocks; ++i) locks_[i].spin.add_counts(to);
}

std::uint64_t GroupTable::untouched_bytes() const {
  return storage_bytes_ + count_ * sizeof(bodies_[0]) + index_.memory_bytes() + kLocks * sizeof(GroupLock);
}

}  // namespace e4::alloc
