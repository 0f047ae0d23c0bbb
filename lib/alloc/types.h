// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"

// Words, names and numbers are ext4's (mballoc, Linux 6.18); the fields that
// trace events print carry the meaning they have there. Inside a group
// everything counts clusters; logical positions and physical addresses count
// blocks. Without bigalloc a cluster is a block.
namespace e4::alloc {

inline constexpr unsigned kMaxOrders = 18;  // block bits + 2, at 64 KiB blocks

/// Flags of a request (kernel: EXT4_MB_*), printed in `flags` of the events.
enum Hint : std::uint32_t {
  kHintMerge = 0x0001,
  kHintFirst = 0x0008,        // set by the allocator after it lost its best chunk
  kHintData = 0x0020,         // regular-file data: preallocation, normalization, streaming
  kHintNoPrealloc = 0x0040,   // exactly this length, no new preallocation
  kHintGroupAlloc = 0x0080,   // small file: locality group (set by the allocator)
  kHintGoalOnly = 0x0100,
  kHintTryGoal = 0x0200,      // probe the exact goal first
  kDelallocReserved = 0x0400, // space was reserved by delayed allocation: no claim
  kStreamAlloc = 0x0800,      // large file: remembered group (set by the allocator)
  kUseRootBlocks = 0x1000,
  kUseReserved = 0x2000,      // may use the reserved pool
  kStrictCheck = 0x4000,      // retry after ENOSPC (set by the allocator)
};

/// Flags of a free (kernel: EXT4_FREE_BLOCKS_*).
enum FreeFlag : std::uint32_t {
  kFreeMetadata = 0x01,
  kFreeForget = 0x02,
  kFreeValidated = 0x04,
  kFreeNoQuota = 0x08,
  kFreeNoFirstCluster = 0x10,  // keep a shared first cluster
  kFreeNoLastCluster = 0x20,   // keep a shared last cluster
  kFreeRereserve = 0x40,       // the caller re-reserves the cluster: free counter not raised
};

/// The five criteria; 5 is printed when every pass ran out and the best candidate was used.
enum Criterion : std::uint8_t {
  kCrPower2Aligned = 0,
  kCrGoalLenFast = 1,
  kCrBestAvailLen = 2,
  kCrGoalLenSlow = 3,
  kCrAnyFree = 4,
  kCrExhausted = 5,
};
/// "CR_POWER2_ALIGNED" ...; 5 and above nullptr (the kernel prints "0x5").
const char* criterion_name(unsigned cr);

enum class DataMode : std::uint8_t { ordered, writeback, journal };

/// What a file system looks like to the allocator. Constant once created.
struct Geometry {
  std::uint32_t block_bytes = 4096;           // 1024 .. 65536
  std::uint32_t cluster_bits = 0;             // log2 of blocks per cluster; 0 without bigalloc
  std::uint32_t blocks_per_group = 32768;
  std::uint32_t clusters_per_group = 32768;   // at most 8 * block_bytes
  Blk blocks_count = 0;                       // all blocks, the first_data_block ones included
  Blk first_data_block = 0;                   // 1 with 1 KiB blocks and no bigalloc
  std::uint32_t inodes_per_group = 8192;
  bool flex_bg = true;
  std::uint32_t log_groups_per_flex = 4;      // 0: every group on its own
  bool checksummed_descriptors = true;        // uninit_bg or metadata_csum: BLOCK_UNINIT means something
  bool extents = true;                        // the extents feature (default of the reserved pool)

  [[nodiscard]] std::uint32_t block_bits() const { return static_cast<std::uint32_t>(__builtin_ctz(block_bytes)); }
  [[nodiscard]] std::uint32_t cluster_blocks() const { return 1U << cluster_bits; }
  [[nodiscard]] std::uint32_t orders() const { return block_bits() + 2; }
  [[nodiscard]] std::uint32_t bitmap_bits() const { return block_bytes * 8; }
  [[nodiscard]] std::uint32_t flex_groups() const { return 1U << log_groups_per_flex; }
  [[nodiscard]] GroupNo groups() const {
    return static_cast<GroupNo>((blocks_count - first_data_block + blocks_per_group - 1) / blocks_per_group);
  }
  /// Clusters of one group; fewer in a short last group.
  [[nodiscard]] std::uint32_t clusters_in(GroupNo g) const {
    const Blk left = blocks_count - first_block(g);
    return left >= blocks_per_group ? clusters_per_group
                                    : static_cast<std::uint32_t>((left + cluster_blocks() - 1) >> cluster_bits);
  }
  [[nodiscard]] Blk first_block(GroupNo g) const { return first_data_block + Blk{g} * blocks_per_group; }
  [[nodiscard]] Blk block_of(GroupNo g, std::uint32_t cluster) const {
    return first_block(g) + (Blk{cluster} << cluster_bits);
  }
  [[nodiscard]] std::uint64_t ceil_clusters(std::uint64_t blocks) const {
    return (blocks + cluster_blocks() - 1) >> cluster_bits;
  }
};

/// Mount options and properties of the machine that decisions depend on.
struct MountOptions {
  bool delalloc = true;
  DataMode data_mode = DataMode::ordered;
  bool has_journal = true;
  bool discard = false;
  std::uint32_t stripe_blocks = 0;              // the mount option or the superblock's stripe width / stride; 1 is none
  std::optional<bool> optimize_scan;            // default: on from 16 groups up
  bool rotational = false;                      // of the device: default of mb_max_linear_groups
  std::uint32_t possible_cpus = 1;              // stream goals, locality groups
  std::uint32_t page_bytes = 4096;              // groups that are initialized together
  std::optional<std::uint64_t> reserved_clusters;  // default: min(total / 50, 4096) with extents, else 0
  Blk root_blocks = 0;                          // s_r_blocks_count
};

/// ext4's tunables (/sys/fs/ext4/DEV/...), same names.
struct Tunables {
  std::uint32_t mb_max_to_scan = 200;
  std::uint32_t mb_min_to_scan = 10;
  std::uint32_t mb_order2_req = 2;
  std::uint32_t mb_stream_req = 16;             // blocks
  std::uint32_t mb_group_prealloc = 512;        // clusters
  std::uint32_t mb_max_linear_groups = 0;
  std::uint32_t mb_best_avail_max_trim_order = 3;
  std::uint32_t mb_prefetch = 32;               // groups
  std::uint32_t mb_prefetch_limit = 128;        // reads a pass
  /// What the kernel sets at mount.
  static Tunables defaults(const Geometry& geometry, const MountOptions& mount);
};

/// One request for blocks (kernel: ext4_allocation_request and what the allocator looks up beside it).
struct Request {
  Ino ino = 0;
  std::uint32_t len_clusters = 1;   // wanted
  Lblk lblk = 0;                    // file position of the first block, cluster aligned
  Blk goal = 0;                     // preferred physical block
  Lblk lleft = 0;                   // last logical block of the extent to the left (none: lblk)
  Blk pleft = 0;                    // ... physical; 0: none
  Lblk lright = 0;                  // first logical block of the extent to the right (none: lblk)
  Blk pright = 0;                   // ... physical; 0: none
  std::uint32_t flags = 0;          // Hint bits as the caller passes them

  std::uint32_t cpu = 0;            // of the allocating thread: locality group; taken modulo possible_cpus
  std::uint64_t i_size = 0;         // bytes; block granularity is enough
  bool open_for_write = true;
  bool privileged = false;          // may use the root reserve
  bool extent_mapped = true;        // false: indirect block map, 32-bit block numbers
  std::optional<bool> busy;         // "file system busy"; default: the allocator's own contention counter
  /// Groups to treat as if another CPU held their lock (criteria 0..3 pass them over): for replayers that look for the
  /// cause of a difference. The array must live through the call.
  const GroupNo* held_groups = nullptr;
  std::uint32_t held_groups_count = 0;
  std::uint32_t held_visits = 0;    // only the first so many visits find such a lock held; 0: all
  bool lose_best = false;           // as if another CPU took the best candidate before it could be locked again
  std::optional<GroupNo> stream_group;  // the remembered group of a stream search, for replayers that know it better
};

/// "G/S/L@l" of the events. start may be -1 (stream goal).
struct Position {
  GroupNo group = 0;
  std::int32_t start = 0;           // cluster in the group
  std::uint32_t len = 0;            // clusters
  Lblk lblk = 0;
  friend bool operator==(const Position&, const Position&) = default;
};

enum class PaKind : std::uint8_t { none, inode, group };

/// A preallocation as the new_inode_pa / new_group_pa events print it.
struct PaInfo {
  PaKind kind = PaKind::none;
  Blk pstart = 0;
  std::uint32_t len = 0;            // clusters
  std::uint64_t lstart = 0;         // file block; group preallocation: = pstart
  friend bool operator==(const PaInfo&, const PaInfo&) = default;
};

enum class Status : std::uint8_t {
  ok,
  claim_refused,  // no space before any search: the kernel prints neither mballoc_alloc nor allocate_blocks
  no_space,       // searched, nothing found: mballoc_alloc with result 0/0/0, allocate_blocks with len 0
  error,          // nothing found and a bitmap could not be read or is corrupt: take_error() tells
};

/// What came out of a request: every field the events print.
struct Outcome {
  Status status = Status::no_space;
  bool from_prealloc = false;       // mballoc_prealloc (orig, result) instead of mballoc_alloc
  Blk block = 0;                    // allocate_blocks: block
  std::uint32_t len = 0;            // allocate_blocks: len, clusters
  std::uint32_t claimed = 0;        // clusters wanted after the claim (shorter than asked when nearly full)
  Position orig, goal, result;      // goal: final one; result: the whole chunk taken (prealloc: the part used)
  std::uint16_t found = 0;          // "blks"
  std::uint16_t groups = 0;         // "grps"
  std::uint8_t cr = 0;              // Criterion
  std::uint16_t tail = 0, broken = 0;
  std::uint32_t flags = 0;          // final flags
  PaInfo new_pa;                    // made by this request

  // For Allocator::undo(); meaningless elsewhere.
  struct Undo {
    std::uint64_t pa_id = 0;        // preallocation used or made; 0: none
    PaInfo pa_before;               // ... as it was before, if it existed
    std::int32_t stream_slot = -1;
    GroupNo stream_before = 0;
  } undo;
};

/// What happened inside an operation, in the order the kernel prints it.
struct Event {
  enum class Kind : std::uint8_t {
    group_loaded,          // mb_buddy_bitmap_load: group
    new_inode_pa,          // ino, block, len, lblk
    new_group_pa,          // ino, block, len, lblk
    discard_preallocations,  // ino, len = number of live preallocations
    mballoc_discard,       // group, start, len
    release_inode_pa,      // ino, block, len (blocks)
    release_group_pa,      // block, len (clusters)
    mb_discard,            // mb_discard_preallocations: len = needed clusters
    mballoc_free,          // group, start, len; ino
    returned,              // deferred clusters are free again: group, start, len
  } kind;
  GroupNo group = 0;
  std::uint32_t start = 0;
  std::uint32_t len = 0;
  Ino ino = 0;
  Blk block = 0;
  std::uint64_t lblk = 0;
};
using EventLog = std::vector<Event>;

/// One line of /proc/fs/ext4/DEV/mb_groups.
struct GroupCounters {
  std::uint32_t free = 0, frags = 0, first = 0;  // first: the lower bound the kernel keeps, not always exact
  std::array<std::uint32_t, kMaxOrders> counters{};
  friend bool operator==(const GroupCounters&, const GroupCounters&) = default;
};

}  // namespace e4::alloc
