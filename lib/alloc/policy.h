// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace e4::alloc {

/// How the allocator and its neighbours run in parallel: one switch for each
/// scalability change ext4 went through. Chosen once, when a file system is
/// loaded. The default is linux-6.18.
struct Policy {
  enum class BusyGroups : std::uint8_t { wait, skip };
  enum class StreamGoal : std::uint8_t { locked, relaxed, multi };
  enum class Scan : std::uint8_t { by_mount, linear, optimized };
  enum class OrderSets : std::uint8_t { list, ordered };
  enum class FreedExtents : std::uint8_t { merge_locked, merge_split };
  enum class ReadBit : std::uint8_t { test_and_set, test_first };
  enum class GroupLayout : std::uint8_t { packed, split };
  enum class OrphanTracking : std::uint8_t { list, file_locked, file_lockless };
  enum class InodeGeneration : std::uint8_t { locked, atomic, random };
  enum class LazytimeNeighbours : std::uint8_t { off, lock, trylock, rcu };

  BusyGroups busy_groups = BusyGroups::skip;
  StreamGoal stream_goal = StreamGoal::multi;
  Scan scan = Scan::by_mount;
  OrderSets order_sets = OrderSets::ordered;
  FreedExtents freed_extents = FreedExtents::merge_split;
  ReadBit read_bit = ReadBit::test_and_set;
  GroupLayout group_layout = GroupLayout::packed;
  OrphanTracking orphan_tracking = OrphanTracking::file_lockless;
  InodeGeneration inode_generation = InodeGeneration::random;
  LazytimeNeighbours lazytime_neighbours = LazytimeNeighbours::rcu;

  friend bool operator==(const Policy&, const Policy&) = default;

  /// Applies "name=value" ("busy-groups=wait") or "preset=linux-6.15". Error (usage) names the choices.
  Result<void> set(std::string_view name_value);
  /// "linux-6.18" ... ; Error (usage) if there is no such preset.
  static Result<Policy> preset(std::string_view name);
  /// The current value of a policy by name, empty if there is no such policy.
  [[nodiscard]] std::string_view get(std::string_view name) const;
};

/// For lists: every policy, every value, and the release that brought it.
struct PolicyValue {
  const char* name;
  const char* since;   // "linux-6.17"; "proposed" if never merged; "before 5.15" if older than the oldest preset
  const char* what;    // one line
};
struct PolicyInfo {
  const char* name;
  const char* what;
  std::vector<PolicyValue> values;
};
const std::vector<PolicyInfo>& policy_list();

struct PresetInfo {
  const char* name;
  const char* source;  // where its facts come from
};
const std::vector<PresetInfo>& preset_list();

}  // namespace e4::alloc
