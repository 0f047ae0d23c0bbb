// SPDX-License-Identifier: GPL-2.0-only
#include "support/temp_dir.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <vector>

#include "base/crc32c.h"

namespace e4::testing_support {

TempDir::TempDir(const char* preferred) {
  const char* base = std::getenv("TMPDIR");
  if (base == nullptr && preferred != nullptr && ::access(preferred, W_OK) == 0) base = preferred;
  std::string t = std::string(base != nullptr ? base : "/tmp") + "/e4test." + std::string(6, 'X');
  if (::mkdtemp(t.data()) == nullptr) throw std::runtime_error("mkdtemp " + t);
  path_ = t;
}

TempDir::~TempDir() {
  std::error_code ec;
  std::filesystem::remove_all(path_, ec);
}

std::uint32_t file_crc32c(const std::string& path) {
  std::ifstream f(path, std::ios::binary);
  std::vector<char> buf(1 << 20);
  std::uint32_t c = ~0U;
  while (f.read(buf.data(), static_cast<std::streamsize>(buf.size())) || f.gcount() > 0)
    c = crc32c(c, buf.data(), static_cast<std::size_t>(f.gcount()));
  return c;
}

}  // namespace e4::testing_support
