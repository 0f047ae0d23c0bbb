// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "image/device.h"
#include "journal/commit.h"
#include "journal/descriptor.h"
#include "journal/log.h"

namespace e4::journal {

/// Writes transactions into the ring of a log, in the log's own format, block
/// behind block, wrapping. Does not touch the journal superblock and does not
/// flush. A descriptor and its data go out in one large write. Tests make bad
/// logs with it too: put() takes any block, set_tid() any tid.
class LogWriter {
 public:
  LogWriter(image::Device& device, const Log& log, std::uint32_t position, Tid tid);

  /// Logs one block: its tag goes into the open descriptor. Escaped as needed.
  Result<void> add(Blk home, std::span<const std::byte> data);
  /// Writes revoke blocks for these (as many as it takes), after closing the
  /// open descriptor. No blocks: one empty revoke block.
  Result<void> revoke(std::span<const Blk> blocks);
  /// Closes the descriptor, writes the commit block; the next tid is open then.
  Result<void> commit(CommitTime time);
  /// Closes the open descriptor, if any.
  Result<void> close_descriptor();
  /// One block as it is.
  Result<void> put(std::span<const std::byte> block);

  void set_tid(Tid tid) { tid_ = tid; }
  [[nodiscard]] Tid tid() const { return tid_; }
  /// Log block the next block will go to (after close_descriptor()).
  [[nodiscard]] std::uint32_t position() const { return position_; }
  [[nodiscard]] std::uint64_t blocks_written() const { return written_; }

  /// How many blocks one descriptor of ours carries, at most.
  static std::uint32_t group_blocks(const LogFormat& format);
  /// Log blocks a transaction of `data_blocks` takes, descriptors and commit included.
  static std::uint64_t blocks_needed(const LogFormat& format, std::uint64_t data_blocks);
  /// Largest transaction that fits `log_blocks`; 0 if none does.
  static std::uint64_t most_data_blocks(const LogFormat& format, std::uint64_t log_blocks);

 private:
  Result<void> write_run(std::span<const std::byte> blocks);

  image::Device& device_;
  const Log& log_;
  std::uint32_t position_;
  Tid tid_;
  std::vector<Tag> tags_;
  std::vector<std::byte> staged_;  // room for the descriptor, then the data blocks as stored
  std::uint32_t crc_ = ~0U;        // v1: over descriptors and data of this transaction
  std::uint64_t written_ = 0;
};

}  // namespace e4::journal
