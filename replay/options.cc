// SPDX-License-Identifier: GPL-2.0-only
#include "replay/options.h"

#include "replay/options_run.h"

#include <CLI/CLI.hpp>
#include <algorithm>

namespace e4::replay {

void add_recording(CLI::App& app, RecordingOptions& r) {
  app.add_option("recording", r.recording, "recording directory, or a trace with --image ('-': standard input)")->type_name("RECORDING");
  app.add_option("--image", r.image, "start image, instead of a recording's")->type_name("IMAGE");
  app.add_option("--trace", r.trace, "trace, instead of the recording's own")->type_name("FILE");
  app.add_option("--end-image", r.end_image, "end image to compare with")->type_name("IMAGE");
  app.add_option("--mb-groups", r.mb_groups, "copy of mb_groups to compare with")->type_name("FILE");
  app.add_option("--set", r.set, "a tunable, mount option, cpus, page_size, rotational, uid, device")
      ->type_name("NAME=VALUE")
      ->type_size(1)
      ->allow_extra_args(false)
      ->take_all();
  app.add_option("--device", r.devices, "only the file system on this device")
      ->type_name("MAJ:MIN")
      ->type_size(1)
      ->allow_extra_args(false)
      ->take_all();
}

Result<void> check_recording(const RecordingOptions& r, const char* command) {
  if (r.recording.empty() && (r.image.empty() || r.trace.empty()))
    return make_error(ErrorKind::usage, std::string("which recording? (e4replay ") + command + " --help)");
  return {};
}

Result<Options> parse_options(const std::vector<std::string>& args) {
  Options o;
  CLI::App app("Record block allocations of a live ext4, and replay them offline.", "e4replay");
  bool version = false;
  app.add_flag("-V,--version", version, "print the version and end");
  app.require_subcommand(0, 1);

  CompareOptions compare;
  CLI::App& c = *app.add_subcommand("compare", "make every decision of a recording again and compare it with the kernel's");
  add_recording(c, compare.from);
  bool resync = false, free_run = false;
  c.add_flag("--resync", resync, "after a difference go on from the kernel's choice (default)");
  c.add_flag("--free-run", free_run, "after a difference keep our own choice")->excludes("--resync");
  c.add_option("--policy", compare.policy, "allocator policy (see: e4replay policies)")
      ->type_name("NAME=VALUE")
      ->type_size(1)
      ->allow_extra_args(false)
      ->take_all();
  c.add_flag("-v,--verbose", compare.verbose, "list every difference");
  c.add_flag("--json", compare.json, "print one JSON document instead of text");

  InfoOptions info;
  CLI::App& i = *app.add_subcommand("info", "describe a recording");
  add_recording(i, info.from);
  i.add_flag("--count", info.count, "read the whole trace and count its events");
  i.add_flag("--json", info.json, "print one JSON document instead of text");

  PoliciesOptions policies;
  CLI::App& p = *app.add_subcommand("policies", "list the allocator's policies, their values and presets");
  p.add_flag("--json", policies.json, "print one JSON document instead of text");

  RecordOptions record;
  CLI::App& r = *app.add_subcommand("record", "record the block allocations of a live file system");
  r.add_option("target", record.target, "mount point (or mounted device) of an ext4 file system")->type_name("MOUNTPOINT|DEVICE")->required();
  r.add_option("-o,--output", record.output, "directory to make")->type_name("DIR")->required();
  r.add_option("--buffer", record.buffer_kib, "ring buffer of each CPU in KiB")->type_name("KIB")->check(CLI::Range(64U, 4U << 20));
  r.add_option("--seconds", record.seconds, "stop after so long (without a command)")->type_name("S");
  r.add_option("--name", record.name, "name of the recording")->type_name("NAME");
  r.add_flag("--no-end", record.no_end, "do not save the end state");
  r.add_option("command", record.command, "what to run while recording, after --")->type_name("-- COMMAND")->allow_extra_args();

  RunCommandLine run_line;
  add_run_commands(app, run_line);

  std::vector<std::string> reversed(args.rbegin(), args.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    const auto used = app.get_subcommands();
    o.text = used.empty() ? app.help() : used.front()->help();
    return o;
  } catch (const CLI::ParseError& e) {
    return make_error(ErrorKind::usage, std::string(e.what()) + " (e4replay --help)");
  }
  if (version) {
    o.text = std::string("e4replay ") + E4_VERSION + "\n";
    return o;
  }
  if (E4_TRY(take_run_command(app, run_line, o))) return o;
  if (c.parsed()) {
    E4_TRY(check_recording(compare.from, "compare"));
    compare.mode = free_run ? trace::Mode::free_run : trace::Mode::resync;
    o.command = compare;
  } else if (i.parsed()) {
    E4_TRY(check_recording(info.from, "info"));
    o.command = info;
  } else if (p.parsed()) {
    o.command = policies;
  } else if (r.parsed()) {
    o.command = record;
  } else {
    return make_error(ErrorKind::usage, "which command? (e4replay --help)");
  }
  return o;
}

}  // namespace e4::replay
