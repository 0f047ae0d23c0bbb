// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/types.h"
#include "base/result.h"

namespace e4::trace {

/// One file system of a recording: what meta.json says of it, and where its
/// states lie. e4replay-recording(5) has the format.
struct RecordedFilesystem {
  std::uint32_t device = 0;              // make_dev(major, minor); 0: not said, take the trace's only device
  std::string device_text;               // "7:40"
  std::string mount_point;
  std::vector<std::string> options;      // as /proc/fs/ext4/DEV/options lists them
  std::map<std::string, std::uint64_t> tunables;  // /sys/fs/ext4/DEV/ at the start: numbers only
  std::optional<bool> rotational;
  std::string start_path;                // start image; empty: none
  std::string end_path;                  // end image; empty: none
  std::string mb_groups_path;            // mb_groups just before umount; empty: none

  [[nodiscard]] bool has_option(std::string_view name) const;
  /// Value of "name=value"; empty if not given.
  [[nodiscard]] std::string option(std::string_view name) const;
};

/// A recording: a directory, or the same put together by hand.
struct Recording {
  std::string name;
  std::string directory;                 // empty: by hand
  std::string trace_path;
  std::string kernel;
  std::string what;                      // a sentence about the workload
  std::uint32_t page_bytes = 4096;
  std::uint32_t possible_cpus = 1;
  std::optional<std::uint32_t> uid;      // who ran the workload; 0 may use the root reserve
  std::uint64_t lost_events = 0;         // by meta.json
  std::optional<std::uint64_t> events_total;
  std::vector<std::string> events_enabled;  // empty: not said
  bool sizes_in_trace = false;           // the recorder wrote size marks (e4replay record)
  std::vector<RecordedFilesystem> filesystems;
};

/// Reads a recording directory. Errors name the file and what is missing.
Result<Recording> open_recording(const std::string& directory);

/// A recording of one file system put together from its parts.
Recording recording_by_hand(const std::string& image, const std::string& trace);

/// Applies "name=value" to every file system of the recording: a tunable
/// (mb_..., reserved_clusters), a mount option (delalloc, nodelalloc, discard,
/// data, stripe, mb_optimize_scan, ...), or cpus, page_size, rotational, uid, device.
Result<void> apply_setting(Recording& recording, std::string_view name_value);

/// Mount options of a recorded file system as the allocator wants them.
/// `has_journal` and `root_blocks` come from the image.
alloc::MountOptions mount_options(const Recording& recording, const RecordedFilesystem& fs, bool has_journal,
                                  Blk root_blocks);
/// Tunables: the kernel's defaults, and what the recording says over them.
alloc::Tunables tunables(const RecordedFilesystem& fs, const alloc::Geometry& geometry,
                         const alloc::MountOptions& mount);

/// "7:40" to a device number; Error (usage).
Result<std::uint32_t> parse_device(std::string_view text);

}  // namespace e4::trace
