// SPDX-License-Identifier: GPL-2.0-only
#include "fsck/options.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <ostream>
#include <sstream>

#include "cli/exit_status.h"

namespace e4::fsck {

namespace {

namespace status = cli::exit_status;

int usage(cli::Io& io, const std::string& why) {
  io.err << "e4fsck: " << why << '\n'
         << "Usage: e4fsck [-n|-p|-a|-y] [-f] [-v] [-z undo-file] [-C fd] [-b superblock] [-B blocksize]\n"
            "              [-E extended-options] [--json] [-V] image[?offset=bytes]\n";
  return status::kUsage;
}

// Words of -E. Some change nothing here: they tune passes this program does
// not have, or ask for what it does anyway.
constexpr std::array kAccepted = {"journal_only", "nodiscard", "discard", "inode_count_fullmap", "no_inode_count_fullmap",
                                  "no_optimize_extents", "optimize_extents", "fixes_only", "no_fixes_only", "fragcheck",
                                  "check_encoding"};
constexpr std::array kAcceptedWithValue = {"readahead_kb", "ea_ver"};
constexpr std::array kNeedFullCheck = {"bmap2extent", "unshare_blocks"};

std::string check_extended(const std::string& words) {
  std::istringstream in(words);
  for (std::string w; std::getline(in, w, ',');) {
    const std::string key = w.substr(0, w.find('='));
    const bool has_value = key.size() < w.size();
    const auto among = [&](const auto& list) { return std::find(list.begin(), list.end(), key) != list.end(); };
    if (among(kNeedFullCheck)) return fmt::format("extended option '{}' needs the full check, which this version does not have", key);
    if (among(kAccepted) && !has_value) continue;
    if (among(kAcceptedWithValue) && has_value) continue;
    return fmt::format("unknown extended option '{}'", w);
  }
  return "";
}

std::uint64_t time_now(const cli::Io& io) {
  for (const char* name : {"E2FSCK_TIME", "SOURCE_DATE_EPOCH", "E2FSPROGS_FAKE_TIME"}) {
    const std::string v = io.environment(name);
    std::uint64_t n = 0;
    const auto [end, ec] = std::from_chars(v.data(), v.data() + v.size(), n);
    if (!v.empty() && ec == std::errc() && end == v.data() + v.size()) return n;
  }
  return static_cast<std::uint64_t>(std::time(nullptr));
}

struct Letters {
  bool no = false, preen = false, automatic = false, yes = false, force = false, verbose = false, json = false, version = false;
  bool flush = false, debug = false, times = false, keep = false, ignored_r = false;
  bool directories = false, badblocks = false;
  std::string undo, extended, list_add, list_set, journal, image;
  std::uint64_t superblock = 0;
  std::uint32_t block_bytes = 0;
  int progress_fd = 0;
};

}  // namespace

std::variant<Options, int> parse(const std::vector<std::string>& args, cli::Io& io) {
  Letters l;
  CLI::App app{"Recover an ext4 image: replay its journal, release its orphans, check superblock, descriptors, orphan "
               "tracking and what recovery touched. See e4fsck(8)."};
  app.add_flag("-n", l.no, "change nothing: do everything in memory and say what would be done");
  app.add_flag("-p", l.preen, "repair what needs no decision, stop at the rest");
  app.add_flag("-a", l.automatic, "the same as -p");
  app.add_flag("-y", l.yes, "answer yes to every question");
  app.add_flag("-f", l.force, "count the bitmaps of every group");
  app.add_flag("-v", l.verbose, "also say what -p repairs in silence");
  app.add_flag("-F,--flush", l.flush, "accepted; there is no buffer to flush");
  app.add_flag("-d", l.debug, "accepted");
  app.add_flag("-t", l.times, "accepted")->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_flag("-k", l.keep, "accepted");
  app.add_flag("-r", l.ignored_r, "accepted, as e2fsck does");
  app.add_flag("-D", l.directories, "refused: needs the full check");
  app.add_flag("-c", l.badblocks, "refused: needs the full check")->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option("-l", l.list_add, "refused: needs the full check");
  app.add_option("-L", l.list_set, "refused: needs the full check");
  app.add_option("-j", l.journal, "refused: external journals are not replayed");
  app.add_option("-z", l.undo, "save what is overwritten to this file, for e2undo(8)");
  auto* progress = app.add_option("-C", l.progress_fd, "progress on this descriptor; 0: a bar on stdout");
  app.add_option("-b", l.superblock, "use the superblock in this block");
  app.add_option("-B", l.block_bytes, "block size that -b counts in")
      ->check(CLI::IsMember({1024U, 2048U, 4096U, 8192U, 16384U, 32768U, 65536U}));
  app.add_option("-E", l.extended, "extended options");
  app.add_flag("--json", l.json, "one JSON document on stdout instead of text");
  app.add_flag("-V,--version", l.version, "print the version");
  app.add_option("image", l.image, "file or device, with ?offset=bytes if need be");
  try {
    std::vector<std::string> reversed(args.rbegin(), args.rend());
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    io.out << app.help();
    return status::kOk;
  } catch (const CLI::ParseError& e) {
    return usage(io, e.what());
  }
  if (l.version) {
    io.err << "e4fsck " << E4_VERSION << '\n';
    return status::kOk;
  }
  if (l.image.empty()) return usage(io, "no image given");
  if (int{l.no} + int{l.preen || l.automatic} + int{l.yes} > 1) {
    io.err << "e4fsck: only one of the options -p/-a, -n or -y may be specified\n";
    return status::kOperational;
  }
  if (l.no && (l.directories || l.badblocks || !l.list_add.empty() || !l.list_set.empty())) {
    io.err << "e4fsck: -n goes with none of -c, -D, -l and -L\n";
    return status::kOperational;
  }
  if (l.directories || l.badblocks || !l.list_add.empty() || !l.list_set.empty())
    return usage(io, "-c, -D, -l and -L need the full check, which this version does not have");
  if (!l.journal.empty()) return usage(io, "external journals are not replayed by this version");
  if (const std::string why = check_extended(l.extended); !why.empty()) return usage(io, why);

  Options o;
  o.image = l.image;
  o.verbose = l.verbose;
  o.json = l.json;
  if (progress->count() != 0) o.progress_fd = l.progress_fd;
  o.check.mode = l.no                        ? check::Mode::read_only
                 : l.preen || l.automatic    ? check::Mode::preen
                 : l.yes                     ? check::Mode::yes
                                             : check::Mode::interactive;
  o.check.force = l.force;
  o.check.superblock = l.superblock;
  o.check.block_bytes = l.block_bytes;
  o.check.undo_path = l.undo;
  o.check.now = time_now(io);
  o.check.stop = io.stop;
  const bool can_ask = (io.in_is_terminal && io.out_is_terminal) || !io.environment("E2FSCK_FORCE_INTERACTIVE").empty();
  if (o.check.mode == check::Mode::interactive && (!can_ask || o.json)) {
    io.err << "e4fsck: need a terminal to ask questions; use one of -n, -p or -y\n";
    return status::kOperational;
  }
  return o;
}

}  // namespace e4::fsck
