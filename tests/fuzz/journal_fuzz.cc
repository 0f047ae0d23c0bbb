// SPDX-License-Identifier: GPL-2.0-only
// The input becomes the log of a small file system; it is planned, applied in
// memory, its fast commits replayed, and all of it written.
//
//   byte 0      1: reseal checksums of log blocks, 2: fix fast-commit tails and tids
//   byte 1      blocks of the ring in the input; what follows them is the fast-commit area
//   bytes 2..3  s_feature_compat, s_feature_incompat (low bytes)
//   bytes 4..7  s_start, s_first (little endian)
//   bytes 8..11 s_sequence
//   then        blocks of 1 KiB, the last one cut short
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "base/crc32c.h"
#include "image/filsys.h"
#include "image/overlay.h"
#include "journal/commit.h"
#include "journal/committer.h"
#include "journal/descriptor.h"
#include "journal/fast_commit.h"
#include "journal/fast_commit_format.h"
#include "journal/fs_super.h"

namespace {

using namespace e4;
using namespace e4::journal;

constexpr std::uint32_t kBlockBytes = 1024, kBlocks = 8192, kLogBlocks = 1536, kFcBlocks = 64;
constexpr std::size_t kHeaderBytes = 12;

void must(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "journal_fuzz: %s\n", what);
  std::abort();
}

// A file system of 8 MiB with a root directory and a journal.
std::unique_ptr<image::Device> make_base() {
  auto device = image::make_memory_device("fuzz", std::uint64_t{kBlocks} * kBlockBytes);
  ext2_super_block wishes{};
  wishes.s_log_block_size = 0;
  wishes.s_log_cluster_size = 0;
  wishes.s_rev_level = EXT2_DYNAMIC_REV;
  wishes.s_inode_size = 256;
  wishes.s_inodes_count = 512;
  wishes.s_feature_incompat = EXT2_FEATURE_INCOMPAT_FILETYPE | EXT3_FEATURE_INCOMPAT_EXTENTS;
  ext2fs_blocks_count_set(&wishes, kBlocks);
  auto fs = image::Filsys::create(*device, wishes);
  must(fs.has_value(), "create");
  ext2_filsys raw = fs->raw();
  must(ext2fs_allocate_tables(raw) == 0, "tables");
  std::vector<std::byte> zero(std::size_t{raw->inode_blocks_per_group} * kBlockBytes);
  for (GroupNo g = 0; g < raw->group_desc_count; ++g)
    must(device->write(ext2fs_inode_table_loc(raw, g) * kBlockBytes, zero).has_value(), "inode table");
  for (Ino i = 1; i < EXT2_FIRST_INO(raw->super); ++i) {
    if (i != EXT2_ROOT_INO) ext2fs_inode_alloc_stats2(raw, i, +1, 0);
  }
  must(ext2fs_mkdir(raw, EXT2_ROOT_INO, EXT2_ROOT_INO, nullptr) == 0, "root");
  must(ext2fs_mkdir(raw, EXT2_ROOT_INO, 0, "dir") == 0, "dir");
  must(ext2fs_add_journal_inode2(raw, kLogBlocks, ~0ULL, 0) == 0, "journal");
  must(fs->flush().has_value(), "flush");
  auto super = FsSuper::read(*device);
  must(super.has_value(), "superblock");
  super->set_recover(true);
  must(super->write(*device).has_value(), "superblock");
  return device;
}

// Lets the fuzzer past the checksums without finding them.
void reseal(std::vector<std::byte>& block, const LogFormat& format) {
  const Header h = parse_header(block);
  if (!h.is_log_block || !format.sealed()) return;
  if (h.type == kDescriptorBlock || h.type == kRevokeBlock) seal_tail(block, format);
  if (h.type == kCommitBlock) write_commit(block, format, h.tid, commit_time(block), 0);
}

void fix_fast_commits(std::vector<std::byte>& area, Tid tid) {
  std::uint32_t crc = 0;
  for (std::size_t at = 0; at + sizeof(FcTl) <= area.size();) {
    std::byte* p = area.data() + at;
    const std::uint16_t tag = load<le16>(p);
    const std::size_t len = load<le16>(p, 2), left = kBlockBytes - at % kBlockBytes;
    if (left < sizeof(FcTl) || len > left - sizeof(FcTl)) return;
    if (tag == kFcHead && len >= 8) store<le32>(p, sizeof(FcTl) + 4, tid);
    if (tag == kFcTail && len >= sizeof(FcTail)) {
      store<le32>(p, sizeof(FcTl), tid);
      crc = crc32c(crc, p, sizeof(FcTl) + 4);
      store<le32>(p, sizeof(FcTl) + 4, crc);
      crc = 0;
    } else {
      crc = crc32c(crc, p, sizeof(FcTl) + len);
    }
    at += sizeof(FcTl) + len;
    if (kBlockBytes - at % kBlockBytes < sizeof(FcTl)) at = (at / kBlockBytes + 1) * kBlockBytes;
  }
}

void one_input(std::span<const std::byte> input) {
  static const std::unique_ptr<image::Device> base = make_base();
  image::Overlay medium(*base, kBlockBytes);
  auto fs = image::Filsys::open(medium);
  must(fs.has_value(), "open");
  auto log = Log::open(medium, *fs);
  must(log.has_value(), "log");

  SuperOnDisk raw = log->super().raw;
  raw.s_feature_compat = std::to_integer<std::uint32_t>(input[2]);
  raw.s_feature_incompat = std::to_integer<std::uint32_t>(input[3]);
  raw.s_checksum_type = kChecksumTypeCrc32c;
  raw.s_num_fc_blks = kFcBlocks;
  raw.s_start = load<le16>(input.data(), 4);
  raw.s_first = load<le16>(input.data(), 6);
  raw.s_sequence = load<le32>(input.data(), 8);
  must(log->write_super(medium, raw).has_value(), "write");
  auto opened = Log::open(medium, *fs);
  const LogFormat format = opened ? opened->format() : LogFormat{.block_bytes = kBlockBytes};

  const auto flags = std::to_integer<unsigned>(input[0]);
  std::uint32_t ring = std::to_integer<std::uint32_t>(input[1]), n = raw.s_start;
  auto rest = input.subspan(kHeaderBytes);
  std::vector<std::byte> block(kBlockBytes);
  for (; ring > 0 && !rest.empty(); --ring) {
    const std::size_t take = std::min<std::size_t>(rest.size(), kBlockBytes);
    std::ranges::fill(block, std::byte{0});
    std::copy_n(rest.begin(), take, block.begin());
    rest = rest.subspan(take);
    if (flags & 1) reseal(block, format);
    if (n != 0 && n < kLogBlocks) must(log->write(medium, n, block).has_value(), "write");
    n = opened && n < opened->super().ring_end() ? opened->next(n) : n + 1;
  }
  std::vector<std::byte> area(rest.begin(), rest.end());
  area.resize(std::min<std::size_t>((area.size() + kBlockBytes - 1) / kBlockBytes, kFcBlocks - 1) * kBlockBytes);
  if (flags & 2) {
    auto plan = plan_recovery(medium, *fs);
    fix_fast_commits(area, plan ? plan->end_tid : 0);
  }
  for (std::uint32_t i = 0; i * kBlockBytes < area.size(); ++i) {
    must(log->write(medium, kLogBlocks - kFcBlocks + 1 + i, std::span(area).subspan(i * kBlockBytes, kBlockBytes)).has_value(), "write");
  }

  auto plan = plan_recovery(medium, *fs, {.replay_unannounced = true});
  must(plan.has_value(), "a plan needs a readable image and nothing else");
  for (const Problem& p : plan->problems) must(!p.text().empty(), "text");
  image::Overlay overlay(medium, kBlockBytes);
  must(apply(*plan, overlay).has_value(), "apply");
  (void)replay_fast_commits(*plan, overlay);
  auto committer = Committer::begin(std::move(*plan), overlay, {.empty_damaged_log = true});
  if (!committer) return;
  must(committer->finish().has_value(), "finish");
  auto after = image::Filsys::open(medium);
  if (!after) return;  // a logged superblock may be anything
  auto again = plan_recovery(medium, *after);
  must(again && (!again->log || again->log->super().raw.s_start == 0), "the log is empty after a recovery");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < kHeaderBytes || size > 200 * kBlockBytes) return 0;
  one_input(std::as_bytes(std::span(data, size)));
  return 0;
}
