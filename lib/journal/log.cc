// SPDX-License-Identifier: GPL-2.0-only
#include "journal/log.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/assert.h"
#include "base/crc32c.h"
#include "journal/file_map.h"
#include "journal/layout.h"

namespace e4::journal {

namespace {

Error bad(Ino ino, std::string text, Where where = Where::here()) {
  return make_error(ErrorKind::corrupt, "journal: " + std::move(text), 0, where).at_inode(ino);
}

struct Source {
  std::array<std::byte, 60> i_block{};
  std::uint64_t bytes = 0;
  std::optional<std::uint32_t> tree_seed{};
};

Result<Source> from_inode(image::Filsys& fs, Ino ino) {
  if (ino == 0 || ino > fs.super().s_inodes_count) return bad(ino, "inode number out of range");
  ext2_inode inode{};
  E4_EXT2(ext2fs_read_inode(fs.raw(), ino, &inode), fmt::format("journal inode {}", ino));
  if (!LINUX_S_ISREG(inode.i_mode)) return bad(ino, "not a regular file");
  if (inode.i_links_count == 0) return bad(ino, "inode has no links");
  if (inode.i_flags & EXT4_ENCRYPT_FL) return bad(ino, "inode is encrypted");
  if (inode.i_flags & EXT4_INLINE_DATA_FL) return bad(ino, "inode has inline data");
  Source s;
  static_assert(sizeof inode.i_block == sizeof s.i_block);
  std::memcpy(s.i_block.data(), inode.i_block, sizeof inode.i_block);
  s.bytes = EXT2_I_SIZE(&inode);
  if (ext2fs_has_feature_metadata_csum(&fs.super())) {
    s.tree_seed = crc32c_le32(crc32c_le32(fs.csum_seed(), ino), inode.i_generation);
  }
  return s;
}

std::optional<Source> from_backup_copy(const ext2_super_block& super) {
  if (super.s_jnl_backup_type != EXT3_JNL_BACKUP_BLOCKS) return std::nullopt;
  Source s;
  for (std::size_t i = 0; i < 15; ++i) store<le32>(s.i_block.data(), i * 4, super.s_jnl_blocks[i]);
  s.bytes = static_cast<std::uint64_t>(super.s_jnl_blocks[15]) << 32 | super.s_jnl_blocks[16];
  return s;
}

// The runs of log blocks from 0 up to the first hole.
std::vector<Log::Run> runs_of(const FileMap& map, std::uint32_t* mapped) {
  std::vector<Log::Run> runs;
  *mapped = 0;
  for (const MappedExtent& e : map.extents) {
    if (e.lblk != *mapped || e.unwritten) break;
    runs.push_back({.log_block = e.lblk, .blocks = e.blocks, .physical = e.physical});
    *mapped += e.blocks;
  }
  return runs;
}

}  // namespace

Place place_of(const ext2_super_block& super) {
  if ((super.s_feature_compat & EXT3_FEATURE_COMPAT_HAS_JOURNAL) == 0) return Place::none;
  const auto* uuid = super.s_journal_uuid;
  const bool has_uuid = std::any_of(uuid, uuid + sizeof super.s_journal_uuid, [](auto b) { return b != 0; });
  // Both an inode and a device: the kernel refuses; naming the device is the better message.
  if (super.s_journal_dev != 0 || (has_uuid && super.s_journal_inum == 0)) return Place::external;
  return Place::internal;
}

std::string external_text(const ext2_super_block& super) {
  const auto* u = super.s_journal_uuid;
  std::string uuid;
  for (std::size_t i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) uuid += '-';
    uuid += fmt::format("{:02x}", u[i]);
  }
  const std::uint32_t dev = super.s_journal_dev;
  return fmt::format(
      "the journal is on another device (UUID {}, last seen as device {}:{}); external journals are not supported: "
      "recover with that device attached{}",
      uuid, (dev >> 8) & 0xFFF, (dev & 0xFF) | ((dev >> 12) & 0xFFF00),
      super.s_journal_inum != 0
          ? fmt::format("; the superblock names journal inode {} as well, and only one can be right", super.s_journal_inum)
          : "");
}

Result<Log> Log::open(image::Device& device, image::Filsys& fs) {
  const ext2_super_block& super = fs.super();
  switch (place_of(super)) {
    case Place::none: return make_error(ErrorKind::usage, "the file system has no journal");
    case Place::external: return make_error(ErrorKind::incompatible, external_text(super));
    case Place::internal: break;
  }
  const Ino ino = super.s_journal_inum;
  const std::uint32_t bs = fs.block_bytes();
  const Blk fs_blocks = std::min<Blk>(ext2fs_blocks_count(&fs.super()), device.size() / bs);

  const auto build = [&](const Source& source) -> Result<Log> {
    const std::uint64_t file_blocks = std::min<std::uint64_t>({source.bytes / bs, fs_blocks, 0xFFFFFFFFU});
    if (file_blocks < kMinLogBlocks) return bad(ino, fmt::format("only {} blocks long", file_blocks));
    const MapSource map_source{.i_block = source.i_block,
                               .ino = ino,
                               .block_bytes = bs,
                               .fs_blocks = fs_blocks,
                               .file_blocks = static_cast<std::uint32_t>(file_blocks),
                               .tree_seed = source.tree_seed};
    auto mapping = map_file(device, map_source);
    if (!mapping) return std::move(mapping).error().context("journal");
    const FileMap map = std::move(*mapping);
    std::uint32_t mapped = 0;
    std::vector<Run> runs = runs_of(map, &mapped);
    if (mapped == 0) return bad(ino, "its first block is not mapped");
    std::vector<std::byte> first(bs);
    E4_TRY(device.read(runs[0].physical * bs, first));
    Log log;
    auto parsed = parse_superblock(first, bs, file_blocks);
    if (!parsed) {
      Error e = std::move(parsed).error();
      return std::move(e).at_inode(ino).at_block(runs[0].physical);
    }
    log.super_ = std::move(*parsed);
    if (mapped < log.super_.raw.s_maxlen) return bad(ino, fmt::format("block {} of the log is not mapped", mapped));
    while (runs.back().log_block >= log.blocks()) runs.pop_back();
    log.by_physical_ = runs;
    for (const Blk b : map.tree) log.by_physical_.push_back({.log_block = 0, .blocks = 1, .physical = b});
    std::ranges::sort(log.by_physical_, {}, &Run::physical);
    for (std::size_t i = 1; i < log.by_physical_.size(); ++i) {
      const Run& before = log.by_physical_[i - 1];
      if (before.physical + before.blocks > log.by_physical_[i].physical) {
        return bad(ino, "one block is mapped twice").at_block(log.by_physical_[i].physical);
      }
    }
    const Layout layout(fs);
    for (const Run& r : log.by_physical_) {
      if (const auto b = layout.first_in(r.physical, r.blocks)) {
        return bad(ino, "lies on metadata of the file system").at_block(*b);
      }
    }
    log.runs_ = std::move(runs);
    return log;
  };

  auto source = from_inode(fs, ino);
  auto log = source ? build(*source) : Result<Log>(source.error());
  if (log || log.error().kind == ErrorKind::incompatible) return log;
  const auto copy = from_backup_copy(super);
  if (!copy) return log;
  auto second = build(*copy);
  if (!second) return log;  // the inode's own fault is the better message
  second->from_backup_ = true;
  return second;
}

Blk Log::physical(std::uint32_t n) const {
  E4_ASSERT(n < blocks());
  const auto it = std::prev(std::ranges::upper_bound(runs_, n, {}, &Run::log_block));
  return it->physical + (n - it->log_block);
}

std::uint32_t Log::contiguous(std::uint32_t n) const {
  E4_ASSERT(n < blocks());
  const auto it = std::prev(std::ranges::upper_bound(runs_, n, {}, &Run::log_block));
  return std::min(it->log_block + it->blocks, blocks()) - n;
}

bool Log::overlaps(Blk from, std::uint64_t blocks) const {
  const auto it = std::ranges::upper_bound(by_physical_, from, {}, &Run::physical);
  if (it != by_physical_.end() && it->physical - from < blocks) return true;
  return it != by_physical_.begin() && from - std::prev(it)->physical < std::prev(it)->blocks;
}

std::uint32_t Log::advance(std::uint32_t n, std::uint32_t count) const {
  E4_ASSERT(count <= super_.ring_blocks());
  std::uint64_t at = std::uint64_t{n} + count;
  if (at >= super_.ring_end()) at -= super_.ring_blocks();
  return static_cast<std::uint32_t>(at);
}

Result<void> Log::read(image::Device& device, std::uint32_t n, std::span<std::byte> block) const {
  return device.read(physical(n) * block_bytes(), block);
}

Result<void> Log::write(image::Device& device, std::uint32_t n, std::span<const std::byte> block) const {
  return device.write(physical(n) * block_bytes(), block);
}

Result<void> Log::write_super(image::Device& device, SuperOnDisk raw) {
  seal_superblock(raw);
  // Only these 1024 bytes: the rest of the block is not ours to change.
  E4_TRY(device.write(physical(0) * block_bytes(), std::as_bytes(std::span(&raw, 1))));
  super_.raw = raw;
  return {};
}

}  // namespace e4::journal
