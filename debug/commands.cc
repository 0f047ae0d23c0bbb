// SPDX-License-Identifier: GPL-2.0-only
#include "debug/commands.h"

#include <array>
#include <ostream>

namespace e4::debug {
namespace {

constexpr Command kCommands[] = {
    {"orphans", "", "every orphan, what recovery will do with it, and what comes back", 0, 0, cmd_orphans},
    {"orphan verify", "", "the orphan file and list against every rule; fails when one is broken", 0, 0, cmd_orphan_verify},
    {"orphan add", "INODE", "-w: track an inode, in the file or else on the list", 1, 1, cmd_orphan_add},
    {"orphan remove", "INODE|all", "-w: take an entry off; the inode gets what recovery would do to it", 1, 1, cmd_orphan_remove},
    {"orphan release", "", "-w: release every orphan", 0, 0, cmd_orphan_release},
    {"orphan create", "[BLOCKS]", "-w: make an orphan file (default size without BLOCKS)", 0, 1, cmd_orphan_create},
    {"orphan resize", "BLOCKS", "-w: another size; pending entries are kept", 1, 1, cmd_orphan_resize},
    {"orphan drop", "", "-w: release the orphans, free the file, clear both features", 0, 0, cmd_orphan_drop},
    {"orphan rewrite", "", "-w: put magic and checksums of its blocks right", 0, 0, cmd_orphan_rewrite},
    {"show", "", "the superblock, features by name", 0, 0, cmd_show},
    {"stats", "", "the same as show", 0, 0, cmd_show},
    {"show_super_stats", "", "the same as show", 0, 1, cmd_show},
    {"orphan_inodes", "", "the same as orphans", 0, 0, cmd_orphans},
    {"supported_features", "", "the features this program knows", 0, 0, cmd_supported_features},
    {"help", "", "this table", 0, 0, cmd_help},
};

std::size_t words_in(std::string_view name) { return name.find(' ') == std::string_view::npos ? 1 : 2; }

}  // namespace

std::span<const Command> commands() { return kCommands; }

std::string command_help() {
  std::string text = "Commands:\n";
  for (const Command& c : kCommands) {
    std::string left = std::string("  ") + c.name + (*c.arguments != '\0' ? " " : "") + c.arguments;
    left.resize(std::max<std::size_t>(left.size() + 2, 28), ' ');
    text += left + c.help + "\n";
  }
  return text;
}

Result<Words> parse_command(const std::string& line, const Options& options) {
  Words out{.words = {}, .json = options.json, .journal = options.journal};
  std::string word;
  bool in_word = false;
  char quote = 0;
  const auto end_word = [&]() -> Result<void> {
    if (!in_word) return {};
    in_word = false;
    if (word == "--json")
      out.json = true;
    else if (word == "--journal")
      out.journal = true;
    else if (word.size() > 2 && word.compare(0, 2, "--") == 0)
      return make_error(ErrorKind::usage, "unknown option " + word);
    else
      out.words.push_back(word);
    word.clear();
    return {};
  };
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != 0) {
      if (c == quote)
        quote = 0;
      else
        word += c;
    } else if (c == '\'' || c == '"') {
      quote = c;
      in_word = true;
    } else if (c == '\\' && i + 1 < line.size()) {
      word += line[++i];
      in_word = true;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      E4_TRY(end_word());
    } else {
      word += c;
      in_word = true;
    }
  }
  if (quote != 0) return make_error(ErrorKind::usage, "a quote is left open");
  E4_TRY(end_word());
  return out;
}

Result<void> execute(Session& session, const std::string& line) {
  Words words = E4_TRY(parse_command(line, session.options()));
  if (words.words.empty()) return {};
  const std::string one = words.words[0], two = words.words.size() > 1 ? one + " " + words.words[1] : one;
  for (const Command& c : kCommands) {
    if (c.name != one && c.name != two) continue;
    words.words.erase(words.words.begin(), words.words.begin() + static_cast<std::ptrdiff_t>(words_in(c.name)));
    if (words.words.size() < c.least || words.words.size() > c.most)
      return make_error(ErrorKind::usage, std::string("usage: ") + c.name + (*c.arguments != '\0' ? " " : "") + c.arguments);
    return c.run(session, words);
  }
  if (one == "orphan") return make_error(ErrorKind::usage, "orphan what? verify, add, remove, release, create, resize, drop, rewrite");
  return make_error(ErrorKind::usage, "no such command (try help)");
}

Result<void> cmd_help(Session& session, const Words& /*words*/) {
  session.io().out << command_help();
  return {};
}

}  // namespace e4::debug
