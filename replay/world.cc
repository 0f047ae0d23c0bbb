// SPDX-License-Identifier: GPL-2.0-only
#include "replay/world.h"

#include <algorithm>

namespace e4::replay {

Result<trace::Recording> load_recording(const RecordingOptions& o) {
  trace::Recording r;
  if (!o.image.empty()) {
    r = trace::recording_by_hand(o.image, o.trace.empty() ? o.recording : o.trace);
  } else {
    r = E4_TRY(trace::open_recording(o.recording));
    if (!o.trace.empty()) r.trace_path = o.trace;
  }
  if (!o.end_image.empty()) r.filesystems.front().end_path = o.end_image;
  if (!o.mb_groups.empty()) r.filesystems.front().mb_groups_path = o.mb_groups;
  if (!o.image.empty() && !o.devices.empty()) {
    r.filesystems.front().device = E4_TRY(trace::parse_device(o.devices.front()));
    r.filesystems.front().device_text = o.devices.front();
  } else if (!o.devices.empty()) {
    std::vector<std::uint32_t> wanted;
    for (const std::string& d : o.devices) wanted.push_back(E4_TRY(trace::parse_device(d)));
    std::erase_if(r.filesystems, [&](const trace::RecordedFilesystem& f) {
      return std::find(wanted.begin(), wanted.end(), f.device) == wanted.end();
    });
    if (r.filesystems.empty()) return make_error(ErrorKind::usage, r.name + ": no such device in the recording");
  }
  for (const std::string& s : o.set) E4_TRY(trace::apply_setting(r, s));
  return r;
}

Result<void> feed(trace::Player& player, const trace::Recording& recording, trace::Item& item) {
  const std::uint64_t number = item.event.number;
  auto r = player.feed(item);
  if (r) return {};
  return Error(std::move(r).error()).context(recording.trace_path + ": event " + std::to_string(number));
}

std::string device_name(std::uint32_t device) {
  return std::to_string(trace::dev_major(device)) + ":" + std::to_string(trace::dev_minor(device));
}

Result<void> expect_events(const trace::Recording& recording, const trace::Reader& reader, bool any) {
  if (any) return {};
  const std::string path = recording.trace_path == "-" ? "standard input" : recording.trace_path;
  if (reader.events_read() == 0) return make_error(ErrorKind::corrupt, path + ": no trace event in it");
  constexpr std::size_t kMaxNamed = 8;
  std::string others, asked;
  std::size_t n = 0;
  for (const trace::Note& note : reader.notes().list())
    if (note.trouble == trace::Trouble::other_device && ++n <= kMaxNamed) others += (others.empty() ? "" : ", ") + note.what;
  if (others.empty()) return {};  // marks, or kinds a replay has no use for
  for (const trace::RecordedFilesystem& f : recording.filesystems) asked += (asked.empty() ? "" : ", ") + f.device_text;
  return make_error(ErrorKind::usage, path + ": no event of device " + asked + ", but of " + others);
}

Result<alloc::Policy> make_policy(const std::vector<std::string>& words) {
  alloc::Policy p;
  for (const std::string& w : words) E4_TRY(p.set(w));
  return p;
}

Result<World> load_world(const trace::Recording& recording, const trace::RecordedFilesystem& fs,
                         const alloc::Policy& policy) {
  World w;
  w.recorded = fs;
  w.start = E4_TRY(ImageState::open(fs.start_path));
  const alloc::MountOptions mount =
      trace::mount_options(recording, fs, w.start->has_journal(), w.start->root_blocks());
  const alloc::Tunables t = trace::tunables(fs, w.start->geometry(), mount);
  w.allocator = E4_TRY(alloc::Allocator::create(w.start->geometry(), mount, t, policy, *w.start));
  return w;
}

trace::PlayerFacts player_facts(const trace::Recording& recording, World& world, const trace::Reader& reader) {
  trace::PlayerFacts f;
  f.geometry = world.start->geometry();
  f.mb_stream_req = world.allocator->tunables().mb_stream_req;
  f.mb_group_prealloc = world.allocator->tunables().mb_group_prealloc;
  f.user_privileged = recording.uid.value_or(0) == 0;
  f.new_inodes_extents = world.start->extents();
  f.discard_ends = std::find(recording.events_enabled.begin(), recording.events_enabled.end(), "workqueue_execute_end") !=
                   recording.events_enabled.end();
  ImageState* start = world.start.get();
  f.inodes = [start](Ino ino) { return start->inode(ino); };
  f.kernel_thread = [&reader](std::int32_t pid) {
    const std::string name = reader.thread_name(pid);
    return name.starts_with("kworker") || name.starts_with("jbd2") || name.starts_with("ext4lazyinit") ||
           name.starts_with("kswapd");
  };
  return f;
}

}  // namespace e4::replay
