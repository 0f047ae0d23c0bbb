// SPDX-License-Identifier: GPL-2.0-only
#include "debug/session.h"

#include <ext2fs/ext2_fs.h>

#include <charconv>
#include <ctime>

#include "base/crc32c.h"
#include "base/endian.h"
#include "image/features.h"
#include "image/filsys.h"
#include "image/undo.h"
#include "journal/committer.h"
#include "journal/fast_commit.h"

namespace e4::debug {
namespace {

constexpr std::size_t kSuperBytes = 1024, kSuperOffset = 1024;
constexpr std::size_t kProblemsShown = 20;

Result<std::uint32_t> block_bytes_of(std::span<const std::byte> super) {
  if (load<le16>(super.data(), 0x38) != EXT2_SUPER_MAGIC)
    return make_error(ErrorKind::corrupt, "bad magic number in the superblock: not an ext2, ext3 or ext4 file system");
  const std::uint32_t log = load<le32>(super.data(), 0x18);
  if (log > 6) return make_error(ErrorKind::corrupt, "superblock: s_log_block_size is " + std::to_string(log) + ": at most 6");
  return 1024U << log;
}

std::uint64_t number(const std::string& text) {
  std::uint64_t n = 0;
  const auto end = text.data() + text.size();
  const auto [at, wrong] = std::from_chars(text.data(), end, n);
  return wrong == std::errc() && at == end ? n : 0;
}

}  // namespace

Result<std::unique_ptr<Session>> Session::open(const Options& options, cli::Io& io) {
  std::unique_ptr<Session> s(new Session(options, io));
  s->file_ = E4_TRY(image::open_file(options.image, {.writable = options.writable}));
  s->device_ = s->file_.get();
  E4_TRY(s->look_at_super());
  if (options.undo) {
    s->undo_ = E4_TRY(image::open_undo(*s->file_, *options.undo, s->block_bytes_));
    s->device_ = s->undo_.get();
  }
  return s;
}

Result<void> Session::look_at_super() {
  std::byte raw[kSuperBytes];
  const std::uint64_t at = options_.superblock != 0 ? options_.superblock * std::uint64_t{options_.block_bytes} : kSuperOffset;
  E4_TRY(device_->read(at, raw));
  block_bytes_ = E4_TRY(block_bytes_of(raw));
  if (options_.block_bytes != 0 && options_.block_bytes != block_bytes_)
    return make_error(ErrorKind::usage, "the block size is " + std::to_string(block_bytes_) + ", not what -b says");
  const image::FeatureBits bits{load<le32>(raw, 0x5C), load<le32>(raw, 0x60), load<le32>(raw, 0x64)};
  for (const auto word : {image::FeatureWord::compat, image::FeatureWord::incompat, image::FeatureWord::ro_compat})
    for (std::uint32_t mask = 1; mask != 0; mask <<= 1)
      if ((bits.word(word) & mask) != 0 && image::find_feature({word, mask}) == nullptr)
        unknown_.push_back(image::feature_name({word, mask}));
  return {};
}

/// The copy stands in for the primary, in memory.
Result<void> Session::take_backup_super(image::Overlay& overlay) const {
  if (options_.superblock == 0) return {};
  std::byte raw[kSuperBytes];
  E4_TRY(device_->read(options_.superblock * std::uint64_t{block_bytes_}, raw));
  store<le16>(raw, 0x5A, 0U);  // s_block_group_nr
  if ((load<le32>(raw, 0x64) & EXT4_FEATURE_RO_COMPAT_METADATA_CSUM) != 0) store<le32>(raw, 0x3FC, crc32c(~0U, raw, 0x3FC));
  return overlay.write(kSuperOffset, raw);
}

Result<Layer> Session::layer(bool journal) {
  Layer l;
  l.overlay = std::make_unique<image::Overlay>(*device_, block_bytes_);
  E4_TRY(take_backup_super(*l.overlay));
  std::byte raw[kSuperBytes];
  E4_TRY(l.overlay->read(kSuperOffset, raw));
  l.journal.needs_recovery = (load<le32>(raw, 0x60) & EXT3_FEATURE_INCOMPAT_RECOVER) != 0;
  if (journal) {
    {
      // Over the layer, so that a superblock copy counts; the plan speaks of blocks of the device all the same.
      auto fs = E4_TRY(image::Filsys::open(*l.overlay, {.ignore_checksums = true, .any_features = true}));
      l.plan = E4_TRY(journal::plan_recovery(*device_, fs));
    }
    l.journal.verdict = l.plan->verdict;
    l.journal.transactions = l.plan->transactions;
    for (const auto& p : l.plan->problems)
      if (l.journal.problems.size() < kProblemsShown) l.journal.problems.push_back(p.text());
    E4_TRY(journal::apply(*l.plan, *l.overlay));
    const auto fast = E4_TRY(journal::replay_fast_commits(*l.plan, *l.overlay));
    l.journal.fast_commit_records = fast.records;
    l.journal.unlisted_orphans = !fast.orphans.empty();
    for (const auto& p : fast.problems)
      if (l.journal.problems.size() < kProblemsShown) l.journal.problems.push_back(p.text());
    l.journal.applied = l.plan->verdict == journal::Verdict::ok || l.plan->verdict == journal::Verdict::partial ||
                        l.plan->verdict == journal::Verdict::nothing_to_do;
  }
  l.volume = E4_TRY(orphan::Volume::load(*l.overlay));
  return l;
}

std::uint64_t Session::now() const {
  for (const char* name : {"E2FSCK_TIME", "SOURCE_DATE_EPOCH"})
    if (const std::string text = io_->environment(name); !text.empty()) return number(text);
  return static_cast<std::uint64_t>(std::time(nullptr));
}

Result<Session::Written> Session::write(const Prepare& prepare) {
  if (!options_.writable) return make_error(ErrorKind::usage, "the image is open for reading only: give -w");
  if (!unknown_.empty()) {
    std::string names;
    for (const std::string& n : unknown_) names += (names.empty() ? "" : ", ") + n;
    return make_error(ErrorKind::incompatible, "not written: the image has features this program does not know: " + names);
  }
  Layer l = E4_TRY(layer(true));
  Edit edit = E4_TRY(prepare(l));
  auto committer = E4_TRY(journal::Committer::begin(std::move(*l.plan), *l.overlay));
  const std::uint64_t capacity = committer.capacity_blocks();
  orphan::ReleaseOptions how{.now = now()};
  if (capacity != 0) how.capacity_blocks = static_cast<std::size_t>(capacity);
  orphan::Releaser releaser(*l.volume, edit.release, how);
  while (E4_TRY(releaser.batch())) E4_TRY(committer.commit());
  if (edit.after) {
    l.volume->forget_spans();
    E4_TRY(edit.after(*l.volume));
  }
  E4_TRY(committer.finish());
  return Written{releaser.totals(), committer.stats().bytes_written};
}

}  // namespace e4::debug
