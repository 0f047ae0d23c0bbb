// SPDX-License-Identifier: GPL-2.0-only
#include "orphan/names.h"

#include <algorithm>
#include <cstring>

#include "orphan/mapping.h"
#include "orphan/xattr.h"

namespace e4::orphan {
namespace {

constexpr Ino kRootIno = 2;
constexpr std::uint32_t kEntryHead = 8;
constexpr int kParentsMax = 1024;

using Visit = std::function<bool(const DirEntry&)>;

/// rec_len as stored: 64 KiB does not fit 16 bits and is written as 65535 or 0.
std::uint32_t record_length(std::uint16_t stored, std::size_t area) {
  if (area >= 65536 && (stored == 65535 || stored == 0)) return 65536;
  return area >= 65536 ? (stored & 65532U) | (stored & 3U) << 16 : stored;
}

/// Entries of one block or inline area. False: the visitor asked to stop.
bool visit_area(std::span<const std::byte> area, const Visit& visit, std::string& problem) {
  std::size_t at = 0;
  while (at + kEntryHead <= area.size()) {
    const Ino ino = load<le32>(area.data(), at);
    const std::uint32_t length = record_length(load<le16>(area.data(), at + 4), area.size());
    const auto name_len = std::to_integer<std::uint32_t>(area[at + 6]);
    if (length < kEntryHead || length % 4 != 0 || length > area.size() - at || (ino != 0 && name_len + kEntryHead > length)) {
      problem = "a directory entry is malformed";
      return true;
    }
    if (ino != 0 && name_len != 0) {
      const std::string_view name(reinterpret_cast<const char*>(area.data()) + at + kEntryHead, name_len);
      if (!visit({ino, name})) return false;
    }
    at += length;
  }
  return true;
}

/// Inline directory: the parent's number, entries to byte 60, then the rest in system.data.
void visit_inline(Ino directory, std::span<const std::byte> raw, const Visit& visit, std::string& problem) {
  const InodeView inode(raw);
  const auto i_block = inode.i_block();
  if (!visit({directory, "."}) || !visit({load<le32>(i_block.data(), 0), ".."})) return;
  if (!visit_area(i_block.subspan(4), visit, problem)) return;
  std::vector<Attribute> attributes;
  if (!inode_attributes(inode, attributes)) {
    problem = "attributes in the inode are malformed";
    return;
  }
  if (const Attribute* data = find_inline_data(attributes); data != nullptr && data->value_bytes > 0)
    visit_area(raw.subspan(data->value_offset, data->value_bytes), visit, problem);
}

}  // namespace

Result<void> for_each_entry(Volume& volume, Ino directory, const Visit& visit, std::string& problem) {
  const auto view = E4_TRY(InodeTable(volume).view(directory));
  const std::vector<std::byte> raw(view.begin(), view.end());
  const InodeView inode(raw);
  if (inode.has_inline_data()) {
    visit_inline(directory, raw, visit, problem);
    return {};
  }
  Mapping mapping;
  E4_TRY(walk_mapping(volume, directory, inode, mapping));
  if (!mapping.ok()) problem = mapping.problem;
  std::vector<std::byte> block(volume.geo().block_bytes);
  for (const Run& run : mapping.runs)
    for (std::uint32_t i = 0; i < run.blocks; ++i) {
      const auto data = E4_TRY(volume.overlay().view(run.physical + i));
      std::memcpy(block.data(), data.data(), block.size());
      if (!visit_area(block, visit, problem)) return {};
    }
  return {};
}

Result<DirContent> look_into_directory(Volume& volume, Ino directory) {
  DirContent content;
  E4_TRY(for_each_entry(
      volume, directory,
      [&](const DirEntry& e) {
        if (e.name == "." || e.name == "..") return true;
        content.first_name = std::string(e.name);
        content.first_ino = e.ino;
        return false;
      },
      content.problem));
  return content;
}

Result<NameMap> find_names(Volume& volume, const std::vector<Ino>& directories, const InodeSet& wanted) {
  NameMap names;
  for (const Ino directory : directories) {
    std::string problem;
    E4_TRY(for_each_entry(
        volume, directory,
        [&](const DirEntry& e) {
          if (wanted.contains(e.ino) && e.name != "." && e.name != "..")
            names[e.ino].push_back({directory, std::string(e.name)});
          return true;
        },
        problem));
  }
  return names;
}

namespace {

class PathFinder {
 public:
  explicit PathFinder(Volume& volume) : volume_(volume) {}

  /// Path of a directory, ending in '/'.
  Result<std::string> directory(Ino ino) {
    std::string tail;
    for (int i = 0; i < kParentsMax; ++i) {
      if (ino == kRootIno) return "/" + tail;
      if (auto it = known_.find(ino); it != known_.end()) return it->second + tail;
      const FoundName up = E4_TRY(parent(ino));
      if (up.directory == 0) break;
      tail.insert(0, up.name + "/");
      ino = up.directory;
    }
    return "<" + std::to_string(ino) + ">/" + tail;
  }

  Result<std::string> remember(Ino ino) {
    std::string path = E4_TRY(directory(ino));
    known_.emplace(ino, path);
    return path;
  }

 private:
  /// Where ".." of a directory leads, and its name there; directory 0 when that cannot be told.
  Result<FoundName> parent(Ino ino) {
    FoundName up;
    std::string problem;
    Ino above = 0;
    E4_TRY(for_each_entry(
        volume_, ino,
        [&](const DirEntry& e) {
          if (e.name == "..") above = e.ino;
          return above == 0;
        },
        problem));
    if (above == 0 || above > volume_.geo().inodes_count || above == ino) return up;
    {
      const auto raw = E4_TRY(InodeTable(volume_).view(above));
      if (InodeView(raw).type() != kModeDir) return up;
    }
    E4_TRY(for_each_entry(
        volume_, above,
        [&](const DirEntry& e) {
          if (e.ino != ino || e.name == "." || e.name == "..") return true;
          up = {above, std::string(e.name)};
          return false;
        },
        problem));
    return up;
  }

  Volume& volume_;
  std::unordered_map<Ino, std::string> known_;
};

}  // namespace

Result<PathMap> resolve_paths(Volume& volume, const NameMap& names) {
  PathMap paths;
  PathFinder finder(volume);
  for (const auto& [ino, found] : names) {
    auto& out = paths[ino];
    for (const FoundName& f : found) out.push_back(E4_TRY(finder.remember(f.directory)) + f.name);
    std::sort(out.begin(), out.end());
  }
  return paths;
}

}  // namespace e4::orphan
