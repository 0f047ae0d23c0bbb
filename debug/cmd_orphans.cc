// SPDX-License-Identifier: GPL-2.0-only
#include <ostream>

#include "debug/commands.h"
#include "debug/orphan_text.h"

// Looking at orphans: never writes, with --journal everything happens in memory.
namespace e4::debug {
namespace {

Result<orphan::Plan> plan_of(Layer& layer) {
  orphan::ClassifyOptions how;
  how.paths = true;
  how.find_unlisted = layer.journal.unlisted_orphans;
  return orphan::classify(*layer.volume, how);
}

/// Carries the plan out in the layer and counts what is left.
Result<AfterRecovery> recover_in_memory(const Session& session, Layer& layer, const orphan::Plan& plan) {
  AfterRecovery after;
  orphan::Plan copy = plan;
  after.totals = E4_TRY(orphan::release_all(*layer.volume, copy, {.now = session.now()}));
  const orphan::Volume recovered = E4_TRY(orphan::Volume::load(*layer.overlay));
  for (GroupNo g = 0; g < recovered.geo().groups_count; ++g) {
    after.free_blocks += std::uint64_t{recovered.group(g).free_blocks} * recovered.geo().cluster_blocks;
    after.free_inodes += recovered.group(g).free_inodes;
  }
  after.orphans_left = after.totals.left;
  return after;
}

}  // namespace

Result<void> cmd_orphans(Session& session, const Words& words) {
  Layer layer = E4_TRY(session.layer(words.journal));
  const orphan::Plan plan = E4_TRY(plan_of(layer));
  OrphanLook look{session, layer, plan};
  AfterRecovery after;
  if (words.journal) {
    after = E4_TRY(recover_in_memory(session, layer, plan));
    look.after = &after;
  }
  if (words.json)
    print_orphans_json(session.io().out, look);
  else
    print_orphans(session.io().out, look);
  return {};
}

Result<void> cmd_orphan_verify(Session& session, const Words& words) {
  Layer layer = E4_TRY(session.layer(words.journal));
  const orphan::Plan plan = E4_TRY(plan_of(layer));
  const OrphanLook look{session, layer, plan};
  if (words.json)
    print_orphans_json(session.io().out, look);
  else
    print_orphans(session.io().out, look);
  std::uint64_t wrong = 0;
  for (const orphan::Record& r : plan.records) wrong += r.state == orphan::State::invalid || r.action == orphan::Action::leave ? 1 : 0;
  if (wrong == 0 && plan.file.faults == 0 && plan.list.end == orphan::ListReport::End::clean) return {};
  std::string what;
  if (plan.file.faults != 0) what = "orphan file: " + joined(orphan::file_fault_names(plan.file.faults));
  if (plan.list.end != orphan::ListReport::End::clean)
    what += (what.empty() ? "" : "; ") + std::string("orphan list: ") + std::string(orphan::to_string(plan.list.end));
  if (wrong != 0) what += (what.empty() ? "" : "; ") + std::to_string(wrong) + " entries that recovery cannot follow";
  return make_error(ErrorKind::corrupt, what);
}

}  // namespace e4::debug
