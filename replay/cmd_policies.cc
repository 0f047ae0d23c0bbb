// SPDX-License-Identifier: GPL-2.0-only
#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "alloc/policy.h"
#include "replay/commands.h"
#include "replay/replay.h"

namespace e4::replay {
namespace {

std::string policies_json() {
  using nlohmann::ordered_json;
  ordered_json j;
  j["schema"] = "e4replay-policies";
  j["schema_version"] = 1;
  const alloc::Policy defaults;
  j["policies"] = ordered_json::array();
  for (const alloc::PolicyInfo& p : alloc::policy_list()) {
    ordered_json e{{"name", p.name}, {"what", p.what}, {"default", std::string(defaults.get(p.name))}};
    e["values"] = ordered_json::array();
    for (const alloc::PolicyValue& v : p.values) e["values"].push_back({{"name", v.name}, {"since", v.since}, {"what", v.what}});
    j["policies"].push_back(std::move(e));
  }
  j["presets"] = ordered_json::array();
  for (const alloc::PresetInfo& p : alloc::preset_list()) {
    ordered_json e{{"name", p.name}, {"source", p.source}};
    if (const auto policy = alloc::Policy::preset(p.name))
      for (const alloc::PolicyInfo& info : alloc::policy_list()) e["values"][info.name] = std::string(policy->get(info.name));
    j["presets"].push_back(std::move(e));
  }
  return j.dump(1) + "\n";
}

std::string policies_text() {
  const alloc::Policy defaults;
  std::string s;
  for (const alloc::PolicyInfo& p : alloc::policy_list()) {
    s += fmt::format("{}: {}\n", p.name, p.what);
    for (const alloc::PolicyValue& v : p.values)
      s += fmt::format("  {} {:<14} {:<14} {}\n", defaults.get(p.name) == v.name ? '*' : ' ', v.name, v.since, v.what);
  }
  s += "\npresets (preset=NAME):\n";
  for (const alloc::PresetInfo& p : alloc::preset_list()) s += fmt::format("  {:<16} {}\n", p.name, p.source);
  return s;
}

}  // namespace

Result<int> cmd_policies(const PoliciesOptions& options, cli::Io& io) {
  io.out << (options.json ? policies_json() : policies_text());
  return kSame;
}

}  // namespace e4::replay
