// SPDX-License-Identifier: GPL-2.0-only
#include "journal/log_writer.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "journal/crc32_be.h"
#include "journal/revoke.h"

namespace e4::journal {

namespace {
constexpr std::uint32_t kStageBytes = 1U << 20;
}

LogWriter::LogWriter(image::Device& device, const Log& log, std::uint32_t position, Tid tid)
    : device_(device), log_(log), position_(position), tid_(tid) {}

std::uint32_t LogWriter::group_blocks(const LogFormat& format) {
  return std::min(format.tags_per_descriptor(), std::max(1U, kStageBytes / format.block_bytes));
}

std::uint64_t LogWriter::blocks_needed(const LogFormat& format, std::uint64_t data_blocks) {
  const std::uint64_t group = group_blocks(format);
  return data_blocks + (data_blocks + group - 1) / group + 1;
}

std::uint64_t LogWriter::most_data_blocks(const LogFormat& format, std::uint64_t log_blocks) {
  if (log_blocks < 3) return 0;
  const std::uint64_t group = group_blocks(format);
  const std::uint64_t full = (log_blocks - 1) / (group + 1), rest = (log_blocks - 1) % (group + 1);
  return full * group + (rest > 1 ? rest - 1 : 0);
}

Result<void> LogWriter::write_run(std::span<const std::byte> blocks) {
  const std::uint32_t bs = log_.block_bytes();
  while (!blocks.empty()) {
    const std::uint64_t left = blocks.size() / bs;
    const auto n = static_cast<std::uint32_t>(std::min<std::uint64_t>(
        {left, log_.contiguous(position_), log_.super().ring_end() - position_}));
    E4_TRY(device_.write(log_.physical(position_) * bs, blocks.first(std::size_t{n} * bs)));
    position_ = log_.advance(position_, n);
    written_ += n;
    blocks = blocks.subspan(std::size_t{n} * bs);
  }
  return {};
}

Result<void> LogWriter::add(Blk home, std::span<const std::byte> data) {
  const std::uint32_t bs = log_.block_bytes();
  E4_ASSERT(data.size() == bs);
  if (tags_.size() == group_blocks(log_.format())) E4_TRY(close_descriptor());
  if (tags_.empty()) staged_.assign(bs, std::byte{0});
  const std::size_t at = staged_.size();
  staged_.insert(staged_.end(), data.begin(), data.end());
  const std::span<std::byte> stored(staged_.data() + at, bs);
  Tag tag{.block = home};
  if (needs_escape(stored)) {
    tag.flags |= kTagEscape;
    std::memset(stored.data(), 0, 4);
  }
  if (log_.format().sealed()) tag.checksum = data_checksum(log_.format(), tid_, stored);
  tags_.push_back(tag);
  return {};
}

Result<void> LogWriter::close_descriptor() {
  if (tags_.empty()) return {};
  const std::span<std::byte> descriptor(staged_.data(), log_.block_bytes());
  write_descriptor(descriptor, log_.format(), tid_, tags_, std::span(log_.super().raw.s_uuid));
  if (log_.format().checksums == Checksums::v1) crc_ = crc32_be(crc_, staged_);
  tags_.clear();
  return write_run(staged_);
}

Result<void> LogWriter::revoke(std::span<const Blk> blocks) {
  E4_TRY(close_descriptor());
  std::vector<std::byte> block(log_.block_bytes());
  do {
    const std::size_t n = std::min<std::size_t>(blocks.size(), revokes_per_block(log_.format()));
    write_revoke(block, log_.format(), tid_, blocks.first(n));
    E4_TRY(write_run(block));
    blocks = blocks.subspan(n);
  } while (!blocks.empty());
  return {};
}

Result<void> LogWriter::commit(CommitTime time) {
  E4_TRY(close_descriptor());
  std::vector<std::byte> block(log_.block_bytes());
  write_commit(block, log_.format(), tid_, time, crc_);
  E4_TRY(write_run(block));
  crc_ = ~0U;
  ++tid_;
  return {};
}

Result<void> LogWriter::put(std::span<const std::byte> block) {
  E4_ASSERT(block.size() == log_.block_bytes());
  E4_TRY(close_descriptor());
  return write_run(block);
}

}  // namespace e4::journal
