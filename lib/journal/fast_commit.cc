// SPDX-License-Identifier: GPL-2.0-only
#include "journal/fast_commit.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "journal/fast_commit_format.h"
#include "journal/fc_file.h"
#include "journal/fc_space.h"

namespace e4::journal {

namespace {

constexpr std::uint16_t kUnwrittenMark = 32768;
constexpr std::uint32_t kLinkMax = 65000;  // EXT4_LINK_MAX
constexpr std::uint64_t kMaxLblk = 0xFFFFFFFFU;

struct Name {
  Ino parent, ino;
  std::string text;
};

Name parse_name(std::span<const std::byte> value) {
  Name n{.parent = load<le32>(value.data(), offsetof(FcDentry, fc_parent_ino)),
         .ino = load<le32>(value.data(), offsetof(FcDentry, fc_ino)),
         .text = {}};
  const auto name = value.subspan(sizeof(FcDentry));
  n.text.assign(reinterpret_cast<const char*>(name.data()), name.size());
  return n;
}

Error bad(std::string text, Where where = Where::here()) {
  return make_error(ErrorKind::corrupt, std::move(text), 0, where);
}

int file_type(int mode) {
  if (LINUX_S_ISREG(mode)) return EXT2_FT_REG_FILE;
  if (LINUX_S_ISDIR(mode)) return EXT2_FT_DIR;
  if (LINUX_S_ISCHR(mode)) return EXT2_FT_CHRDEV;
  if (LINUX_S_ISBLK(mode)) return EXT2_FT_BLKDEV;
  if (LINUX_S_ISFIFO(mode)) return EXT2_FT_FIFO;
  if (LINUX_S_ISSOCK(mode)) return EXT2_FT_SOCK;
  if (LINUX_S_ISLNK(mode)) return EXT2_FT_SYMLINK;
  return EXT2_FT_UNKNOWN;
}

class Replay {
 public:
  Replay(const RecoveryPlan& plan, image::Filsys& fs, FastCommitResult& result)
      : plan_(plan), fs_(fs), result_(result), space_(fs, *plan.log), files_(fs, space_) {}

  Result<void> run() {
    const auto inode_bytes = static_cast<std::uint32_t>(EXT2_INODE_SIZE(&fs_.super()));
    image::Device& device = fs_.device();
    // The log lies where it did: nothing above may write into it.
    E4_TRY(for_each_fast_commit(device, *plan_.log, plan_.fast_commit_records, inode_bytes,
                                [this](const FcRecord& r) { return reserve(r); }));
    E4_TRY(for_each_fast_commit(device, *plan_.log, plan_.fast_commit_records, inode_bytes,
                                [this](const FcRecord& r) { return record(r); }));
    settle_links();
    E4_TRY(finish());
    return {};
  }

 private:
  void problem(const FcRecord& r, std::optional<Ino> ino, std::string detail) {
    if (result_.problems.size() >= RecoveryPlan::kMaxProblems) return;
    result_.problems.push_back({.kind = ProblemKind::fast_commit_record,
                                .tid = plan_.end_tid,
                                .log_block = r.log_block,
                                .ino = ino,
                                .detail = std::move(detail)});
  }

  // --- before anything is applied --------------------------------------------------------------
  Result<void> reserve(const FcRecord& r) {
    if (r.tag != kFcAddRange) return {};
    const MappedExtent e = extent_of(r);
    if (e.blocks != 0 && space_.may_hold_data(e.physical, e.blocks)) space_.reserve(e.physical, e.blocks);
    return {};
  }

  static MappedExtent extent_of(const FcRecord& r) {
    const std::byte* p = r.value.data();
    const std::uint16_t len = load<le16>(p, offsetof(FcAddRange, ee_len));
    MappedExtent e;
    e.lblk = load<le32>(p, offsetof(FcAddRange, ee_block));
    e.unwritten = len > kUnwrittenMark;
    e.blocks = e.unwritten ? len - kUnwrittenMark : len;
    e.physical = load<le32>(p, offsetof(FcAddRange, ee_start_lo)) |
                 static_cast<Blk>(load<le16>(p, offsetof(FcAddRange, ee_start_hi))) << 32;
    return e;
  }

  // --- one record ----------------------------------------------------------------------------
  Result<void> record(const FcRecord& r) {
    const Result<void> outcome = apply(r);
    if (!outcome) {
      if (outcome.error().kind == ErrorKind::no_space) return outcome.error();
      problem(r, outcome.error().ino, outcome.error().text);
    } else {
      ++result_.records;
    }
    return {};
  }

  Result<void> apply(const FcRecord& r) {
    switch (r.tag) {
      case kFcAddRange: return add_range(r);
      case kFcDelRange: return del_range(r);
      case kFcCreat: return creat(parse_name(r.value));
      case kFcLink: return link(parse_name(r.value));
      case kFcUnlink: return unlink(parse_name(r.value));
      case kFcInode: return inode(r);
      case kFcTail: settle_links(); return {};
      default: return {};
    }
  }

  // A record of the same fast commit states the link count as it was when the
  // commit was written, whatever order names and inode come in.
  void settle_links() {
    for (const auto& [ino, links] : stated_links_) {
      const auto file = files_.all().find(ino);
      if (file == files_.all().end() || file->second->is_dir()) continue;
      file->second->node().i_links_count = links;
    }
    stated_links_.clear();
    for (const Ino ino : removed_dirs_) {
      if (const auto file = files_.all().find(ino); file != files_.all().end()) file->second->node().i_links_count = 0;
    }
    removed_dirs_.clear();
  }

  Result<void> add_range(const FcRecord& r) {
    const Ino ino = load<le32>(r.value.data());
    FcFile* file = E4_TRY(files_.touch(ino));
    const MappedExtent e = extent_of(r);
    if (e.blocks == 0 || e.end() > kMaxLblk) return bad("range of no length or past the end of any file");
    if (!space_.may_hold_data(e.physical, e.blocks)) {
      return bad(fmt::format("range names blocks {} to {}, where no file data can be", e.physical,
                             e.physical + e.blocks - 1))
          .at_inode(ino);
    }
    if (!file->has_extents) return bad("range for a file without extents").at_inode(ino);
    file->extents.map(e);
    file->map_changed = true;
    return {};
  }

  Result<void> del_range(const FcRecord& r) {
    const Ino ino = load<le32>(r.value.data(), offsetof(FcDelRange, fc_ino));
    FcFile* file = E4_TRY(files_.touch(ino));
    if (!file->has_extents) return bad("range for a file without extents").at_inode(ino);
    file->extents.unmap(load<le32>(r.value.data(), offsetof(FcDelRange, fc_lblk)),
                        load<le32>(r.value.data(), offsetof(FcDelRange, fc_len)));
    file->map_changed = true;
    return {};
  }

  Result<void> inode(const FcRecord& r) {
    const Ino ino = load<le32>(r.value.data());
    FcFile* file = E4_TRY(files_.replace(ino, r.value.subspan(4)));
    stated_links_[ino] = file->node().i_links_count;
    return {};
  }

  // --- names ---------------------------------------------------------------------------------
  Result<FcFile*> directory(Ino ino) {
    FcFile* dir = E4_TRY(files_.touch(ino));
    if (!dir->is_dir()) return bad("parent is not a directory").at_inode(ino);
    // libext2fs walks the directory by the map on disk.
    E4_TRY(files_.sync(*dir));
    return dir;
  }

  // What the name points to now; 0: no such name.
  Result<Ino> lookup(const FcFile& dir, const std::string& name) {
    ext2_ino_t found = 0;
    const errcode_t code = ext2fs_lookup(fs_.raw(), dir.ino, name.data(), static_cast<int>(name.size()), nullptr, &found);
    if (code == EXT2_ET_FILE_NOT_FOUND) return Ino{0};
    if (code != 0) return image::ext2_error(code, "looking up a name").at_inode(dir.ino);
    return Ino{found};
  }

  Result<void> check_name(const Name& n) {
    if (n.text == "." || n.text == ".." || n.text.find('/') != std::string::npos || n.text.find('\0') != std::string::npos ||
        n.ino == n.parent) {
      return bad("name that no directory can hold").at_inode(n.parent);
    }
    return {};
  }

  Result<void> remove_name(FcFile& dir, const std::string& name, Ino ino) {
    E4_EXT2(ext2fs_unlink(fs_.raw(), dir.ino, name.c_str(), ino, 0), "removing a name");
    dir.entries_changed = true;
    return files_.reload(dir);
  }

  // True if the name was not there before.
  Result<bool> add_name(const Name& n, FcFile& child) {
    FcFile* dir = E4_TRY(directory(n.parent));
    const Ino now = E4_TRY(lookup(*dir, n.text));
    if (now == n.ino) return false;
    if (now != 0) E4_TRY(remove_name(*dir, n.text, now));
    const int type = file_type(child.node().i_mode);
    errcode_t code = ext2fs_link(fs_.raw(), dir->ino, n.text.c_str(), n.ino, type);
    if (code == EXT2_ET_DIR_NO_SPACE) {
      // The blocks libext2fs takes count as ours until the end.
      E4_EXT2(ext2fs_expand_dir(fs_.raw(), dir->ino), "growing a directory");
      E4_TRY(files_.reload(*dir));
      code = ext2fs_link(fs_.raw(), dir->ino, n.text.c_str(), n.ino, type);
    }
    if (code != 0) return image::ext2_error(code, "adding a name").at_inode(dir->ino);
    dir->entries_changed = true;
    E4_TRY(files_.reload(*dir));
    return true;
  }

  Result<void> creat(const Name& n) {
    E4_TRY(check_name(n));
    FcFile* child = E4_TRY(files_.touch(n.ino));
    if (child->is_dir()) E4_TRY(first_block(*child, n.parent));
    E4_TRY(add_name(n, *child));
    if (child->node().i_links_count == 0 && !stated_links_.contains(n.ino)) {
      child->node().i_links_count = child->is_dir() ? 2 : 1;
    }
    removed_dirs_.erase(n.ino);
    return files_.sync(*child);
  }

  Result<void> link(const Name& n) {
    E4_TRY(check_name(n));
    FcFile* child = E4_TRY(files_.touch(n.ino));
    const bool added = E4_TRY(add_name(n, *child));
    if (child->is_dir()) {
      removed_dirs_.erase(n.ino);
    } else if (added && child->node().i_links_count < 0xFFFF) {
      ++child->node().i_links_count;
    }
    return {};
  }

  Result<void> unlink(const Name& n) {
    E4_TRY(check_name(n));
    FcFile* dir = E4_TRY(directory(n.parent));
    if (E4_TRY(lookup(*dir, n.text)) != n.ino) return {};  // gone already
    E4_TRY(remove_name(*dir, n.text, n.ino));
    auto child = files_.touch(n.ino);
    if (!child) return {};  // the name was all there was
    if ((*child)->is_dir()) {
      removed_dirs_.insert(n.ino);
    } else if ((*child)->node().i_links_count > 0) {
      --(*child)->node().i_links_count;
    }
    return {};
  }

  // "." and ".." of a new directory are in no record.
  Result<void> first_block(FcFile& dir, Ino parent) {
    if (dir.node().i_flags & EXT4_INLINE_DATA_FL) return {};
    if (!dir.has_extents) return bad("new directory without extents").at_inode(dir.ino);
    const auto& list = dir.extents.list();
    if (list.empty() || list.front().lblk != 0) {
      const Blk goal = ext2fs_inode_table_loc(fs_.raw(), ext2fs_group_of_ino(fs_.raw(), dir.ino));
      dir.extents.map({.lblk = 0, .blocks = 1, .physical = E4_TRY(space_.allocate(goal)), .unwritten = false});
      dir.map_changed = true;
    }
    if (EXT2_I_SIZE(dir.base()) == 0) dir.node().i_size = fs_.block_bytes();
    E4_TRY(files_.sync(dir));
    const Blk block = dir.extents.list().front().physical;
    std::vector<std::byte> now(fs_.block_bytes());
    E4_TRY(fs_.device().read(block * now.size(), now));
    const std::byte* p = now.data();
    const bool written = load<le32>(p) == dir.ino && load<le16>(p, 4) == 12 && std::to_integer<char>(p[8]) == '.' &&
                         load<le32>(p, 12) == parent && std::to_integer<int>(p[18]) == 2;
    if (written) return {};
    char* fresh = nullptr;
    E4_EXT2(ext2fs_new_dir_block(fs_.raw(), dir.ino, parent, &fresh), "making a directory");
    const errcode_t code = ext2fs_write_dir_block4(fs_.raw(), block, fresh, 0, dir.ino);
    ext2fs_free_mem(&fresh);
    if (code != 0) return image::ext2_error(code, "making a directory").at_inode(dir.ino);
    dir.entries_changed = true;
    return {};
  }

  // --- afterwards ------------------------------------------------------------------------------
  struct Count {
    Replay* self;
    std::uint32_t subdirs = 0;
  };
  static int count_entry(ext2_ino_t, int, ext2_dir_entry* entry, int, int, char*, void* opaque) {
    auto* count = static_cast<Count*>(opaque);
    const int len = ext2fs_dirent_name_len(entry);
    if (entry->inode == 0 || (len == 1 && entry->name[0] == '.') || (len == 2 && entry->name[0] == '.' && entry->name[1] == '.')) {
      return 0;
    }
    int type = ext2fs_dirent_file_type(entry);
    if (!ext2fs_has_feature_filetype(&count->self->fs_.super())) {
      ext2_inode inode{};
      type = ext2fs_read_inode(count->self->fs_.raw(), entry->inode, &inode) == 0 ? file_type(inode.i_mode) : 0;
    }
    if (type == EXT2_FT_DIR) ++count->subdirs;
    return 0;
  }

  void count_links(FcFile& dir) {
    if (dir.node().i_links_count == 0) return;
    Count count{.self = this};
    if (ext2fs_dir_iterate2(fs_.raw(), dir.ino, 0, nullptr, count_entry, &count) != 0) return;
    const std::uint32_t links = count.subdirs + 2;
    const bool uncounted = ext2fs_has_feature_dir_nlink(&fs_.super()) && links > kLinkMax;
    dir.node().i_links_count = static_cast<std::uint16_t>(uncounted ? 1 : std::min(links, 0xFFFFU));
  }

  Result<void> finish() {
    for (const auto& [ino, file] : files_.all()) {
      if (file->map_changed) E4_TRY(files_.sync(*file));
      if (file->is_dir() && file->entries_changed) count_links(*file);
      files_.count_blocks(*file);
      E4_TRY(files_.sync(*file));
      result_.touched.push_back(ino);
      if (file->node().i_links_count == 0) result_.orphans.push_back(ino);
    }
    space_.settle(files_.held());
    sum_up();
    ext2fs_mark_super_dirty(fs_.raw());
    ext2fs_mark_ib_dirty(fs_.raw());
    ext2fs_mark_bb_dirty(fs_.raw());
    return fs_.flush();
  }

  // The kernel keeps the totals in memory while mounted: after a crash those
  // on disk are older than the groups'.
  void sum_up() {
    ext2_filsys raw = fs_.raw();
    std::uint64_t blocks = 0, inodes = 0;
    for (GroupNo g = 0; g < raw->group_desc_count; ++g) {
      blocks += ext2fs_bg_free_blocks_count(raw, g);
      inodes += ext2fs_bg_free_inodes_count(raw, g);
    }
    ext2fs_free_blocks_count_set(raw->super, EXT2FS_C2B(raw, blocks));
    raw->super->s_free_inodes_count = static_cast<std::uint32_t>(inodes);
  }

  const RecoveryPlan& plan_;
  image::Filsys& fs_;
  FastCommitResult& result_;
  FcSpace space_;
  FcFiles files_;
  std::map<Ino, std::uint16_t> stated_links_;  // by INODE records of the running fast commit
  std::set<Ino> removed_dirs_;                 // in the running fast commit, by rmdir
};

}  // namespace

Result<FastCommitResult> replay_fast_commits(const RecoveryPlan& plan, image::Overlay& overlay) {
  FastCommitResult result;
  if (plan.fast_commit_records == 0 || !plan.log || plan.verdict == Verdict::failed) return result;
  image::Filsys fs = E4_TRY(image::Filsys::open(overlay, {.writable = true}));
  E4_TRY(fs.read_bitmaps());
  E4_TRY(Replay(plan, fs, result).run());
  result.full_check_needed = true;
  return result;
}

}  // namespace e4::journal
