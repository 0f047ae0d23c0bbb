// SPDX-License-Identifier: GPL-2.0-only
#include "mkfs/report.h"

#include <ext2fs/ext2fs.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

namespace e4::mkfs {

namespace {

std::uint64_t blocks_count(const ext2_super_block& s) { return ext2fs_blocks_count(const_cast<ext2_super_block*>(&s)); }
std::uint64_t reserved_count(const ext2_super_block& s) {
  return ext2fs_r_blocks_count(const_cast<ext2_super_block*>(&s));
}
std::uint64_t free_count(const ext2_super_block& s) { return ext2fs_free_blocks_count(const_cast<ext2_super_block*>(&s)); }

void print_details(std::ostream& out, const Outcome& made) {
  const ext2_super_block& s = made.built.super;
  const std::uint64_t blocks = blocks_count(s);
  const std::uint32_t cluster = made.plan.block_bytes * made.plan.cluster_blocks;
  out << fmt::format("Filesystem label={}\nOS type: Linux\n", made.plan.label)
      << fmt::format("Block size={} (log={})\n", made.plan.block_bytes, s.s_log_block_size)
      << (made.plan.cluster_blocks > 1 ? fmt::format("Cluster size={} (log={})\n", cluster, s.s_log_cluster_size)
                                       : fmt::format("Fragment size={} (log={})\n", cluster, s.s_log_cluster_size))
      << fmt::format("Stride={} blocks, Stripe width={} blocks\n", s.s_raid_stride, s.s_raid_stripe_width)
      << fmt::format("{} inodes, {} blocks\n", s.s_inodes_count, blocks)
      << fmt::format("{} blocks ({:.2f}%) reserved for the super user\n", reserved_count(s),
                     100.0 * static_cast<double>(reserved_count(s)) / static_cast<double>(blocks))
      << fmt::format("First data block={}\n", s.s_first_data_block)
      << fmt::format("{} block group{}\n", made.built.groups, made.built.groups == 1 ? "" : "s")
      << fmt::format("{} blocks per group, {} clusters per group\n", s.s_blocks_per_group, s.s_clusters_per_group)
      << fmt::format("{} inodes per group\n", s.s_inodes_per_group);
  std::string names;
  for (const std::string& n : image::feature_names(made.plan.features)) names += " " + n;
  out << "Features:" << names << '\n';
}

}  // namespace

void print_geometry(std::ostream& out, const Outcome& made) {
  const ext2_super_block& s = made.built.super;
  if (made.wishes.verbose)
    print_details(out, made);
  else
    out << fmt::format("Creating filesystem with {} {}k blocks and {} inodes\n", blocks_count(s),
                       made.plan.block_bytes / 1024, s.s_inodes_count);
  out << "Filesystem UUID: " << format_uuid(made.plan.uuid) << '\n';
  if (!made.built.backups.empty()) {
    out << "Superblock backups stored on blocks:";
    std::size_t column = 80;
    for (std::size_t i = 0; i < made.built.backups.size(); ++i) {
      const std::string text = std::to_string(made.built.backups[i]) + (i + 1 < made.built.backups.size() ? "," : "");
      if (column + 1 + text.size() > 72) {
        out << " \n\t" << text;
        column = 8 + text.size();
      } else {
        out << ' ' << text;
        column += 1 + text.size();
      }
    }
    out << '\n';
  }
  out << '\n';
}

void print_steps(std::ostream& out, const Outcome& made) {
  out << "Allocating group tables: done\nWriting inode tables: done\n";
  if (made.built.journal_blocks != 0) out << fmt::format("Creating journal ({} blocks): done\n", made.built.journal_blocks);
  if (made.built.orphan_inum != 0)
    out << fmt::format("Creating orphan file ({} blocks): done\n", made.built.orphan_file_blocks);
  if (ext2fs_has_feature_mmp(const_cast<ext2_super_block*>(&made.built.super)) != 0)
    out << fmt::format("Multiple mount protection is enabled with update interval {} seconds.\n",
                       made.built.super.s_mmp_update_interval);
  out << "Writing superblocks and filesystem accounting information: done\n\n";
}

void print_json(std::ostream& out, const Outcome& made) {
  using nlohmann::json;
  const ext2_super_block& s = made.built.super;
  const Plan& p = made.plan;
  std::vector<std::string> notes = p.notes;
  notes.insert(notes.end(), made.built.notes.begin(), made.built.notes.end());
  json j = {
      {"schema", "e4progs-mkfs"},
      {"schema_version", 1},
      {"tool", "e4mkfs"},
      {"tool_version", E4_VERSION},
      {"image", made.wishes.image},
      {"dry_run", made.wishes.dry_run},
      {"type", made.wishes.type},
      {"usage", p.usage},
      {"offset_bytes", p.offset_bytes},
      {"uuid", format_uuid(p.uuid)},
      {"hash_seed", format_uuid(p.hash_seed)},
      {"label", p.label},
      {"block_bytes", p.block_bytes},
      {"cluster_bytes", std::uint64_t{p.block_bytes} * p.cluster_blocks},
      {"blocks", blocks_count(s)},
      {"free_blocks", free_count(s)},
      {"reserved_blocks", reserved_count(s)},
      {"inodes", s.s_inodes_count},
      {"free_inodes", s.s_free_inodes_count},
      {"inode_bytes", s.s_inode_size},
      {"groups", made.built.groups},
      {"blocks_per_group", s.s_blocks_per_group},
      {"inodes_per_group", s.s_inodes_per_group},
      {"reserved_gdt_blocks", s.s_reserved_gdt_blocks},
      {"features", image::feature_names(p.features)},
      {"backup_superblocks", made.built.backups},
      {"journal", nullptr},
      {"orphan_file", nullptr},
      {"notes", notes},
      {"bytes_written", made.bytes_written},
  };
  if (made.built.journal_blocks != 0)
    j["journal"] = {{"inode", s.s_journal_inum},
                    {"blocks", made.built.journal_blocks},
                    {"fast_commit_blocks", made.built.fast_commit_blocks}};
  if (made.built.orphan_inum != 0)
    j["orphan_file"] = {{"inode", made.built.orphan_inum},
                        {"blocks", made.built.orphan_file_blocks},
                        {"bytes", std::uint64_t{made.built.orphan_file_blocks} * p.block_bytes},
                        {"slots", std::uint64_t{made.built.orphan_file_blocks} * (p.block_bytes / 4 - 2)}};
  out << j.dump(2, ' ', false, json::error_handler_t::replace) << '\n';
}

}  // namespace e4::mkfs
