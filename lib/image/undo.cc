// SPDX-License-Identifier: GPL-2.0-only
#include "image/undo.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/crc32c.h"
#include "base/endian.h"
#include "base/units.h"

// The undo file, all little endian, cut into blocks of block_size bytes:
//   block 0   header (512 bytes)
//   block 1   the file system's superblock as it is now, s_magic inverted
//   block 2.. groups of one key block and the data its keys describe, in order
namespace e4::image {
namespace {

constexpr std::uint64_t kSuperOffset = 1024, kSuperBytes = 1024;
constexpr std::size_t kMagicInSuper = 0x38, kUuidInSuper = 0x68;
constexpr std::uint32_t kKeyBlockMagic = 0xCADECADE;
constexpr std::uint32_t kFinished = 1;

struct Header {
  char magic[8];
  le64 num_keys, super_offset, key_offset;
  le32 block_size, fs_block_size, sb_crc, state, f_compat, f_incompat, f_rocompat, pad32;
  le64 fs_offset;
  std::uint8_t padding[436];
  le32 header_crc;
};
static_assert(sizeof(Header) == 512);

struct Key {
  le64 fsblk;
  le32 blk_crc, size;
};
struct KeyBlockHead {
  le32 magic, crc;
  le64 reserved;
};
static_assert(sizeof(Key) == 16 && sizeof(KeyBlockHead) == 16);

class UndoDevice final : public Device {
 public:
  UndoDevice(Device& base, int fd, std::string path, std::uint32_t block_bytes)
      : base_(base), fd_(fd), path_(std::move(path)), block_bytes_(block_bytes), keys_(block_bytes) {}
  ~UndoDevice() override { ::close(fd_); }

  Result<void> start() {
    struct stat st {};
    if (::fstat(fd_, &st) != 0) return errno_error(errno, path_);
    super_.resize(kSuperBytes);
    E4_TRY(base_.read(kSuperOffset, super_));
    if (st.st_size != 0) return resume(static_cast<std::uint64_t>(st.st_size));
    key_block_ = 2;
    next_ = 3;
    E4_TRY(put_header());
    return sync();
  }

  Result<void> read(std::uint64_t offset, std::span<std::byte> out) override { return base_.read(offset, out); }

  Result<void> write(std::uint64_t offset, std::span<const std::byte> data) override {
    if (data.empty()) return {};
    if (data.size() > size() || offset > size() - data.size())
      return make_error(ErrorKind::corrupt, name() + ": write is past the end");
    const Blk first = offset / block_bytes_, last = (offset + data.size() - 1) / block_bytes_;
    bool added = false;
    for (Blk b = first; b <= last; ++b) {
      if (!saved_.insert(b).second) continue;
      E4_TRY(save(b));
      added = true;
    }
    const bool touches_super = offset < kSuperOffset + kSuperBytes && offset + data.size() > kSuperOffset;
    if (touches_super) {
      for (std::size_t i = 0; i < data.size(); ++i) {
        const std::uint64_t at = offset + i;
        if (at >= kSuperOffset && at < kSuperOffset + kSuperBytes) super_[at - kSuperOffset] = data[i];
      }
    }
    if (added || touches_super) {
      if (added) E4_TRY(put_keys());
      E4_TRY(sync());  // data and keys first: a header never counts what is not there
      E4_TRY(put_header());
      E4_TRY(sync());
    }
    return base_.write(offset, data);
  }

  Result<void> flush() override { return base_.flush(); }
  [[nodiscard]] std::uint64_t size() const override { return base_.size(); }
  [[nodiscard]] bool writable() const override { return base_.writable(); }
  [[nodiscard]] const std::string& name() const override { return base_.name(); }

 private:
  [[nodiscard]] std::size_t keys_per_block() const { return block_bytes_ / sizeof(Key) - 1; }

  Result<void> put(std::uint64_t at, std::span<const std::byte> data) {
    while (!data.empty()) {
      const ssize_t n = ::pwrite(fd_, data.data(), data.size(), static_cast<off_t>(at));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno_error(errno, "undo file " + path_);
      data = data.subspan(static_cast<std::size_t>(n));
      at += static_cast<std::uint64_t>(n);
    }
    return {};
  }
  Result<void> get(std::uint64_t at, std::span<std::byte> out) {
    if (::pread(fd_, out.data(), out.size(), static_cast<off_t>(at)) != static_cast<ssize_t>(out.size()))
      return make_error(ErrorKind::corrupt, "undo file " + path_ + " is cut short at byte " + std::to_string(at));
    return {};
  }
  Result<void> sync() {
    if (::fdatasync(fd_) != 0) return errno_error(errno, "undo file " + path_);
    return {};
  }

  Result<void> save(Blk b) {
    std::vector<std::byte> old(std::min<std::uint64_t>(block_bytes_, size() - b * block_bytes_));
    E4_TRY(base_.read(b * block_bytes_, old));
    if (key_count_ == keys_per_block()) {
      E4_TRY(put_keys());
      key_block_ = next_++;
      key_count_ = 0;
      std::fill(keys_.begin(), keys_.end(), std::byte{});
    }
    Key k{};
    k.fsblk = b;
    k.blk_crc = crc32c(~0U, old);
    k.size = static_cast<std::uint32_t>(old.size());
    std::memcpy(keys_.data() + sizeof(KeyBlockHead) + key_count_ * sizeof(Key), &k, sizeof k);
    old.resize(block_bytes_);
    E4_TRY(put(next_++ * block_bytes_, old));
    ++key_count_;
    ++keys_total_;
    return {};
  }

  Result<void> put_keys() {
    KeyBlockHead head{};
    head.magic = kKeyBlockMagic;
    std::memcpy(keys_.data(), &head, sizeof head);
    head.crc = crc32c(~0U, keys_);
    std::memcpy(keys_.data(), &head, sizeof head);
    return put(key_block_ * block_bytes_, keys_);
  }

  Result<void> put_header() {
    Header h{};
    std::memcpy(h.magic, "E2UNDO02", 8);
    h.num_keys = keys_total_;
    h.super_offset = 1;
    h.key_offset = 2;
    h.block_size = block_bytes_;
    h.fs_block_size = block_bytes_;
    h.sb_crc = crc32c(~0U, super_);
    h.state = kFinished;
    h.header_crc = crc32c(~0U, &h, sizeof h - sizeof h.header_crc);
    std::vector<std::byte> blocks(2 * std::size_t{block_bytes_});
    std::memcpy(blocks.data(), &h, sizeof h);
    std::memcpy(blocks.data() + block_bytes_, super_.data(), kSuperBytes);
    for (std::size_t i = 0; i < 2; ++i) blocks[block_bytes_ + kMagicInSuper + i] = ~blocks[block_bytes_ + kMagicInSuper + i];
    return put(0, blocks);
  }

  /// Continues an undo file this file system made earlier: loads its keys so
  /// that the oldest content of each block is the one that stays.
  Result<void> resume(std::uint64_t file_bytes) {
    const Error foreign =
        make_error(ErrorKind::busy, path_ + " exists and is not an undo file of this file system; name another file");
    Header h{};
    if (file_bytes < 2 * std::uint64_t{block_bytes_} || !get(0, std::as_writable_bytes(std::span(&h, 1)))) return foreign;
    std::vector<std::byte> old(kSuperBytes);
    if (std::memcmp(h.magic, "E2UNDO02", 8) != 0 || h.header_crc != crc32c(~0U, &h, sizeof h - sizeof h.header_crc) ||
        h.block_size != block_bytes_ || h.fs_block_size != block_bytes_ || h.super_offset != 1U || h.key_offset != 2U ||
        !get(block_bytes_, old) || std::memcmp(old.data() + kUuidInSuper, super_.data() + kUuidInSuper, 16) != 0)
      return foreign;
    const std::uint64_t total = h.num_keys;
    if (total > file_bytes / block_bytes_) return foreign;
    key_block_ = 2;
    next_ = 3;
    for (std::uint64_t done = 0; done < total;) {
      E4_TRY(get(key_block_ * block_bytes_, keys_));
      KeyBlockHead head{};
      std::memcpy(&head, keys_.data(), sizeof head);
      const std::uint32_t crc = head.crc;
      head.crc = 0;
      std::vector<std::byte> copy = keys_;
      std::memcpy(copy.data(), &head, sizeof head);
      if (head.magic != kKeyBlockMagic || crc32c(~0U, copy) != crc)
        return make_error(ErrorKind::corrupt, path_ + ": bad key block " + std::to_string(key_block_));
      key_count_ = std::min<std::uint64_t>(keys_per_block(), total - done);
      for (std::size_t i = 0; i < key_count_; ++i)
        saved_.insert(load<le64>(keys_.data(), sizeof(KeyBlockHead) + i * sizeof(Key)));
      done += key_count_;
      next_ = key_block_ + 1 + key_count_;
      if (done < total) key_block_ = next_++;
    }
    keys_total_ = total;
    return {};
  }

  Device& base_;
  const int fd_;
  const std::string path_;
  const std::uint32_t block_bytes_;
  std::vector<std::byte> keys_;   // the key block being filled
  std::vector<std::byte> super_;  // the superblock as the base will have it
  std::unordered_set<Blk> saved_;
  std::uint64_t key_block_ = 0, next_ = 0;  // in undo-file blocks
  std::uint64_t keys_total_ = 0;
  std::size_t key_count_ = 0;
};

}  // namespace

Result<std::unique_ptr<Device>> open_undo(Device& base, const std::string& undo_path, std::uint32_t block_bytes) {
  const int fd = ::open(undo_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return errno_error(errno, "cannot open undo file " + undo_path);
  auto undo = std::make_unique<UndoDevice>(base, fd, undo_path, block_bytes);
  E4_TRY(undo->start());
  return std::unique_ptr<Device>(std::move(undo));
}

}  // namespace e4::image
