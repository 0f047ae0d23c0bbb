// SPDX-License-Identifier: GPL-2.0-only
#include <ext2fs/ext2_fs.h>
#include <fmt/core.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/endian.h"
#include "debug/commands.h"
#include "debug/orphan_text.h"
#include "image/features.h"

namespace e4::debug {
namespace {

using nlohmann::ordered_json;

std::string text_of(const std::byte* at, std::size_t bytes) {
  const auto* s = reinterpret_cast<const char*>(at);
  return {s, ::strnlen(s, bytes)};
}

std::string uuid_text(const std::byte* u) {
  std::string s;
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) s += '-';
    s += fmt::format("{:02x}", std::to_integer<unsigned>(u[i]));
  }
  return s;
}

std::vector<std::string> state_names(std::uint16_t state) {
  std::vector<std::string> names;
  names.emplace_back((state & 1) != 0 ? "clean" : "not clean");
  if ((state & 2) != 0) names.emplace_back("with errors");
  if ((state & 4) != 0) names.emplace_back("orphan recovery");
  return names;
}

/// Every field once; text and JSON are views of it.
ordered_json super_document(const std::byte* s, const Session& session, const Layer& layer) {
  const auto u32 = [s](std::size_t at) { return load<le32>(s, at); };
  const auto u16 = [s](std::size_t at) { return load<le16>(s, at); };
  const bool wide = (u32(0x60) & EXT4_FEATURE_INCOMPAT_64BIT) != 0;
  const auto wide32 = [&](std::size_t low, std::size_t high) {
    return std::uint64_t{u32(low)} | (wide ? std::uint64_t{u32(high)} << 32 : 0);
  };
  const image::FeatureBits bits{u32(0x5C), u32(0x60), u32(0x64)};
  return {{"schema", "e4progs-super"},
          {"schema_version", 1},
          {"tool", "e4debug"},
          {"tool_version", E4_VERSION},
          {"image", session.options().image},
          {"volume_name", text_of(s + 0x78, 16)},
          {"uuid", uuid_text(s + 0x68)},
          {"revision", u32(0x4C)},
          {"features", image::feature_names(bits)},
          {"unknown_features", session.unknown_features()},
          {"state", state_names(u16(0x3A))},
          {"inode_count", u32(0x00)},
          {"block_count", wide32(0x04, 0x150)},
          {"reserved_block_count", wide32(0x08, 0x154)},
          {"free_blocks", wide32(0x0C, 0x158)},
          {"free_inodes", u32(0x10)},
          {"first_block", u32(0x14)},
          {"block_size", std::uint32_t{1024} << u32(0x18)},
          {"cluster_size", std::uint64_t{1024} << u32(0x1C)},
          {"group_descriptor_size", wide ? u16(0xFE) : 32},
          {"blocks_per_group", u32(0x20)},
          {"inodes_per_group", u32(0x28)},
          {"inode_size", u16(0x58)},
          {"first_inode", u32(0x54)},
          {"group_count", layer.volume->geo().groups_count},
          {"journal_inode", u32(0xE0)},
          {"journal_needs_recovery", layer.journal.needs_recovery},
          {"journal_applied", layer.journal.applied},
          {"orphan_file_inode", u32(0x280)},
          {"first_orphan_inode", u32(0xE8)},
          {"orphan_present", layer.volume->orphan_present()},
          {"mtime", u32(0x2C)},
          {"wtime", u32(0x30)},
          {"lastcheck", u32(0x40)},
          {"mount_count", u16(0x34)},
          {"error_count", u32(0x194)},
          {"checksum_seed", hex32(layer.volume->geo().csum_seed)},
          {"checksum", hex32(u32(0x3FC))}};
}

}  // namespace

Result<void> cmd_show(Session& session, const Words& words) {
  Layer layer = E4_TRY(session.layer(words.journal));
  std::byte raw[1024];
  E4_TRY(layer.overlay->read(1024, raw));
  const ordered_json document = super_document(raw, session, layer);
  std::ostream& out = session.io().out;
  if (words.json) {
    out << document.dump(2, ' ', false, ordered_json::error_handler_t::replace) << '\n';
    return {};
  }
  for (const auto& [key, value] : document.items()) {
    if (key == "schema" || key == "schema_version" || key == "tool" || key == "tool_version") continue;
    std::string name = key;
    for (char& c : name)
      if (c == '_') c = ' ';
    std::string text;
    if (value.is_array())
      for (const auto& v : value) text += (text.empty() ? "" : " ") + v.get<std::string>();
    else
      text = value.is_string() ? value.get<std::string>() : value.dump();
    out << fmt::format("{:<24}{}\n", name + ":", text);
  }
  return {};
}

Result<void> cmd_supported_features(Session& session, const Words& words) {
  nlohmann::json list = nlohmann::json::array();
  std::ostream& out = session.io().out;
  for (const image::Feature& f : image::known_features()) {
    const char* word = f.word == image::FeatureWord::compat     ? "compat"
                       : f.word == image::FeatureWord::incompat ? "incompat"
                                                                : "ro_compat";
    if (words.json)
      list.push_back({{"name", f.name}, {"class", word}, {"mask", f.mask}, {"meaning", f.meaning},
                      {"linux_since", f.linux_since}, {"e2fsprogs_since", f.e2fsprogs_since}});
    else
      out << fmt::format("{:<20} {:<9} {:<10} {}\n", f.name, word, hex32(f.mask), f.meaning);
  }
  if (words.json)
    out << nlohmann::json{{"schema", "e4progs-features"}, {"schema_version", 1}, {"tool", "e4debug"},
                          {"tool_version", E4_VERSION}, {"features", list}}
               .dump(2)
        << '\n';
  return {};
}

}  // namespace e4::debug
