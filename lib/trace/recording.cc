// SPDX-License-Identifier: GPL-2.0-only
#include "trace/recording.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "trace/event.h"

namespace e4::trace {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::uintmax_t kMaxMetaBytes = 64U << 20;

template <class T>
bool parse_number(std::string_view text, T& value) {
  const auto [p, e] = std::from_chars(text.data(), text.data() + text.size(), value);
  return e == std::errc() && p == text.data() + text.size() && !text.empty();
}

/// "0-1,4" to 3.
std::uint32_t count_cpus(std::string_view list) {
  std::uint64_t n = 0;
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    const std::string_view part = list.substr(0, comma);
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
    const std::size_t dash = part.find('-');
    std::uint32_t a = 0, b = 0;
    if (dash == std::string_view::npos) {
      if (parse_number(part, a)) ++n;
    } else if (parse_number(part.substr(0, dash), a) && parse_number(part.substr(dash + 1), b) && b >= a) {
      n += std::uint64_t{b} - a + 1;
    }
  }
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(n, 65536));
}

std::string text_of(const json& j, const char* key) {
  const auto it = j.find(key);
  return it != j.end() && it->is_string() ? it->get<std::string>() : std::string();
}

/// A number, written as one or as a string.
std::optional<std::uint64_t> number_of(const json& j) {
  if (j.is_number_unsigned()) return j.get<std::uint64_t>();
  if (j.is_number_integer() && j.get<std::int64_t>() >= 0) return static_cast<std::uint64_t>(j.get<std::int64_t>());
  if (j.is_boolean()) return j.get<bool>() ? 1 : 0;
  std::uint64_t v = 0;
  if (j.is_string() && parse_number(std::string_view(j.get_ref<const std::string&>()), v)) return v;
  return std::nullopt;
}
std::optional<std::uint64_t> number_of(const json& j, const char* key) {
  const auto it = j.find(key);
  return it == j.end() ? std::nullopt : number_of(*it);
}

std::string existing(const fs::path& dir, const std::vector<std::string>& names) {
  std::error_code ec;
  for (const std::string& n : names)
    if (fs::exists(dir / n, ec)) return (dir / n).string();
  return {};
}

std::string find_state(const fs::path& dir, const std::string& stem) {
  return existing(dir, {stem + ".img", stem + ".img.zst", stem + ".qcow2", stem + ".qcow2.zst"});
}

RecordedFilesystem read_filesystem(const json& j) {
  RecordedFilesystem f;
  f.device_text = text_of(j, "device");
  if (auto d = parse_device(f.device_text)) f.device = *d;
  f.mount_point = text_of(j, "mount_point");
  if (const auto it = j.find("proc_fs_options"); it != j.end() && it->is_array())
    for (const json& o : *it)
      if (o.is_string()) f.options.push_back(o.get<std::string>());
  if (const auto it = j.find("tunables_start"); it != j.end() && it->is_object())
    for (const auto& [name, value] : it->items())
      if (const auto n = number_of(value)) f.tunables[name] = *n;
  if (const auto r = number_of(j, "rotational")) f.rotational = *r != 0;
  return f;
}

void read_meta(const json& j, Recording& r) {
  r.name = text_of(j, "name").empty() ? r.name : text_of(j, "name");
  r.kernel = text_of(j, "kernel");
  r.what = text_of(j, "what");
  if (const auto n = number_of(j, "page_size"); n && *n >= 1024 && *n <= (1U << 20)) r.page_bytes = static_cast<std::uint32_t>(*n);
  const std::uint32_t cpus = count_cpus(text_of(j, "cpus_possible"));
  if (cpus != 0) r.possible_cpus = cpus;
  if (const auto it = j.find("workload"); it != j.end() && it->is_object())
    if (const auto u = number_of(*it, "run_as_uid")) r.uid = static_cast<std::uint32_t>(*u);
  if (const auto it = j.find("trace"); it != j.end() && it->is_object()) {
    r.lost_events = number_of(*it, "lost").value_or(0);
    r.events_total = number_of(*it, "events_total");
    r.sizes_in_trace = number_of(*it, "sizes_in_trace").value_or(0) != 0;
    if (const auto e = it->find("events_enabled"); e != it->end() && e->is_array())
      for (const json& name : *e)
        if (name.is_string()) r.events_enabled.push_back(name.get<std::string>());
  }
  if (const auto it = j.find("filesystems"); it != j.end() && it->is_array())
    for (const json& f : *it)
      if (f.is_object()) r.filesystems.push_back(read_filesystem(f));
}

}  // namespace

bool RecordedFilesystem::has_option(std::string_view name) const {
  for (const std::string& o : options)
    if (o == name) return true;
  return false;
}

std::string RecordedFilesystem::option(std::string_view name) const {
  for (const std::string& o : options)
    if (o.size() > name.size() && o.starts_with(name) && o[name.size()] == '=') return o.substr(name.size() + 1);
  return {};
}

Result<std::uint32_t> parse_device(std::string_view text) {
  const std::size_t colon = text.find_first_of(":,");
  std::uint32_t major = 0, minor = 0;
  if (colon == std::string_view::npos || !parse_number(text.substr(0, colon), major) ||
      !parse_number(text.substr(colon + 1), minor) || major > 4095 || minor > 0xFFFFF)
    return make_error(ErrorKind::usage, "'" + std::string(text) + "' is not a device (MAJOR:MINOR)");
  return make_dev(major, minor);
}

Result<Recording> open_recording(const std::string& directory) {
  const fs::path dir(directory);
  std::error_code ec;
  if (!fs::is_directory(dir, ec)) return make_error(ErrorKind::usage, directory + ": not a recording: no such directory");
  const fs::path meta_path = dir / "meta.json";
  const auto bytes = fs::file_size(meta_path, ec);
  if (ec) return make_error(ErrorKind::usage, directory + ": not a recording: no meta.json");
  if (bytes > kMaxMetaBytes) return make_error(ErrorKind::corrupt, meta_path.string() + ": larger than 64 MiB");
  std::ifstream in(meta_path, std::ios::binary);
  const json meta = json::parse(in, nullptr, false);
  if (!meta.is_object()) return make_error(ErrorKind::corrupt, meta_path.string() + ": not a JSON object");

  Recording r;
  r.directory = directory;
  r.name = fs::path(directory).filename().string();
  if (r.name.empty()) r.name = fs::path(directory).parent_path().filename().string();
  try {
    read_meta(meta, r);
  } catch (const json::exception& e) {
    return make_error(ErrorKind::corrupt, meta_path.string() + ": " + e.what());
  }
  r.trace_path = existing(dir, {"trace.dat", "trace.dat.zst", "trace.dat.gz", "trace.txt", "trace.txt.zst", "trace.txt.gz",
                                "trace.tracefs.txt", "trace.tracefs.txt.zst", "trace.tracefs.txt.gz"});
  if (r.trace_path.empty()) return make_error(ErrorKind::usage, directory + ": no trace.dat and no trace.txt");
  if (r.filesystems.empty()) return make_error(ErrorKind::corrupt, meta_path.string() + ": no file system in it");
  for (std::size_t i = 0; i < r.filesystems.size(); ++i) {
    // The second file system's files end in -b, the third's in -c ...
    const std::string suffix = i == 0 ? "" : std::string("-") + static_cast<char>('a' + std::min<std::size_t>(i, 25));
    RecordedFilesystem& f = r.filesystems[i];
    f.start_path = find_state(dir, "start" + suffix);
    f.end_path = find_state(dir, "end" + suffix);
    f.mb_groups_path = existing(dir, {"mb_groups" + suffix + ".txt"});
    if (f.start_path.empty())
      return make_error(ErrorKind::usage, directory + ": no start" + suffix + ".img[.zst] or start" + suffix + ".qcow2[.zst]");
  }
  return r;
}

Recording recording_by_hand(const std::string& image, const std::string& trace) {
  Recording r;
  r.name = trace;
  r.trace_path = trace;
  r.filesystems.emplace_back();
  r.filesystems[0].start_path = image;
  return r;
}

Result<void> apply_setting(Recording& recording, std::string_view name_value) {
  const std::size_t eq = name_value.find('=');
  const std::string name(name_value.substr(0, eq));
  const std::string_view value = eq == std::string_view::npos ? std::string_view() : name_value.substr(eq + 1);
  std::uint64_t n = 0;
  const bool is_number = parse_number(value, n);
  const auto want_number = [&]() -> Result<void> {
    if (!is_number) return make_error(ErrorKind::usage, "--set " + std::string(name_value) + ": a number is wanted");
    return {};
  };
  if (name == "cpus" || name == "possible_cpus") {
    E4_TRY(want_number());
    if (n == 0 || n > 65536) return make_error(ErrorKind::usage, "--set " + std::string(name_value) + ": 1 to 65536 CPUs");
    recording.possible_cpus = static_cast<std::uint32_t>(n);
  } else if (name == "page_size") {
    E4_TRY(want_number());
    if (n < 1024 || n > (1U << 20) || (n & (n - 1)) != 0)
      return make_error(ErrorKind::usage, "--set " + std::string(name_value) + ": a power of two is wanted");
    recording.page_bytes = static_cast<std::uint32_t>(n);
  } else if (name == "uid") {
    E4_TRY(want_number());
    recording.uid = static_cast<std::uint32_t>(n);
  } else if (name == "rotational") {
    E4_TRY(want_number());
    for (RecordedFilesystem& f : recording.filesystems) f.rotational = n != 0;
  } else if (name == "device") {
    const std::uint32_t dev = E4_TRY(parse_device(value));
    for (RecordedFilesystem& f : recording.filesystems) f.device = dev, f.device_text = std::string(value);
  } else if (name.starts_with("mb_") && name != "mb_optimize_scan") {
    E4_TRY(want_number());
    for (RecordedFilesystem& f : recording.filesystems) f.tunables[name] = n;
  } else if (name == "reserved_clusters") {
    E4_TRY(want_number());
    for (RecordedFilesystem& f : recording.filesystems) f.tunables[name] = n;
  } else {
    static constexpr const char* kOptions[] = {"delalloc", "nodelalloc", "discard", "nodiscard", "data", "stripe",
                                               "mb_optimize_scan", "prefetch_block_bitmaps", "no_prefetch_block_bitmaps"};
    bool known = false;
    for (const char* o : kOptions) known = known || name == o;
    if (!known)
      return make_error(ErrorKind::usage, "--set " + name + ": unknown; tunables (mb_..., reserved_clusters), delalloc, nodelalloc, "
                                          "discard, data, stripe, mb_optimize_scan, cpus, page_size, rotational, uid, device");
    for (RecordedFilesystem& f : recording.filesystems) {
      std::erase_if(f.options, [&](const std::string& o) {
        return o == name || o == "no" + name || "no" + o == name || o.starts_with(name + "=");
      });
      f.options.emplace_back(name_value);
    }
  }
  return {};
}

alloc::MountOptions mount_options(const Recording& recording, const RecordedFilesystem& f, bool has_journal,
                                  Blk root_blocks) {
  alloc::MountOptions m;
  m.delalloc = !f.has_option("nodelalloc");
  m.discard = f.has_option("discard");
  m.has_journal = has_journal && !f.has_option("noload") && !f.has_option("norecovery");
  const std::string data = f.option("data");
  if (data == "journal") m.data_mode = alloc::DataMode::journal;
  else if (data == "writeback") m.data_mode = alloc::DataMode::writeback;
  if (data == "journal" && !f.has_option("delalloc")) m.delalloc = false;
  std::uint64_t n = 0;
  if (parse_number(f.option("stripe"), n) && n <= 0xFFFFFFFF) m.stripe_blocks = static_cast<std::uint32_t>(n);
  if (parse_number(f.option("mb_optimize_scan"), n)) m.optimize_scan = n != 0;
  m.rotational = f.rotational.value_or(false);
  m.possible_cpus = recording.possible_cpus;
  m.page_bytes = recording.page_bytes;
  if (const auto it = f.tunables.find("reserved_clusters"); it != f.tunables.end()) m.reserved_clusters = it->second;
  m.root_blocks = root_blocks;
  return m;
}

alloc::Tunables tunables(const RecordedFilesystem& f, const alloc::Geometry& geometry, const alloc::MountOptions& mount) {
  alloc::Tunables t = alloc::Tunables::defaults(geometry, mount);
  const struct {
    const char* name;
    std::uint32_t& to;
  } known[] = {{"mb_max_to_scan", t.mb_max_to_scan},
               {"mb_min_to_scan", t.mb_min_to_scan},
               {"mb_order2_req", t.mb_order2_req},
               {"mb_stream_req", t.mb_stream_req},
               {"mb_group_prealloc", t.mb_group_prealloc},
               {"mb_max_linear_groups", t.mb_max_linear_groups},
               {"mb_best_avail_max_trim_order", t.mb_best_avail_max_trim_order},
               {"mb_prefetch", t.mb_prefetch},
               {"mb_prefetch_limit", t.mb_prefetch_limit}};
  for (const auto& k : known)
    if (const auto it = f.tunables.find(k.name); it != f.tunables.end() && it->second <= 0xFFFFFFFF)
      k.to = static_cast<std::uint32_t>(it->second);
  return t;
}

}  // namespace e4::trace
