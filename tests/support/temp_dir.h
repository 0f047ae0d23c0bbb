// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <string>

namespace e4::testing_support {

/// A directory of its own for one test, removed with everything in it.
class TempDir {
 public:
  /// Under $TMPDIR, else under `preferred` if that can be written, else /tmp. /dev/shm spares many small tests the
  /// waiting for fsync.
  explicit TempDir(const char* preferred = nullptr);
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// crc32c of a whole file, to see whether it was touched.
std::uint32_t file_crc32c(const std::string& path);

}  // namespace e4::testing_support
