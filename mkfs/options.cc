// SPDX-License-Identifier: GPL-2.0-only
#include "mkfs/options.h"

#include <CLI/CLI.hpp>

#include "mkfs/extended.h"

namespace e4::mkfs {

namespace {

/// "a,b" and "a b" repeated options make one list.
void add_list(CLI::App& app, const std::string& flags, std::vector<std::string>& to, const std::string& form,
              const std::string& help) {
  app.add_option_function<std::vector<std::string>>(
         flags,
         [&to](const std::vector<std::string>& given) {
           for (const std::string& text : given) {
             std::size_t from = 0;
             for (std::size_t comma = 0; comma != std::string::npos; from = comma + 1) {
               comma = text.find(',', from);
               to.push_back(text.substr(from, comma == std::string::npos ? comma : comma - from));
             }
           }
         },
         help)
      ->type_name(form)
      ->type_size(1)
      ->allow_extra_args(false)
      ->take_all();
}

}  // namespace

Result<Options> parse_options(const std::vector<std::string>& args) {
  Options o;
  Wishes& w = o.wishes;
  CLI::App app("Make an ext4 file system with an orphan file in a file or on a device.", "e4mkfs");
  bool version = false;
  app.add_option("image", w.image, "file or block device; PATH?offset=N starts N bytes into it")->type_name("IMAGE");
  app.add_option("size", w.size, "blocks with -b, else KiB; k, m, g, t: bytes; s: sectors")->type_name("SIZE");
  app.add_option("-t", w.type, "ext4 (default), ext3 or ext2")->type_name("TYPE");
  add_list(app, "-T", w.usage, "USAGE,..", "usage: floppy small default big huge news largefile largefile4 hurd");
  app.add_option("-b", w.block_bytes, "block size, 1024 to 65536; negative: at least")->type_name("BYTES");
  app.add_option("-C", w.cluster_bytes, "cluster size (with bigalloc)")->type_name("BYTES");
  app.add_option("-g", w.group_blocks, "blocks per group")->type_name("BLOCKS");
  app.add_option("-G", w.flex_groups, "groups per flex group")->type_name("GROUPS");
  app.add_option("-i", w.inode_ratio, "bytes per inode")->type_name("BYTES");
  app.add_option("-I", w.inode_bytes, "inode size")->type_name("BYTES");
  app.add_option("-N", w.inodes, "number of inodes")->type_name("INODES");
  app.add_option("-m", w.reserved_percent, "percent of the blocks kept for root")->type_name("PERCENT");
  add_list(app, "-O", w.features, "FEATURE,..", "features to add; ^NAME, -NAME or no_NAME leaves one out");
  add_list(app, "--for", w.readers, "READER,..", "leave out what it cannot use: linux-5.10, e2fsprogs-1.46.2, grub-2.06");
  std::string words;
  for (const std::string& word : extended_words()) words += (words.empty() ? "" : " ") + word;
  add_list(app, "-E", w.extended, "OPTION,..", "extended options: " + words);
  add_list(app, "-J", w.journal, "OPTION,..", "journal: size=MEGABYTES fast_commit_size=KILOBYTES location=BLOCK");
  app.add_flag("-j", w.want_journal, "with a journal (ext3 and ext4 have one anyway)");
  app.add_option("-L", w.label, "label, 16 bytes at most")->type_name("LABEL");
  app.add_option("-M", w.last_mounted, "directory last mounted on")->type_name("DIR");
  app.add_option("-U", w.uuid, "UUID, or clear, random, time")->type_name("UUID");
  app.add_option("-e", w.errors, "on errors: continue, remount-ro, panic")->type_name("WHAT");
  app.add_option("-r", w.revision, "revision; only 1 is made")->type_name("N");
  app.add_option("-z", w.undo, "save what is overwritten to this file, for e2undo")->type_name("FILE");
  app.add_flag("-F", w.force, "ask nothing; twice: even if mounted");
  app.add_flag("-n", w.dry_run, "only show what would be made");
  app.add_flag("-q", w.quiet, "print errors and notes only");
  app.add_flag("-v", w.verbose, "print the whole geometry");
  app.add_flag("-D", w.direct, "accepted for mke2fs's sake; writes are large and in order anyway");
  app.add_flag("-V,--version", version, "print the version and end");
  app.add_flag("--json", w.json, "print one JSON document instead of text");
  std::vector<std::string> reversed(args.rbegin(), args.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    o.done = true;
    o.text = app.help();
    return o;
  } catch (const CLI::ParseError& e) {
    return make_error(ErrorKind::usage, std::string(e.what()) + " (e4mkfs --help)");
  }
  if (version) {
    o.done = true;
    o.text = std::string("e4mkfs ") + E4_VERSION + "\n";
    return o;
  }
  if (w.image.empty()) return make_error(ErrorKind::usage, "which file or device? (e4mkfs --help)");
  return o;
}

}  // namespace e4::mkfs
