// SPDX-License-Identifier: GPL-2.0-only
#include "trace/input.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace e4::trace {
namespace {

constexpr std::size_t kChunkBytes = 256 * 1024;

class FileSource final : public ByteSource {
 public:
  FileSource(int fd, std::string name, bool owned) : fd_(fd), name_(std::move(name)), owned_(owned) {}
  ~FileSource() override {
    if (owned_) ::close(fd_);
  }
  Result<std::size_t> read(char* out, std::size_t bytes) override {
    for (;;) {
      const ssize_t n = ::read(fd_, out, bytes);
      if (n >= 0) return static_cast<std::size_t>(n);
      if (errno != EINTR) return errno_error(errno, name_ + ": cannot read");
    }
  }

 private:
  int fd_;
  std::string name_;
  bool owned_;
};

class ZstdSource final : public ByteSource {
 public:
  ZstdSource(std::unique_ptr<ByteSource> under, std::string name)
      : under_(std::move(under)), name_(std::move(name)), context_(ZSTD_createDCtx()), buffer_(kChunkBytes) {
    ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax, 27);
  }
  ~ZstdSource() override { ZSTD_freeDCtx(context_); }
  [[nodiscard]] bool cut() const override { return cut_ || under_->cut(); }
  Result<std::size_t> read(char* out, std::size_t bytes) override {
    ZSTD_outBuffer o{out, bytes, 0};
    while (o.pos == 0 && bytes != 0) {
      if (in_.pos == in_.size) {
        const std::size_t n = E4_TRY(under_->read(buffer_.data(), buffer_.size()));
        in_ = {buffer_.data(), n, 0};
        if (n == 0) {
          if (pending_ != 0) cut_ = true;
          return std::size_t{0};
        }
      }
      pending_ = ZSTD_decompressStream(context_, &o, &in_);
      if (ZSTD_isError(pending_) != 0)
        return make_error(ErrorKind::corrupt, name_ + ": zstd: " + ZSTD_getErrorName(pending_));
    }
    return o.pos;
  }

 private:
  std::unique_ptr<ByteSource> under_;
  std::string name_;
  ZSTD_DCtx* context_;
  std::vector<char> buffer_;
  ZSTD_inBuffer in_{nullptr, 0, 0};
  std::size_t pending_ = 0;
  bool cut_ = false;
};

class GzipSource final : public ByteSource {
 public:
  GzipSource(std::unique_ptr<ByteSource> under, std::string name)
      : under_(std::move(under)), name_(std::move(name)), buffer_(kChunkBytes) {
    inflateInit2(&z_, 15 + 32);
  }
  ~GzipSource() override { inflateEnd(&z_); }
  [[nodiscard]] bool cut() const override { return cut_ || under_->cut(); }
  Result<std::size_t> read(char* out, std::size_t bytes) override {
    z_.next_out = reinterpret_cast<Bytef*>(out);
    z_.avail_out = static_cast<uInt>(std::min<std::size_t>(bytes, 1U << 30));
    const uInt want = z_.avail_out;
    while (z_.avail_out == want && want != 0) {
      if (z_.avail_in == 0) {
        const std::size_t n = E4_TRY(under_->read(buffer_.data(), buffer_.size()));
        if (n == 0) {
          if (inside_) cut_ = true;
          return std::size_t{0};
        }
        z_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
        z_.avail_in = static_cast<uInt>(n);
      }
      inside_ = true;
      const int rc = inflate(&z_, Z_NO_FLUSH);
      if (rc == Z_STREAM_END) {
        inside_ = false;
        inflateReset(&z_);
      } else if (rc != Z_OK && rc != Z_BUF_ERROR) {
        return make_error(ErrorKind::corrupt, name_ + ": gzip: damaged stream");
      }
    }
    return static_cast<std::size_t>(want - z_.avail_out);
  }

 private:
  std::unique_ptr<ByteSource> under_;
  std::string name_;
  std::vector<char> buffer_;
  z_stream z_{};
  bool inside_ = false;
  bool cut_ = false;
};

}  // namespace

Result<std::string> Peeked::peek(std::size_t bytes) {
  while (held_.size() < bytes) {
    std::array<char, 4096> b;
    const std::size_t n = E4_TRY(under_->read(b.data(), std::min(b.size(), bytes - held_.size())));
    if (n == 0) break;
    held_.append(b.data(), n);
  }
  return held_;
}

Result<std::size_t> Peeked::read(char* out, std::size_t bytes) {
  if (held_.empty()) return under_->read(out, bytes);
  const std::size_t n = std::min(bytes, held_.size());
  std::memcpy(out, held_.data(), n);
  held_.erase(0, n);
  return n;
}

Result<std::unique_ptr<ByteSource>> open_bytes(const std::string& path) {
  int fd = STDIN_FILENO;
  if (path != "-") {
    fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno_error(errno, path + ": cannot open");
  }
  const std::string name = path == "-" ? "standard input" : path;
  auto peeked = std::make_unique<Peeked>(std::make_unique<FileSource>(fd, name, path != "-"));
  const std::string magic = E4_TRY(peeked->peek(4));
  if (magic == "\x28\xB5\x2F\xFD") return std::unique_ptr<ByteSource>(new ZstdSource(std::move(peeked), name));
  if (magic.starts_with("\x1F\x8B")) return std::unique_ptr<ByteSource>(new GzipSource(std::move(peeked), name));
  return std::unique_ptr<ByteSource>(std::move(peeked));
}

Result<int> spool(ByteSource& source) {
  const char* dir = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe)
  std::string path = std::string(dir != nullptr && *dir != 0 ? dir : "/tmp") + "/e4trace." + std::string(6, 'X');
  const int fd = ::mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) return errno_error(errno, path + ": cannot make a temporary file");
  ::unlink(path.c_str());
  std::vector<char> buffer(kChunkBytes);
  for (;;) {
    auto n = source.read(buffer.data(), buffer.size());
    if (!n) {
      ::close(fd);
      return std::move(n).error();
    }
    if (*n == 0) break;
    for (std::size_t done = 0; done < *n;) {
      const ssize_t w = ::write(fd, buffer.data() + done, *n - done);
      if (w < 0) {
        const int e = errno;
        if (e == EINTR) continue;
        ::close(fd);
        return errno_error(e, path + ": cannot write");
      }
      done += static_cast<std::size_t>(w);
    }
  }
  ::lseek(fd, 0, SEEK_SET);
  return fd;
}

}  // namespace e4::trace
