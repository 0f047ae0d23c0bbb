// SPDX-License-Identifier: GPL-2.0-only
#include "image/device.h"

#include <algorithm>
#include <blkid/blkid.h>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ext2fs/ext2_fs.h>
#include <ext2fs/ext2fs.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/units.h"
#include "image/filsys.h"

namespace e4::image {
namespace {

class FileDevice final : public Device {
 public:
  FileDevice(int fd, std::string name, std::uint64_t offset, std::uint64_t bytes, bool writable, bool block_device)
      : fd_(fd), name_(std::move(name)), offset_(offset), bytes_(bytes), writable_(writable),
        block_device_(block_device) {}
  ~FileDevice() override { ::close(fd_); }

  Result<void> read(std::uint64_t offset, std::span<std::byte> out) override {
    if (out.size() > bytes_ || offset > bytes_ - out.size())
      return make_error(ErrorKind::corrupt, name_ + ": read at byte " + std::to_string(offset) + " is past the end");
    std::size_t done = 0;
    while (done < out.size()) {
      const ssize_t n =
          ::pread(fd_, out.data() + done, out.size() - done, static_cast<off_t>(offset_ + offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno_error(errno, name_ + ": read at byte " + std::to_string(offset + done));
      if (n == 0) return errno_error(EIO, name_ + ": ends at byte " + std::to_string(offset + done));
      done += static_cast<std::size_t>(n);
    }
    return {};
  }

  Result<void> write(std::uint64_t offset, std::span<const std::byte> data) override {
    if (!writable_) return make_error(ErrorKind::usage, name_ + ": opened read-only");
    if (data.size() > bytes_ || offset > bytes_ - data.size())
      return make_error(ErrorKind::corrupt, name_ + ": write at byte " + std::to_string(offset) + " is past the end");
    std::size_t done = 0;
    while (done < data.size()) {
      const ssize_t n =
          ::pwrite(fd_, data.data() + done, data.size() - done, static_cast<off_t>(offset_ + offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno_error(errno, name_ + ": write at byte " + std::to_string(offset + done));
      done += static_cast<std::size_t>(n);
    }
    return {};
  }

  Result<std::uint64_t> next_data(std::uint64_t offset) override {
    if (offset >= bytes_) return bytes_;
    const off_t at = ::lseek(fd_, static_cast<off_t>(offset_ + offset), SEEK_DATA);
    if (at < 0) return errno == ENXIO ? bytes_ : offset;
    return std::min(static_cast<std::uint64_t>(at) - offset_, bytes_);
  }

  Result<void> flush() override {
    if (writable_ && ::fdatasync(fd_) != 0) return errno_error(errno, name_ + ": flush");
    return {};
  }

  Result<bool> discard(std::uint64_t offset, std::uint64_t bytes) override {
    if (!writable_) return make_error(ErrorKind::usage, name_ + ": opened read-only");
    if (bytes > bytes_ || offset > bytes_ - bytes)
      return make_error(ErrorKind::corrupt, name_ + ": discard at byte " + std::to_string(offset) + " is past the end");
    if (bytes == 0) return true;
    // A hole in a file reads as zeros. What a discarded device reads as is its own affair.
    if (::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset_ + offset),
                    static_cast<off_t>(bytes)) == 0)
      return !block_device_;
    return false;
  }

  [[nodiscard]] std::uint64_t size() const override { return bytes_; }
  [[nodiscard]] bool writable() const override { return writable_; }
  [[nodiscard]] const std::string& name() const override { return name_; }

 private:
  const int fd_;
  const std::string name_;
  const std::uint64_t offset_, bytes_;
  const bool writable_, block_device_;
};

class MemoryDevice final : public Device {
 public:
  MemoryDevice(std::string name, std::uint64_t bytes) : name_(std::move(name)), data_(bytes) {}
  Result<void> read(std::uint64_t offset, std::span<std::byte> out) override {
    if (out.size() > data_.size() || offset > data_.size() - out.size())
      return make_error(ErrorKind::corrupt, name_ + ": read at byte " + std::to_string(offset) + " is past the end");
    if (!out.empty()) std::memcpy(out.data(), data_.data() + offset, out.size());
    return {};
  }
  Result<void> write(std::uint64_t offset, std::span<const std::byte> data) override {
    if (data.size() > data_.size() || offset > data_.size() - data.size())
      return make_error(ErrorKind::corrupt, name_ + ": write at byte " + std::to_string(offset) + " is past the end");
    if (!data.empty()) std::memcpy(data_.data() + offset, data.data(), data.size());
    return {};
  }
  Result<void> flush() override { return {}; }
  [[nodiscard]] std::uint64_t size() const override { return data_.size(); }
  [[nodiscard]] bool writable() const override { return true; }
  [[nodiscard]] const std::string& name() const override { return name_; }

 private:
  std::string name_;
  std::vector<std::byte> data_;
};

/// Splits "PATH?offset=N"; a '?' that is not followed by option=value stays part of the path.
Result<std::pair<std::string, std::uint64_t>> split_offset(const std::string& path) {
  const std::size_t q = path.rfind("?offset=");
  if (q == std::string::npos) return std::pair(path, std::uint64_t{0});
  const std::string text = path.substr(q + std::strlen("?offset="));
  std::uint64_t n = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (ec != std::errc{} || end != text.data() + text.size())
    return make_error(ErrorKind::usage, path + ": offset is not a number of bytes");
  return std::pair(path.substr(0, q), n);
}

/// LABEL=, UUID= and friends, as every e2fsprogs tool takes them.
std::string resolve_tag(const std::string& path) {
  if (path.find('=') == std::string::npos || path.find('/') != std::string::npos) return path;
  char* found = blkid_evaluate_spec(path.c_str(), nullptr);
  if (found == nullptr) return path;
  std::string s = found;
  std::free(found);
  return s;
}

}  // namespace

Result<bool> Device::discard(std::uint64_t, std::uint64_t) { return false; }

Result<void> refuse_if_in_use(const std::string& path) {
  int flags = 0;
  char where[256] = "";
  if (ext2fs_check_mount_point(path.c_str(), &flags, where, sizeof where) != 0) return {};
  if ((flags & EXT2_MF_MOUNTED) != 0)
    return make_error(ErrorKind::busy, path + " is mounted" + (where[0] != 0 ? std::string(" on ") + where : "") +
                                           "; unmount it first");
  if ((flags & EXT2_MF_SWAP) != 0) return make_error(ErrorKind::busy, path + " is used as swap space");
  if ((flags & EXT2_MF_BUSY) != 0) return make_error(ErrorKind::busy, path + " is in use by the system");
  return {};
}

Result<std::unique_ptr<Device>> open_file(const std::string& path_and_offset, FileDeviceOptions options) {
  auto [path, offset] = E4_TRY(split_offset(path_and_offset));
  path = resolve_tag(path);
  if (options.offset > UINT64_MAX - offset) return make_error(ErrorKind::usage, path + ": offset is too large");
  offset += options.offset;
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0) return errno_error(errno, "cannot open " + path);
  const bool block_device = S_ISBLK(st.st_mode);
  if (!block_device && !S_ISREG(st.st_mode))
    return make_error(ErrorKind::usage, path + ": neither a regular file nor a block device");
  if (options.writable && !options.ignore_mounted) E4_TRY(refuse_if_in_use(path));
  int flags = (options.writable ? O_RDWR : O_RDONLY) | O_CLOEXEC;
  if (block_device && options.writable && !options.ignore_mounted) flags |= O_EXCL;
  const int fd = ::open(path.c_str(), flags);
  if (fd < 0 && errno == EBUSY) return make_error(ErrorKind::busy, path + " is in use by the system");
  if (fd < 0) return errno_error(errno, "cannot open " + path);
  if (options.writable && !block_device && ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(fd);
    return make_error(ErrorKind::busy, path + " is locked by another program");
  }
  const off_t end = ::lseek(fd, 0, SEEK_END);
  if (end < 0) {
    const int e = errno;
    ::close(fd);
    return errno_error(e, path + ": cannot find its size");
  }
  if (offset >= static_cast<std::uint64_t>(end)) {
    ::close(fd);
    return make_error(ErrorKind::usage,
                      path + ": is " + std::to_string(end) + " bytes long; nothing at byte " + std::to_string(offset));
  }
  std::string name = path;
  if (offset != 0) name += "?offset=" + std::to_string(offset);
  return std::unique_ptr<Device>(
      std::make_unique<FileDevice>(fd, std::move(name), offset, static_cast<std::uint64_t>(end) - offset,
                                   options.writable, block_device));
}

Result<std::uint64_t> Device::next_data(std::uint64_t offset) { return std::min(offset, size()); }

Result<void> export_image(Device& device, const std::string& path) {
  constexpr std::uint64_t kStep = 64 * kKiB;
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return errno_error(errno, "cannot create " + path);
  FileDevice out(fd, path, 0, device.size(), true, false);
  if (::ftruncate(fd, static_cast<off_t>(device.size())) != 0) return errno_error(errno, path + ": set size");
  std::vector<std::byte> buffer(kStep);
  const std::vector<std::byte> zeros(kStep);
  for (std::uint64_t at = 0; (at = E4_TRY(device.next_data(at)) / kStep * kStep) < device.size(); at += kStep) {
    const auto part = std::span(buffer).first(std::min(kStep, device.size() - at));
    E4_TRY(device.read(at, part));
    if (std::memcmp(part.data(), zeros.data(), part.size()) == 0) continue;
    E4_TRY(out.write(at, part));
  }
  return {};
}

std::unique_ptr<Device> make_memory_device(std::string name, std::uint64_t bytes) {
  return std::make_unique<MemoryDevice>(std::move(name), bytes);
}

}  // namespace e4::image
