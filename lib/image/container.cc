// SPDX-License-Identifier: GPL-2.0-only
#include "image/container.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/endian.h"
#include "image/qcow2.h"
#include "image/zstd_holes.h"
#include "image/zstd_mapping.h"

namespace e4::image {
namespace {

constexpr std::uint64_t kMaxImageBytes = std::uint64_t{1} << 60;

/// A whole file, mapped read-only.
class Mapping {
 public:
  static Result<Mapping> open(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno_error(errno, path + ": cannot open");
    struct stat st{};
    if (::fstat(fd, &st) != 0 || st.st_size <= 0) {
      ::close(fd);
      return make_error(ErrorKind::corrupt, path + ": empty file");
    }
    void* at = ::mmap(nullptr, static_cast<std::size_t>(st.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    const int e = errno;
    ::close(fd);
    if (at == MAP_FAILED) return errno_error(e, path + ": cannot map");
    Mapping m;
    m.bytes_ = {static_cast<const std::byte*>(at), static_cast<std::size_t>(st.st_size)};
    return m;
  }
  Mapping(Mapping&& o) noexcept : bytes_(o.bytes_) { o.bytes_ = {}; }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping() {
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  Mapping() = default;
  std::span<const std::byte> bytes_;
};

Result<bool> is_zstd(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno_error(errno, path + ": cannot open");
  std::array<std::byte, 4> magic{};
  const ssize_t n = ::pread(fd, magic.data(), magic.size(), 0);
  ::close(fd);
  return n == 4 && load<le32>(magic.data()) == 0xFD2FB528;
}

}  // namespace

Result<std::unique_ptr<Device>> open_container(const std::string& path) {
  std::unique_ptr<Device> device;
  if (E4_TRY(is_zstd(path))) {
    const Mapping file = E4_TRY(Mapping::open(path));
    device = E4_TRY(map_zstd(file.bytes(), path));
    if (device == nullptr) {
      auto sparse = std::make_unique<SparseDevice>(path, kMaxImageBytes);
      const std::uint64_t bytes = E4_TRY(decompress_skipping_holes(
          file.bytes(), path, kMaxImageBytes,
          [&](std::uint64_t offset, std::span<const std::byte> data) { return sparse->write(offset, data); }));
      sparse->resize(bytes);
      device = std::move(sparse);
    }
  } else {
    device = E4_TRY(open_file(path));
  }
  if (is_qcow2(*device)) return open_qcow2(std::move(device));
  return device;
}

}  // namespace e4::image
