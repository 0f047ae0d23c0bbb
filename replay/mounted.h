// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace e4::replay {

/// A mounted ext4 file system as the kernel describes it.
struct Mounted {
  std::string device;                  // /dev/loop3
  std::string mount_point;
  std::string options;                 // of /proc/mounts, for mounting it again
  std::string proc_mounts;             // the line
  std::uint32_t major = 0, minor = 0;
  std::string name;                    // "loop3": its folder in /proc/fs/ext4 and /sys/fs/ext4
};

/// The mounted ext4 that `target` names: a mount point, or a device. Error (usage) if there is none.
Result<Mounted> find_mounted(const std::string& target);

/// /proc/fs/ext4/DEV/options, a line each.
std::vector<std::string> proc_options(const Mounted& m);
/// Every readable number or word of /sys/fs/ext4/DEV/.
std::map<std::string, std::string> sysfs_tunables(const Mounted& m);
/// Is the device rotational, by /sys/dev/block?
bool is_rotational(const Mounted& m);
std::string read_line(const std::string& path);  // empty if it cannot be read

/// Runs a program and waits: its exit status (128 + signal when killed). Error if it cannot be started. `directory`:
/// where it runs, empty for here.
Result<int> run_program(const std::vector<std::string>& argv, const std::string& directory = {});

}  // namespace e4::replay
