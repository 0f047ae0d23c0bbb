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

/// What the image holds at a path, in the words of oracle.json.
json describe_one(Reader& r, const std::string& path) {
  json j = {{"path", path}};
  ext2_ino_t ino = 0;
  if (ext2fs_namei(r.fs(), EXT2_ROOT_INO, EXT2_ROOT_INO, path.c_str(), &ino) != 0) return {{"path", path}, {"missing", true}};
  ext2_inode_large inode = {};
  if (ext2fs_read_inode_full(r.fs(), ino, reinterpret_cast<ext2_inode*>(&inode), sizeof inode) != 0)
    return {{"path", path}, {"unreadable", true}};
  const auto* base = reinterpret_cast<const ext2_inode*>(&inode);
  const std::uint64_t size = EXT2_I_SIZE(base);
  j["ino"] = ino;
  j["mode"] = fmt::format("0o{:o}", inode.i_mode);
  j["nlink"] = inode.i_links_count;
  j["uid"] = inode_uid(*base);
  j["gid"] = inode_gid(*base);
  j["size"] = size;
  // stat() on a live kernel counts data kept in the inode as if it had sectors.
  j["sectors"] = ext2fs_get_stat_i_blocks(r.fs(), const_cast<ext2_inode*>(base)) +
                 ((inode.i_flags & EXT4_INLINE_DATA_FL) != 0 && S_ISREG(inode.i_mode) ? (size + 511) / 512 : 0);
  if (S_ISREG(inode.i_mode)) {
    const std::string data = r.content(ino, size);
    j["sha256"] = sha256_hex(data.data(), data.size());
  }
  if (S_ISLNK(inode.i_mode))
    j["target"] = ext2fs_is_fast_symlink(const_cast<ext2_inode*>(base)) != 0 ? std::string(reinterpret_cast<const char*>(inode.i_block), size)
                                                                            : r.content(ino, size);
  j["xattr_sha256"] = r.attributes(ino);
  return j;
}

void compare_one(Reader& r, const json& want, std::vector<std::string>& differences) {
  const json have = describe_one(r, want["path"]);
  for (const auto& [key, value] : want.items()) {
    if (key == "rdev") continue;  // recorded as the kernel numbers devices, not as the inode stores them
    if (!have.contains(key) || have[key] != value)
      differences.push_back(fmt::format("{}: {} is {} instead of {}", want["path"].get<std::string>(), key,
                                        have.contains(key) ? have[key].dump() : "missing", value.dump()));
  }
  if (!want.contains("xattr_sha256") && !have.value("xattr_sha256", json::object()).empty())
    differences.push_back(want["path"].get<std::string>() + ": has attributes");
}

}  // namespace

std::string corpus_folder() {
  const char* set = std::getenv("E4_CORPUS");
  const std::string folder = set != nullptr ? set : "../shared/corpus";
  return std::filesystem::is_directory(folder) ? folder : "";
}

FreeSpace free_space(const std::string& image) {
  FreeSpace f;
  const ProcessRun r = run_tool({"dumpe2fs", image});
  std::istringstream in(r.output);
  bool groups = false;
  unsigned long long value = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("Group ", 0) == 0) groups = true;
    if (!groups && std::sscanf(line.c_str(), "Free blocks: %llu", &value) == 1) f.free_blocks = value;
    if (!groups && std::sscanf(line.c_str(), "Free inodes: %llu", &value) == 1) f.free_inodes = value;
    const std::size_t at = line.find_first_not_of(' ');
    if (groups && at != std::string::npos && (line.compare(at, 12, "Free blocks:") == 0 || line.compare(at, 12, "Free inodes:") == 0)) {
      std::string s = line.substr(at);
      while (!s.empty() && s.back() == ' ') s.pop_back();
      f.lists.push_back(s);
    }
  }
  return f;
}

std::string sha256_of_lists(const std::vector<std::string>& lists) {
  std::string all;
  for (const std::string& l : lists) all += (all.empty() ? "" : "\n") + l;
  return sha256_hex(all.data(), all.size());
}

json describe_files(const std::string& image, const std::vector<std::string>& paths) {
  Reader r(image);
  json files = json::array();
  for (const std::string& p : paths) files.push_back(describe_one(r, p));
  return files;
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
