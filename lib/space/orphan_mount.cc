// SPDX-License-Identifier: GPL-2.0-only
#include "space/orphan_mount.h"

#include <utility>

#include "base/crc32c.h"
#include "base/endian.h"
#include "orphan/classify.h"
#include "orphan/format.h"
#include "orphan/inode.h"
#include "orphan/orphan_file.h"

namespace e4::space {

namespace {

constexpr std::uint32_t kHasJournal = 0x4, kOrphanFile = 0x1000;  // compat
constexpr std::uint32_t kRecover = 0x4;                          // incompat
constexpr std::uint32_t kMetadataCsum = 0x400, kOrphanPresent = 0x10000;  // ro_compat
constexpr std::uint32_t kKnownRoCompat = 0x1B77F;  // what Linux 6.18 mounts read-write (EXT4_FEATURE_RO_COMPAT_SUPP)
constexpr std::uint16_t kStateValid = 1, kStateError = 2;
constexpr std::size_t kSuperOffset = 1024, kSuperBytes = 1024;

/// Faults that make Linux 6.18 refuse the mount. Odd sizes and flags it reads over.
constexpr std::uint32_t kRefused = orphan::kFileNoInode | orphan::kFileReserved | orphan::kFileFree | orphan::kFileLinks |
                                   orphan::kFileCsum | orphan::kFileHole | orphan::kFileMapping | orphan::kFileMagic |
                                   orphan::kFileBlockCsum;

constexpr std::uint32_t with_bit(std::uint32_t word, std::uint32_t bit, bool on) { return on ? word | bit : word & ~bit; }

/// Edits the superblock in place and redoes its checksum.
template <class Edit>
Result<void> edit_super(image::Overlay& overlay, Edit edit) {
  const std::uint32_t block_bytes = overlay.block_bytes();
  const auto s = E4_TRY(overlay.edit(kSuperOffset / block_bytes)).subspan(kSuperOffset % block_bytes, kSuperBytes);
  edit(s.data());
  if ((load<le32>(s.data(), 0x64) & kMetadataCsum) != 0) store<le32>(s.data(), 0x3FC, crc32c(~0U, s.data(), 0x3FC));
  return {};
}

}  // namespace

OrphanMount::OrphanMount(image::Overlay& overlay, OrphanMountOptions options)
    : overlay_(overlay), options_(std::move(options)), life_(*this) {}
OrphanMount::~OrphanMount() = default;

alloc::OrphanTracker* OrphanMount::tracker() {
  return life_.phase() == LifeCycle::Phase::read_write && life_.journaled() ? tracker_.get() : nullptr;
}

alloc::OrphanTracker& OrphanMount::slots() { return *tracker_; }

Result<LifeSuper> OrphanMount::read_super() {
  std::byte s[kSuperBytes];
  E4_TRY(overlay_.read(kSuperOffset, s));
  if (load<le16>(s, 0x38) != 0xEF53) return make_error(ErrorKind::corrupt, "no ext4 superblock");
  const std::uint32_t compat = load<le32>(s, 0x5C), incompat = load<le32>(s, 0x60), ro_compat = load<le32>(s, 0x64);
  const std::uint16_t state = load<le16>(s, 0x3A);
  LifeSuper super;
  super.has_journal = (compat & kHasJournal) != 0;
  super.orphan_file = (compat & kOrphanFile) != 0;
  super.unknown_ro_compat = (ro_compat & ~kKnownRoCompat) != 0;
  super.recover = (incompat & kRecover) != 0;
  super.orphan_present = (ro_compat & kOrphanPresent) != 0;
  super.valid = (state & kStateValid) != 0;
  super.error = (state & kStateError) != 0;
  super.last_orphan = load<le32>(s, 0xE8);

  found_last_orphan_ = super.last_orphan;
  unmanaged_slots_ = 0;
  file_blocks_.clear();
  stored_chain_.clear();
  cleaned_ = {};
  alloc::OrphanTracker::Options o;
  o.policy = options_.policy;
  o.inodes_count = load<le32>(s, 0x00);
  tracker_ = std::make_unique<alloc::OrphanTracker>(o);
  return super;
}

Result<void> OrphanMount::write_super(const LifeSuper& super) {
  return edit_super(overlay_, [&super](std::byte* s) {
    store<le32>(s, 0x60, with_bit(load<le32>(s, 0x60), kRecover, super.recover));
    store<le32>(s, 0x64, with_bit(load<le32>(s, 0x64), kOrphanPresent, super.orphan_present));
    std::uint32_t state = load<le16>(s, 0x3A);
    state = with_bit(with_bit(state, kStateValid, super.valid), kStateError, super.error);
    store<le16>(s, 0x3A, state);
    store<le32>(s, 0xE8, super.last_orphan);
  });
}

Result<void> OrphanMount::replay_journal() {
  if (!options_.replay_journal) return make_error(ErrorKind::incompatible, "the journal has to be replayed first");
  return options_.replay_journal();
}

Result<void> OrphanMount::load_orphan_file() { return load_slots(); }

Result<void> OrphanMount::load_slots() {
  auto volume = E4_TRY(orphan::Volume::load(overlay_));
  const orphan::FileReport report = E4_TRY(orphan::inspect_orphan_file(volume));
  if (const std::uint32_t faults = report.faults & kRefused; faults != 0) {
    std::string why;
    for (const std::string_view name : orphan::file_fault_names(faults)) why += (why.empty() ? "" : ", ") + std::string(name);
    return make_error(ErrorKind::corrupt, "orphan file: " + why).at_inode(report.ino);
  }
  if (report.blocks.size() > orphan::kMaxOrphanFileBlocks)
    return make_error(ErrorKind::corrupt, "orphan file: too big").at_inode(report.ino);
  file_blocks_.clear();
  for (const orphan::BlockVerdict& b : report.blocks) file_blocks_.push_back(b.physical);
  file_seed_ = orphan::inode_csum_seed(volume.geo().csum_seed, report.ino, report.generation);
  metadata_csum_ = volume.geo().metadata_csum();

  alloc::OrphanTracker::Options o;
  o.policy = options_.policy;
  o.file_blocks = static_cast<std::uint32_t>(file_blocks_.size());
  o.block_bytes = overlay_.block_bytes();
  o.inodes_count = volume.geo().inodes_count;
  tracker_ = std::make_unique<alloc::OrphanTracker>(o);
  for (std::uint32_t b = 0; b < tracker_->file_blocks(); ++b) tracker_->load_block(b, E4_TRY(overlay_.view(file_blocks_[b])));
  unmanaged_slots_ = tracker_->uses_file() ? 0 : report.used_slots;
  return {};
}

Result<void> OrphanMount::clean_up() {
  auto volume = E4_TRY(orphan::Volume::load(overlay_));
  orphan::Plan plan = E4_TRY(orphan::classify(volume));
  orphan::ReleaseOptions release;
  release.now = options_.now;
  cleaned_ = E4_TRY(orphan::release_all(volume, plan, release));
  found_last_orphan_ = 0;  // what could not be dealt with is forgotten, as the kernel does
  return file_blocks_.empty() ? Result<void>() : load_slots();
}

bool OrphanMount::orphan_file_empty() { return unmanaged_slots_ == 0 && slots().file_empty(); }

Ino OrphanMount::last_orphan() {
  const Ino tracked = slots().last_orphan();
  return tracked != 0 ? tracked : found_last_orphan_;
}

void OrphanMount::drop_list() { found_last_orphan_ = 0; }

void OrphanMount::release() { tracker_.reset(); }

Result<void> OrphanMount::flush() {
  if (!tracker_) return make_error(ErrorKind::usage, "not mounted");
  for (std::uint32_t b = 0; b < tracker_->file_blocks(); ++b) {
    if (!tracker_->take_dirty(b)) continue;
    const auto block = E4_TRY(overlay_.edit(file_blocks_[b]));
    tracker_->copy_block(b, block);
    orphan::seal_orphan_block(block, file_seed_, file_blocks_[b], metadata_csum_);
  }
  return flush_chain();
}

Result<void> OrphanMount::flush_chain() {
  std::unordered_map<Ino, std::uint32_t> now;
  for (const auto& link : tracker_->chain().links()) now.emplace(link.ino, link.i_dtime);
  if (now == stored_chain_) return {};
  auto volume = E4_TRY(orphan::Volume::load(overlay_));
  orphan::InodeTable table(volume);
  for (const auto& [ino, dtime] : now) {
    const auto old = stored_chain_.find(ino);
    if (old != stored_chain_.end() && old->second == dtime) continue;
    const auto raw = E4_TRY(table.edit(ino));
    orphan::set_dtime(raw, dtime);
    orphan::seal_inode(volume.geo(), ino, raw);
  }
  for (const auto& [ino, dtime] : stored_chain_) {
    if (now.count(ino) != 0) continue;
    const auto raw = E4_TRY(table.edit(ino));
    if (orphan::InodeView(raw).dtime() != dtime) continue;  // somebody has stored a deletion time since
    orphan::set_dtime(raw, 0);
    orphan::seal_inode(volume.geo(), ino, raw);
  }
  stored_chain_ = std::move(now);
  const Ino head = last_orphan();
  return edit_super(overlay_, [head](std::byte* s) { store<le32>(s, 0xE8, head); });
}

}  // namespace e4::space
