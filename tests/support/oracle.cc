// SPDX-License-Identifier: GPL-2.0-only
#include "support/oracle.h"

#include <ext2fs/ext2_fs.h>
#include <ext2fs/ext2fs.h>
#include <sys/stat.h>

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "support/fsck_run.h"
#include "support/sha256.h"

namespace e4::testing_support {

namespace {

using nlohmann::json;

/// A read-only look at an image by libext2fs on its own, without this suite's code.
class Reader {
 public:
  explicit Reader(const std::string& image) {
    if (ext2fs_open(image.c_str(), EXT2_FLAG_64BITS, 0, 0, unix_io_manager, &fs_) != 0)
      throw std::runtime_error("libext2fs cannot open " + image);
  }
  ~Reader() { ext2fs_free(fs_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ext2_filsys fs() { return fs_; }

  std::string content(ext2_ino_t ino, std::uint64_t size) {
    std::string data(size, '\0');
    ext2_file_t file = nullptr;
    if (ext2fs_file_open(fs_, ino, 0, &file) != 0) return "<cannot open>";
    std::size_t at = 0;
    while (at < size) {
      unsigned got = 0;
      if (ext2fs_file_read(file, data.data() + at, static_cast<unsigned>(std::min<std::uint64_t>(size - at, 1U << 20)), &got) != 0 || got == 0)
        break;
      at += got;
    }
    ext2fs_file_close(file);
    data.resize(at);
    return data;
  }

  json attributes(ext2_ino_t ino) {
    json j = json::object();
    struct ext2_xattr_handle* h = nullptr;
    if (ext2fs_xattrs_open(fs_, ino, &h) != 0) return j;
    if (ext2fs_xattrs_read(h) == 0) {
      const auto each = [](char* name, char* value, size_t len, void* to) {
        if (std::string(name) != "system.data") (*static_cast<json*>(to))[name] = sha256_hex(value, len);
        return 0;
      };
      ext2fs_xattrs_iterate(h, each, &j);
    }
    ext2fs_xattrs_close(&h);
    return j;
  }

 private:
  ext2_filsys fs_ = nullptr;
};

void compare_one(Reader& r, const json& want, std::vector<std::string>& differences) {
  const std::string path = want["path"];
  const auto differ = [&](const std::string& what) { differences.push_back(path + ": " + what); };
  ext2_ino_t ino = 0;
  if (ext2fs_namei(r.fs(), EXT2_ROOT_INO, EXT2_ROOT_INO, path.c_str(), &ino) != 0) return differ("missing");
  if (ino != want["ino"].get<ext2_ino_t>()) differ(fmt::format("inode {} instead of {}", ino, want["ino"].get<unsigned>()));
  ext2_inode_large inode = {};
  if (ext2fs_read_inode_full(r.fs(), ino, reinterpret_cast<ext2_inode*>(&inode), sizeof inode) != 0) return differ("inode unreadable");
  const auto* base = reinterpret_cast<const ext2_inode*>(&inode);
  const std::uint64_t size = EXT2_I_SIZE(base);
  if (fmt::format("0o{:o}", inode.i_mode) != want["mode"]) differ(fmt::format("mode {:o}", inode.i_mode));
  if (inode.i_links_count != want["nlink"]) differ(fmt::format("links {}", inode.i_links_count));
  if (inode_uid(*base) != want["uid"] || inode_gid(*base) != want["gid"]) differ("owner");
  if (size != want["size"]) differ(fmt::format("size {} instead of {}", size, want["size"].get<std::uint64_t>()));
  // stat() on a live kernel counts data kept in the inode as if it had sectors.
  const std::uint64_t sectors = ext2fs_get_stat_i_blocks(r.fs(), const_cast<ext2_inode*>(base)) +
                                ((inode.i_flags & EXT4_INLINE_DATA_FL) != 0 && S_ISREG(inode.i_mode) ? (size + 511) / 512 : 0);
  if (sectors != want["sectors"]) differ(fmt::format("sectors {} instead of {}", sectors, want["sectors"].get<std::uint64_t>()));
  if (want.contains("sha256")) {
    const std::string data = r.content(ino, size);
    if (sha256_hex(data.data(), data.size()) != want["sha256"]) differ("content");
  }
  if (want.contains("target")) {
    std::string target;
    if (ext2fs_is_fast_symlink(const_cast<ext2_inode*>(base)) != 0)
      target.assign(reinterpret_cast<const char*>(inode.i_block), size);
    else target = r.content(ino, size);
    if (target != want["target"]) differ("link target");
  }
  const json attrs = r.attributes(ino);
  if (attrs != want.value("xattr_sha256", json::object())) differ("attributes " + attrs.dump());
}

}  // namespace

std::string corpus_folder() {
  const char* set = std::getenv("E4_CORPUS");
  const std::string folder = set != nullptr ? set : "../shared/corpus";
  return std::filesystem::is_directory(folder) ? folder : "";
}

FreeSpace free_space(const std::string& image) {
  FreeSpace f;
  const ToolRun r = run_tool({"dumpe2fs", image});
  std::istringstream in(r.output);
  bool groups = false;
  unsigned long long value = 0, block_bytes = 1, cluster_bytes = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("Group ", 0) == 0) groups = true;
    if (!groups && std::sscanf(line.c_str(), "Free blocks: %llu", &value) == 1) f.free_blocks = value;
    if (!groups && std::sscanf(line.c_str(), "Block size: %llu", &value) == 1) block_bytes = value;
    if (!groups && std::sscanf(line.c_str(), "Cluster size: %llu", &value) == 1) cluster_bytes = value;
    if (!groups && std::sscanf(line.c_str(), "Free inodes: %llu", &value) == 1) f.free_inodes = value;
    const std::size_t at = line.find_first_not_of(' ');
    if (groups && at != std::string::npos && (line.compare(at, 12, "Free blocks:") == 0 || line.compare(at, 12, "Free inodes:") == 0)) {
      std::string s = line.substr(at);
      while (!s.empty() && s.back() == ' ') s.pop_back();
      f.lists.push_back(s);
    }
  }
  if (cluster_bytes > block_bytes) f.free_blocks *= cluster_bytes / block_bytes;  // printed in clusters
  return f;
}

std::string sha256_of_lists(const std::vector<std::string>& lists) {
  std::string all;
  for (const std::string& l : lists) all += (all.empty() ? "" : "\n") + l;
  return sha256_hex(all.data(), all.size());
}

std::vector<std::string> compare_files(const std::string& image, const json& files) {
  std::vector<std::string> differences;
  Reader r(image);
  for (const json& want : files) compare_one(r, want, differences);
  return differences;
}

namespace {

struct Walk {
  ext2_filsys fs;
  std::string prefix;
  std::vector<std::string>* out;
};

int walk_entry(ext2_ino_t, int, ext2_dir_entry* e, int, int, char*, void* data) {
  auto* w = static_cast<Walk*>(data);
  const std::string name(e->name, static_cast<std::size_t>(ext2fs_dirent_name_len(e)));
  if (name == "." || name == ".." || e->inode == 0 || std::count(w->prefix.begin(), w->prefix.end(), '/') > 64) return 0;
  w->out->push_back(w->prefix + "/" + name);
  if (ext2fs_check_directory(w->fs, e->inode) != 0) return 0;
  Walk deeper{w->fs, w->prefix + "/" + name, w->out};
  ext2fs_dir_iterate2(w->fs, e->inode, 0, nullptr, walk_entry, &deeper);
  return 0;
}

}  // namespace

std::vector<std::string> all_paths(const std::string& image) {
  std::vector<std::string> paths;
  Reader r(image);
  Walk root{r.fs(), "", &paths};
  ext2fs_dir_iterate2(r.fs(), EXT2_ROOT_INO, 0, nullptr, walk_entry, &root);
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace e4::testing_support
