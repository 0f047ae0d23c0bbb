// SPDX-License-Identifier: GPL-2.0-only
#include "alloc/policy.h"

#include <algorithm>

namespace e4::alloc {

namespace {

/// One row: how a policy's name reaches its field.
struct Row {
  PolicyInfo info;
  std::uint8_t (*get)(const Policy&);
  void (*set)(Policy&, std::uint8_t);
};

template <auto kField>
Row row(const char* name, const char* what, std::vector<PolicyValue> values) {
  return {{name, what, std::move(values)},
          [](const Policy& p) { return static_cast<std::uint8_t>(p.*kField); },
          [](Policy& p, std::uint8_t v) { p.*kField = static_cast<std::remove_reference_t<decltype(p.*kField)>>(v); }};
}

/// Values in the order of their enumerators.
const std::vector<Row>& rows() {
  static const std::vector<Row> kRows = {
      row<&Policy::busy_groups>("busy-groups", "a group whose lock is held by somebody else",
                                {{"wait", "before linux-5.15", "wait for the lock of every group"},
                                 {"skip", "linux-6.17", "look, then try the lock; wait only in the last criterion"}}),
      row<&Policy::stream_goal>("stream-goal", "where large files went last",
                                {{"locked", "before linux-5.15", "one goal under the lock of the freed-extent lists"},
                                 {"relaxed", "linux-6.17 (a step of its series)", "one goal, a plain atomic hint"},
                                 {"multi", "linux-6.17", "several goals, picked by inode number"}}),
      row<&Policy::scan>("scan", "how groups are walked",
                         {{"by-mount", "linux-5.13", "optimized from 16 groups up, or as mb_optimize_scan says"},
                          {"linear", "before linux-5.15", "one group after the other"},
                          {"optimized", "linux-5.13", "through the order sets in the cheap criteria"}}),
      row<&Policy::order_sets>("order-sets", "groups by largest free order and average fragment",
                               {{"list", "linux-5.13", "linked lists under a reader-writer lock, new group at the tail"},
                                {"ordered", "linux-6.17", "sets by group number, short writer lock, readers without one"}}),
      row<&Policy::freed_extents>("freed-extents", "extents freed in a transaction that is not committed",
                                  {{"merge-locked", "before linux-5.15", "merged and counted under the global lock"},
                                   {"merge-split", "linux-6.17", "the lock only links; the count is atomic"}}),
      row<&Policy::read_bit>("read-bit", "the BBITMAP_READ bit of a prefetched group",
                             {{"test-and-set", "linux-5.9", "an atomic read-modify-write for every group of a batch"},
                              {"test-first", "after linux-6.18", "a plain look first, the atomic only if it is clear"}}),
      row<&Policy::group_layout>("group-layout", "the record of a group in memory",
                                 {{"packed", "before linux-5.15", "state bits share a cache line with what scanners read"},
                                  {"split", "proposed", "state bits, scanner's fields and the rest apart"}}),
      row<&Policy::orphan_tracking>("orphan-tracking", "inodes unlinked while open",
                                    {{"list", "before linux-5.15", "a chain through the inodes, one mutex"},
                                     {"file-locked", "proposed", "the orphan file under one spin lock"},
                                     {"file-lockless", "linux-5.15", "the orphan file, counters a block and compare-and-swap"}}),
      row<&Policy::inode_generation>("inode-generation", "i_generation of a new inode",
                                     {{"locked", "before linux-5.15", "a counter under its lock (to linux-4.14)"},
                                      {"atomic", "proposed", "an atomic counter"},
                                      {"random", "linux-4.15", "a fresh random number each"}}),
      row<&Policy::lazytime_neighbours>("lazytime-neighbours", "time stamps of inodes in the same block",
                                        {{"off", "before linux-5.15", "not written along (to linux-3.19)"},
                                         {"lock", "before linux-5.15", "each looked up under the lock of the inode hash (linux-4.0 to 5.7)"},
                                         {"trylock", "proposed", "skipped when the lock of the hash is held"},
                                         {"rcu", "linux-5.8", "the hash is walked without a lock"}}),
  };
  return kRows;
}

Policy before_scalability_series() {
  Policy p;
  p.busy_groups = Policy::BusyGroups::wait;
  p.stream_goal = Policy::StreamGoal::locked;
  p.order_sets = Policy::OrderSets::list;
  p.freed_extents = Policy::FreedExtents::merge_locked;
  return p;
}

std::string choices(const std::vector<PolicyValue>& values) {
  std::string s;
  for (const PolicyValue& v : values) s += (s.empty() ? "" : ", ") + std::string(v.name);
  return s;
}

}  // namespace

Result<Policy> Policy::preset(std::string_view name) {
  if (name == "linux-6.18" || name == "linux-6.17") return Policy{};
  if (name == "linux-6.6" || name == "linux-6.12" || name == "linux-6.15" || name == "linux-6.16") return before_scalability_series();
  std::string known;
  for (const PresetInfo& p : preset_list()) known += (known.empty() ? "" : ", ") + std::string(p.name);
  return make_error(ErrorKind::usage, "no policy preset \"" + std::string(name) + "\"; there are " + known);
}

Result<void> Policy::set(std::string_view name_value) {
  const std::size_t eq = name_value.find('=');
  if (eq == std::string_view::npos)
    return make_error(ErrorKind::usage, "policy \"" + std::string(name_value) + "\": not of the form name=value");
  const std::string_view name = name_value.substr(0, eq), value = name_value.substr(eq + 1);
  if (name == "preset") {
    *this = E4_TRY(preset(value));
    return {};
  }
  std::string known;
  for (const Row& r : rows()) {
    known += (known.empty() ? "" : ", ") + std::string(r.info.name);
    if (name != r.info.name) continue;
    for (std::size_t i = 0; i < r.info.values.size(); ++i) {
      if (value != r.info.values[i].name) continue;
      r.set(*this, static_cast<std::uint8_t>(i));
      return {};
    }
    return make_error(ErrorKind::usage, "policy " + std::string(name) + " has no value \"" + std::string(value) +
                                            "\"; there are " + choices(r.info.values));
  }
  return make_error(ErrorKind::usage, "no policy \"" + std::string(name) + "\"; there are " + known + ", preset");
}

std::string_view Policy::get(std::string_view name) const {
  for (const Row& r : rows())
    if (name == r.info.name) return r.info.values[r.get(*this)].name;
  return {};
}

const std::vector<PolicyInfo>& policy_list() {
  static const std::vector<PolicyInfo> kList = [] {
    std::vector<PolicyInfo> list;
    for (const Row& r : rows()) list.push_back(r.info);
    return list;
  }();
  return kList;
}

const std::vector<PresetInfo>& preset_list() {
  static const std::vector<PresetInfo> kPresets = {
      {"linux-6.18", "the kernel's source (6.18.26) and recordings on 6.18.44"},
      {"linux-6.17", "the same series of changes; \"[PATCH v3 00/17] ext4: better scalability for ext4 block allocation\", 14 July 2025"},
      {"linux-6.16", "the cover letter and commit messages of that series: what it replaced"},
      {"linux-6.15", "the same"},
      {"linux-6.12", "the same; lists and criteria as in linux-6.6"},
      {"linux-6.6", "mballoc.c of 6.5 and later: lists for both orders (\"use buckets for cr 1 block scan instead of rbtree\", 6.0), CR_BEST_AVAIL_LEN (6.5); "
                    "older kernels keep averages in a red-black tree (5.15) or lack that criterion, so they have no preset"},
  };
  return kPresets;
}

}  // namespace e4::alloc
