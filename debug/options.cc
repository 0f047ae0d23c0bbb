// SPDX-License-Identifier: GPL-2.0-only
#include "debug/options.h"

#include <CLI/CLI.hpp>

#include "debug/commands.h"

namespace e4::debug {

Result<Options> parse_options(const std::vector<std::string>& args) {
  Options o;
  CLI::App app("Look into an ext4 image, dirty ones too, and edit its orphan file.", "e4debug");
  bool version = false;
  app.add_option("image", o.image, "file or block device; PATH?offset=N starts N bytes into it")->type_name("IMAGE");
  app.add_flag("-w", o.writable, "open for writing: the journal is replayed before anything is changed");
  app.add_option("-R", o.commands, "run this command; may be given again")
      ->type_name("COMMAND")
      ->type_size(1)
      ->allow_extra_args(false)
      ->take_all();
  app.add_option("-f", o.command_file, "run the commands in this file, one a line; - reads standard input")->type_name("FILE");
  app.add_flag("-e,--stop", o.stop, "end at the first command that fails");
  app.add_flag("--json", o.json, "print JSON documents instead of text");
  app.add_flag("--journal", o.journal, "show the image as it will be after recovery, in memory");
  app.add_option("-b", o.block_bytes, "block size, with -s")->type_name("BYTES");
  app.add_option("-s", o.superblock, "read the superblock copy in this block (never with -w)")->type_name("BLOCK");
  app.add_option("-z", o.undo, "save what is overwritten to this file, for e2undo")->type_name("FILE");
  app.add_flag("-V,--version", version, "print the version and end");
  app.footer(command_help());
  std::vector<std::string> reversed(args.rbegin(), args.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    o.done = true;
    o.text = app.help();
    return o;
  } catch (const CLI::ParseError& e) {
    return make_error(ErrorKind::usage, std::string(e.what()) + " (e4debug --help)");
  }
  if (version) {
    o.done = true;
    o.text = std::string("e4debug ") + E4_VERSION + "\n";
    return o;
  }
  if (o.image.empty()) return make_error(ErrorKind::usage, "no image given (e4debug --help)");
  if (o.commands.empty() && !o.command_file) return make_error(ErrorKind::usage, "no command: use -R COMMAND or -f FILE");
  if (o.superblock != 0 && o.block_bytes == 0) return make_error(ErrorKind::usage, "-s needs the block size: -b BYTES");
  if (o.superblock != 0 && o.writable) return make_error(ErrorKind::usage, "-s is for looking only: not with -w");
  if (o.undo && !o.writable) return make_error(ErrorKind::usage, "-z is for writing: give -w too");
  return o;
}

}  // namespace e4::debug
