// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace e4::mkfs {

/// The command line, word for word: what the user asked for, nothing decided.
/// plan() turns it into a layout and says what cannot be.
struct Wishes {
  std::string image;
  std::optional<std::string> size;             // SIZE
  std::string type = "ext4";                   // -t
  std::vector<std::string> usage;              // -T
  std::optional<std::int64_t> block_bytes;     // -b; negative: at least this
  std::optional<std::string> cluster_bytes;    // -C
  std::optional<std::uint64_t> group_blocks;   // -g
  std::optional<std::uint64_t> flex_groups;    // -G
  std::optional<std::string> inode_ratio;      // -i, bytes per inode
  std::optional<std::uint64_t> inode_bytes;    // -I
  std::optional<std::uint64_t> inodes;         // -N
  std::optional<double> reserved_percent;      // -m
  std::vector<std::string> features;           // -O, in order
  std::vector<std::string> readers;            // --for
  std::vector<std::string> extended;           // -E, in order
  std::vector<std::string> journal;            // -J, in order
  bool want_journal = false;                   // -j
  std::optional<std::string> label;            // -L
  std::optional<std::string> last_mounted;     // -M
  std::optional<std::string> uuid;             // -U
  std::optional<std::string> errors;           // -e
  std::uint32_t revision = 1;                  // -r

  int force = 0;             // -F, once or twice
  bool dry_run = false;      // -n
  bool quiet = false;        // -q
  bool verbose = false;      // -v
  bool json = false;         // --json
  bool direct = false;       // -D
  std::optional<std::string> undo;  // -z
};

}  // namespace e4::mkfs
