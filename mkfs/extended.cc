// SPDX-License-Identifier: GPL-2.0-only
#include "mkfs/extended.h"

#include <charconv>
#include <functional>

#include "mkfs/size.h"

namespace e4::mkfs {

namespace {

struct Word {
  std::string_view name;
  std::string_view value;  // form of the value, empty when it takes none
  std::function<Result<void>(Extended&, const std::string&)> take;
};

Result<bool> parse_switch(const std::string& v) {
  if (v.empty() || v == "1") return true;
  if (v == "0") return false;
  return make_error(ErrorKind::usage, "'" + v + "' is not 0 or 1");
}

Result<std::uint32_t> parse_u32(const std::string& v, std::uint32_t lo, std::uint32_t hi) {
  return static_cast<std::uint32_t>(E4_TRY(parse_number(v, lo, hi)));
}

Result<void> take_root_owner(Extended& e, const std::string& v) {
  const std::size_t colon = v.find(':');
  if (colon == std::string::npos) return make_error(ErrorKind::usage, "the owner is UID:GID");
  e.root_uid = E4_TRY(parse_u32(v.substr(0, colon), 0, UINT32_MAX));
  e.root_gid = E4_TRY(parse_u32(v.substr(colon + 1), 0, UINT32_MAX));
  return {};
}

Result<void> take_permissions(Extended& e, const std::string& v) {
  std::uint32_t mode = 0;
  const auto [end, error] = std::from_chars(v.data(), v.data() + v.size(), mode, 8);
  if (v.empty() || error != std::errc{} || end != v.data() + v.size() || mode > 07777)
    return make_error(ErrorKind::usage, "'" + v + "' is not an octal mode");
  e.root_perms = mode;
  return {};
}

#define E4_WORD [](Extended & e, [[maybe_unused]] const std::string& v) -> Result<void>
const std::vector<Word>& words_table() {
  static const std::vector<Word> table = {
      {"orphan_file_size", "SIZE", E4_WORD { e.orphan_file_size = v; return {}; }},
      {"hash_seed", "UUID",
       E4_WORD {
         e.hash_seed = parse_uuid(v);
         if (!e.hash_seed) return make_error(ErrorKind::usage, "'" + v + "' is not a UUID");
         return {};
       }},
      {"lazy_itable_init", "[0|1]", E4_WORD { e.lazy_itable_init = E4_TRY(parse_switch(v)); return {}; }},
      {"lazy_journal_init", "[0|1]", E4_WORD { e.lazy_journal_init = E4_TRY(parse_switch(v)); return {}; }},
      {"assume_storage_prezeroed", "[0|1]", E4_WORD { e.assume_zeroed = E4_TRY(parse_switch(v)); return {}; }},
      {"discard", "", E4_WORD { e.discard = true; return {}; }},
      {"nodiscard", "", E4_WORD { e.discard = false; return {}; }},
      {"root_owner", "[UID:GID]", E4_WORD { return take_root_owner(e, v); }},
      {"root_perms", "OCTAL", E4_WORD { return take_permissions(e, v); }},
      {"stride", "BLOCKS", E4_WORD { e.stride_blocks = E4_TRY(parse_u32(v, 1, UINT16_MAX)); return {}; }},
      {"stripe_width", "BLOCKS", E4_WORD { e.stripe_blocks = E4_TRY(parse_u32(v, 1, UINT32_MAX)); return {}; }},
      {"resize", "SIZE", E4_WORD { e.resize = v; return {}; }},
      {"offset", "BYTES", E4_WORD { e.offset_bytes = E4_TRY(parse_bytes(v, 1)); return {}; }},
      {"num_backup_sb", "0|1|2", E4_WORD { e.num_backup_sb = E4_TRY(parse_u32(v, 0, 2)); return {}; }},
      {"packed_meta_blocks", "[0|1]", E4_WORD { e.packed_meta_blocks = E4_TRY(parse_switch(v)); return {}; }},
      {"test_fs", "", E4_WORD { e.test_fs = true; return {}; }},
      {"mmp_update_interval", "SECONDS",
       E4_WORD { e.mmp_interval_seconds = E4_TRY(parse_u32(v, 0, 300)); return {}; }},
      {"encoding", "utf8|utf8-12.1", E4_WORD { e.encoding = v; return {}; }},
      {"encoding_flags", "strict|nostrict",
       E4_WORD {
         if (v != "strict" && v != "nostrict") return make_error(ErrorKind::usage, "strict or nostrict");
         e.encoding_strict = v == "strict";
         return {};
       }},
  };
  return table;
}
#undef E4_WORD

/// "a_b=1" and "a-b=1" are the same word, as mke2fs has it for stripe-width.
std::pair<std::string, std::string> split(const std::string& word) {
  const std::size_t equals = word.find('=');
  std::string name = word.substr(0, equals);
  for (char& c : name)
    if (c == '-') c = '_';
  return {name, equals == std::string::npos ? "" : word.substr(equals + 1)};
}

}  // namespace

std::optional<Uuid> parse_uuid(std::string_view text) {
  if (text.size() != 36) return {};
  Uuid uuid{};
  std::size_t byte = 0;
  for (std::size_t i = 0; i < text.size();) {
    if (i == 8 || i == 13 || i == 18 || i == 23) {
      if (text[i++] != '-') return {};
      continue;
    }
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + i + 2, uuid[byte], 16);
    if (error != std::errc{} || end != text.data() + i + 2) return {};
    ++byte;
    i += 2;
  }
  return uuid;
}

std::string format_uuid(const Uuid& uuid) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[uuid[i] >> 4];
    text += kDigits[uuid[i] & 15];
  }
  return text;
}

std::vector<std::string> extended_words() {
  std::vector<std::string> all;
  for (const Word& w : words_table())
    all.push_back(std::string(w.name) + (w.value.empty() ? "" : w.value[0] == '[' ? "[=" + std::string(w.value.substr(1))
                                                                                  : "=" + std::string(w.value)));
  return all;
}

Result<Extended> parse_extended(const std::vector<std::string>& words, std::uint32_t own_uid, std::uint32_t own_gid) {
  Extended e;
  for (const std::string& word : words) {
    if (word.empty()) continue;
    const auto [name, value] = split(word);
    const Word* found = nullptr;
    for (const Word& w : words_table())
      if (w.name == name) found = &w;
    if (found == nullptr) {
      std::string known;
      for (const std::string& k : extended_words()) known += "\n\t" + k;
      return make_error(ErrorKind::usage, "unknown extended option '" + word + "'; the known ones are:" + known);
    }
    const bool bare = word.find('=') == std::string::npos;
    if (!bare && found->value.empty())
      return make_error(ErrorKind::usage, "extended option '" + word + "': takes no value");
    if (bare && !found->value.empty() && found->value[0] != '[')
      return make_error(ErrorKind::usage,
                        "extended option '" + word + "' needs a value: " + name + "=" + std::string(found->value));
    if (bare && name == "root_owner") {  // without a value: whoever runs this
      e.root_uid = own_uid;
      e.root_gid = own_gid;
      continue;
    }
    if (auto r = found->take(e, value); !r) return Error(std::move(r).error()).context("extended option '" + word + "'");
  }
  return e;
}

Result<JournalWishes> parse_journal(const std::vector<std::string>& words) {
  JournalWishes j;
  for (const std::string& word : words) {
    if (word.empty()) continue;
    const auto [name, value] = split(word);
    const std::string what = "journal option '" + word + "'";
    Result<void> taken = [&, n = name, v = value]() -> Result<void> {
      if (n == "size") {
        j.megabytes = E4_TRY(parse_number(v, 0, 1U << 20));
      } else if (n == "fast_commit_size") {
        j.fast_commit_kilobytes = E4_TRY(parse_number(v, 0, 1U << 30));
      } else if (n == "location") {
        j.location = v;
      } else if (n == "device" || n == "v1_superblock") {
        return make_error(ErrorKind::usage, "not supported: the journal is an inode of the file system");
      } else {
        return make_error(ErrorKind::usage,
                          "unknown; the known ones are size=MEGABYTES, fast_commit_size=KILOBYTES, location=BLOCK");
      }
      return {};
    }();
    if (!taken) return Error(std::move(taken).error()).context(what);
  }
  return j;
}

}  // namespace e4::mkfs
