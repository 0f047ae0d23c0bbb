// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "debug/session.h"

namespace e4::debug {

/// The words of one command and the options that every command understands.
struct Words {
  std::vector<std::string> words;  // the command's name first; options taken out
  bool json = false, journal = false;
};

/// Splits at blanks; 'single', "double" quotes and backslash keep them. Errors (usage): an open quote, an unknown option.
Result<Words> parse_command(const std::string& line, const Options& options);

struct Command {
  const char* name;      // "orphans", or "orphan create": the longest match wins
  const char* arguments;
  const char* help;
  std::size_t least, most;  // arguments after the name
  Result<void> (*run)(Session& session, const Words& words);
};
std::span<const Command> commands();
/// The table as text for --help.
std::string command_help();

/// Finds and runs. Errors name what failed; usage when there is no such command.
Result<void> execute(Session& session, const std::string& line);

// The commands; `words.words` holds the arguments only.
Result<void> cmd_orphans(Session& session, const Words& words);
Result<void> cmd_orphan_verify(Session& session, const Words& words);
Result<void> cmd_orphan_add(Session& session, const Words& words);
Result<void> cmd_orphan_remove(Session& session, const Words& words);
Result<void> cmd_orphan_release(Session& session, const Words& words);
Result<void> cmd_orphan_create(Session& session, const Words& words);
Result<void> cmd_orphan_resize(Session& session, const Words& words);
Result<void> cmd_orphan_drop(Session& session, const Words& words);
Result<void> cmd_orphan_rewrite(Session& session, const Words& words);
Result<void> cmd_show(Session& session, const Words& words);
Result<void> cmd_supported_features(Session& session, const Words& words);
Result<void> cmd_help(Session& session, const Words& words);

}  // namespace e4::debug
