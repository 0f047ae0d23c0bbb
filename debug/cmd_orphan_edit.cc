// SPDX-License-Identifier: GPL-2.0-only
#include <fmt/core.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "debug/commands.h"
#include "debug/orphan_text.h"
#include "orphan/inode.h"
#include "orphan/validity.h"

// Editing the orphan machinery. Each command is one Session::write(): the
// journal is replayed first, nothing is written before the whole edit has been
// found possible, and what is left behind can be mounted.
namespace e4::debug {
namespace {

using orphan::Action;
using orphan::Plan;
using orphan::Record;
using orphan::Volume;

Result<std::uint64_t> number(const std::string& word, const char* what, std::uint64_t most) {
  std::string_view text = word;
  if (text.size() > 2 && text.front() == '<' && text.back() == '>') text = text.substr(1, text.size() - 2);
  std::uint64_t n = 0;
  const auto [at, wrong] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (wrong != std::errc() || at != text.data() + text.size() || n == 0 || n > most)
    return make_error(ErrorKind::usage, fmt::format("{} is no {} (1 to {})", word, what, most));
  return n;
}

Result<Plan> full_plan(Layer& layer) {
  orphan::ClassifyOptions how;
  how.names = orphan::ClassifyOptions::Names::always;
  how.find_unlisted = layer.journal.unlisted_orphans;
  return orphan::classify(*layer.volume, how);
}

std::string why_left(const Plan& plan) {
  for (const Record& r : plan.records)
    if (r.action == Action::leave)
      return fmt::format("inode {} cannot be released ({}): run e4fsck first", r.ino, joined(orphan::reason_names(r.reasons)));
  return {};
}

void report(Session& session, const Words& words, const std::string& text, const Session::Written& w, nlohmann::json extra) {
  if (!words.json) {
    session.io().out << text << '\n';
    return;
  }
  extra.update({{"schema", "e4progs-orphan-edit"}, {"schema_version", 1}, {"tool", "e4debug"}, {"tool_version", E4_VERSION},
                {"image", session.options().image}, {"deleted", w.released.erased}, {"truncated", w.released.truncated},
                {"dropped", w.released.dropped}, {"relinked", w.released.relinked}, {"left", w.released.left},
                {"bytes_freed", w.released.freed_bytes}, {"bytes_written", w.bytes_written}});
  session.io().out << extra.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
}

std::string released_text(const orphan::ReleaseTotals& t) {
  return fmt::format("{} deleted, {} truncated, {} dropped, {} relinked, {} left, {} bytes freed", t.erased, t.truncated,
                     t.dropped, t.relinked, t.left, t.freed_bytes);
}

/// Everything recovery may meet: the inode is allocated, sane, ordinary, and not tracked yet.
Result<void> may_track(Volume& volume, const Plan& plan, Ino ino) {
  const auto refuse = [&](const char* why) { return make_error(ErrorKind::usage, why).at_inode(ino); };
  const std::uint32_t bad = orphan::number_reasons(volume, ino);
  if ((bad & orphan::kRange) != 0) return refuse("no such inode");
  if (bad != 0) return refuse("a reserved or special inode is never an orphan");
  if (!E4_TRY(volume.inode_in_use(ino))) return refuse("the inode is free");
  for (const Record& r : plan.records)
    if (r.ino == ino && r.source != orphan::Source::unlisted) return refuse("it is tracked already");
  const auto raw = E4_TRY(orphan::InodeTable(volume).view(ino));
  if (!orphan::inode_checksum_ok(volume.geo(), ino, raw)) return refuse("inode checksum is wrong");
  const orphan::InodeView inode(raw);
  if (inode.mode() == 0) return refuse("the inode was never written");
  if ((inode.flags() & orphan::kFlagEaInode) != 0) return refuse("an attribute inode is never tracked");
  return {};
}

/// Head of the legacy list: when there is no orphan file, or it is full.
Result<void> push_on_list(Volume& volume, Ino ino) {
  const auto raw = E4_TRY(orphan::InodeTable(volume).edit(ino));
  orphan::set_dtime(raw, volume.last_orphan());
  orphan::seal_inode(volume.geo(), ino, raw);
  E4_TRY(volume.set_last_orphan(ino));
  return volume.seal();
}

}  // namespace

Result<void> cmd_orphan_add(Session& session, const Words& words) {
  const auto ino = static_cast<Ino>(E4_TRY(number(words.words[0], "inode number", 0xFFFFFFFF)));
  std::string where;
  const Session::Prepare prepare = [&](Layer& layer) -> Result<Session::Edit> {
    const Plan plan = E4_TRY(full_plan(layer));
    E4_TRY(may_track(*layer.volume, plan, ino));
    if (plan.file.feature && !plan.file.proved())
      return make_error(ErrorKind::corrupt, "the orphan file is damaged (" + joined(orphan::file_fault_names(plan.file.faults)) +
                                                "): orphan rewrite, or e4fsck, first");
    Session::Edit edit;
    edit.after = [&where, ino](Volume& volume) -> Result<void> {
      const auto file = E4_TRY(orphan::inspect_orphan_file(volume));
      const bool room = file.proved() &&
                        file.used_slots < file.blocks.size() * std::uint64_t{orphan::slots_per_block(volume.geo().block_bytes)};
      if (!room) {
        where = "on the list";
        return push_on_list(volume, ino);
      }
      const auto place = E4_TRY(orphan::claim_slot(volume, file, ino));
      where = fmt::format("in block {}, slot {}", place.block, place.slot);
      return {};
    };
    return edit;
  };
  const auto written = E4_TRY(session.write(prepare));
  report(session, words, fmt::format("inode {} is tracked {}", ino, where), written, {{"inode", ino}, {"where", where}});
  return {};
}

Result<void> cmd_orphan_remove(Session& session, const Words& words) {
  if (words.words[0] == "all") return cmd_orphan_release(session, words);
  const auto ino = static_cast<Ino>(E4_TRY(number(words.words[0], "inode number", 0xFFFFFFFF)));
  const Session::Prepare prepare = [&](Layer& layer) -> Result<Session::Edit> {
    Session::Edit edit;
    edit.release = E4_TRY(full_plan(layer));
    bool found = false;
    for (Record& r : edit.release.records) {
      if (r.ino != ino) {
        r.action = Action::leave;
        continue;
      }
      found = true;
      if (r.action == Action::leave)
        return make_error(ErrorKind::corrupt, fmt::format("inode {} cannot be released ({}): run e4fsck first", ino,
                                                          joined(orphan::reason_names(r.reasons))));
    }
    if (!found) return make_error(ErrorKind::usage, "it is not tracked").at_inode(ino);
    return edit;
  };
  const auto written = E4_TRY(session.write(prepare));
  orphan::ReleaseTotals totals = written.released;
  totals.left = 0;  // the others were not asked about
  report(session, words, fmt::format("inode {}: {}", ino, released_text(totals)), {totals, written.bytes_written}, {{"inode", ino}});
  return {};
}

Result<void> cmd_orphan_release(Session& session, const Words& words) {
  const Session::Prepare prepare = [](Layer& layer) -> Result<Session::Edit> {
    Session::Edit edit;
    edit.release = E4_TRY(full_plan(layer));
    return edit;
  };
  const auto written = E4_TRY(session.write(prepare));
  report(session, words, released_text(written.released), written, nlohmann::json::object());
  if (written.released.left != 0)
    return make_error(ErrorKind::corrupt, fmt::format("{} orphans left for e4fsck", written.released.left));
  return {};
}

Result<void> cmd_orphan_create(Session& session, const Words& words) {
  std::uint64_t wanted = 0;
  if (!words.words.empty()) wanted = E4_TRY(number(words.words[0], "number of blocks", orphan::kMaxOrphanFileBlocks));
  Ino made = 0;
  std::uint32_t blocks = 0;
  bool found = false;
  const Session::Prepare prepare = [&](Layer& layer) -> Result<Session::Edit> {
    Volume& volume = *layer.volume;
    const orphan::Geometry& geo = volume.geo();
    const auto file = E4_TRY(orphan::inspect_orphan_file(volume));
    if (file.feature && file.repairable())
      return make_error(ErrorKind::usage, fmt::format("there is an orphan file, inode {}: use orphan resize", file.ino));
    blocks = wanted != 0 ? orphan::clamp_orphan_file_blocks(wanted, geo.block_bytes, geo.cluster_blocks)
                         : orphan::default_orphan_file_blocks(geo.blocks_count, geo.block_bytes, geo.cluster_blocks);
    const std::uint64_t now = session.now();
    // The feature may be set and its number lost: then the file is found again, not made a second time.
    const Ino lost = file.feature ? E4_TRY(orphan::find_orphan_file(volume)) : 0;
    found = lost != 0;
    Session::Edit edit;
    edit.after = [&made, &blocks, lost, now](Volume& v) -> Result<void> {
      if (lost == 0) {
        made = E4_TRY(orphan::create_orphan_file(v, blocks, now));
        return {};
      }
      made = lost;
      E4_TRY(v.set_orphan_file(lost, true));
      E4_TRY(v.seal());
      blocks = static_cast<std::uint32_t>(E4_TRY(orphan::inspect_orphan_file(v)).blocks.size());
      return {};
    };
    return edit;
  };
  const auto written = E4_TRY(session.write(prepare));
  report(session, words, fmt::format("orphan file: inode {}, {} blocks{}", made, blocks, found ? ", found again" : ""), written,
         {{"inode", made}, {"blocks", blocks}, {"found_again", found}});
  return {};
}

Result<void> cmd_orphan_resize(Session& session, const Words& words) {
  const std::uint64_t wanted = E4_TRY(number(words.words[0], "number of blocks", orphan::kMaxOrphanFileBlocks));
  std::uint32_t blocks = 0;
  const Session::Prepare prepare = [&](Layer& layer) -> Result<Session::Edit> {
    const orphan::Geometry& geo = layer.volume->geo();
    blocks = orphan::clamp_orphan_file_blocks(wanted, geo.block_bytes, geo.cluster_blocks);
    Session::Edit edit;
    edit.after = [&blocks, now = session.now()](Volume& v) { return orphan::resize_orphan_file(v, blocks, now); };
    return edit;
  };
  const auto written = E4_TRY(session.write(prepare));
  report(session, words, fmt::format("orphan file: {} blocks", blocks), written, {{"blocks", blocks}});
  return {};
}

Result<void> cmd_orphan_drop(Session& session, const Words& words) {
  const Session::Prepare prepare = [&](Layer& layer) -> Result<Session::Edit> {
    Session::Edit edit;
    edit.release = E4_TRY(full_plan(layer));
    const auto& file = edit.release.file;
    if (!file.feature && !file.present) return make_error(ErrorKind::usage, "there is no orphan file");
    if (const std::string why = why_left(edit.release); !why.empty()) return make_error(ErrorKind::busy, why);
    if (file.feature && !file.proved())
      return make_error(ErrorKind::corrupt, "the orphan file is damaged (" + joined(orphan::file_fault_names(file.faults)) +
                                                "): orphan rewrite, or e4fsck, first");
    edit.after = [feature = file.feature, now = session.now()](Volume& v) {
      return feature ? orphan::drop_orphan_file(v, now) : orphan::forget_orphan_file(v);
    };
    return edit;
  };
  const auto written = E4_TRY(session.write(prepare));
  report(session, words, "no orphan file any more; " + released_text(written.released), written, nlohmann::json::object());
  return {};
}

Result<void> cmd_orphan_rewrite(Session& session, const Words& words) {
  std::uint32_t changed = 0;
  const Session::Prepare prepare = [&](Layer& layer) -> Result<Session::Edit> {
    // With names, so that a user's file is never taken for the orphan file.
    const Plan plan = E4_TRY(full_plan(layer));
    if (!plan.file.feature) return make_error(ErrorKind::usage, "there is no orphan file");
    if (!plan.file.repairable())
      return make_error(ErrorKind::corrupt, "inode " + std::to_string(plan.file.ino) + " is not proved to be an orphan file (" +
                                                joined(orphan::file_fault_names(plan.file.faults)) + ")");
    Session::Edit edit;
    edit.after = [&changed, file = plan.file](Volume& v) -> Result<void> {
      changed = E4_TRY(orphan::rewrite_orphan_file(v, file));
      return {};
    };
    return edit;
  };
  const auto written = E4_TRY(session.write(prepare));
  report(session, words, fmt::format("{} blocks rewritten", changed), written, {{"blocks_rewritten", changed}});
  return {};
}

}  // namespace e4::debug
