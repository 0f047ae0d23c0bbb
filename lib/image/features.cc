// SPDX-License-Identifier: GPL-2.0-only
#include "image/features.h"

#include <ext2fs/ext2_fs.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>

namespace e4::image {

namespace {

using enum FeatureWord;

constexpr std::array kFeatures = {
    Feature{compat, 0x0001, "dir_prealloc", "directories are given blocks in advance (never used)", "", ""},
    Feature{compat, 0x0002, "imagic_inodes", "AFS inodes (never used)", "", ""},
    Feature{compat, 0x0004, "has_journal", "a journal in an inode or on a device", "2.4.15", "1.15"},
    Feature{compat, 0x0008, "ext_attr", "extended attributes", "2.6.0", "1.20"},
    Feature{compat, 0x0010, "resize_inode", "descriptor blocks kept for growing, in inode 7", "2.6.10", "1.35"},
    Feature{compat, 0x0020, "dir_index", "hashed directory trees", "2.6.0", "1.28"},
    Feature{compat, 0x0040, "lazy_bg", "uninitialised groups, an early form (never used)", "", ""},
    Feature{compat, 0x0080, "exclude_inode", "snapshots' exclude inode (never used)", "", ""},
    Feature{compat, 0x0100, "snapshot_bitmap", "snapshots' exclude bitmap (never used)", "", ""},
    Feature{compat, 0x0200, "sparse_super2", "at most two backup superblocks", "3.16", "1.43"},
    Feature{compat, 0x0400, "fast_commit", "small commits in an area of their own at the log's end", "5.10", "1.46"},
    Feature{compat, 0x0800, "stable_inodes", "inode numbers and the UUID never change", "5.5", "1.45.7"},
    Feature{compat, 0x1000, "orphan_file", "orphans are tracked in a file instead of a list", "5.15", "1.47.0"},
    Feature{incompat, 0x0001, "compression", "compressed files (never used)", "", ""},
    Feature{incompat, 0x0002, "filetype", "file types in directory entries", "2.2", "1.10"},
    Feature{incompat, 0x0004, "needs_recovery", "the journal holds transactions to replay", "2.4.15", "1.15"},
    Feature{incompat, 0x0008, "journal_dev", "this device is a journal, not a file system", "2.4.15", "1.15"},
    Feature{incompat, 0x0010, "meta_bg", "descriptors spread over the groups they describe", "2.6.0", "1.30"},
    Feature{incompat, 0x0040, "extent", "extent trees instead of indirect blocks", "2.6.28", "1.41"},
    Feature{incompat, 0x0080, "64bit", "block numbers of 64 bits", "2.6.28", "1.42"},
    Feature{incompat, 0x0100, "mmp", "protection against being mounted twice", "3.0", "1.42"},
    Feature{incompat, 0x0200, "flex_bg", "metadata of several groups packed together", "2.6.28", "1.41"},
    Feature{incompat, 0x0400, "ea_inode", "large attribute values in inodes of their own", "4.13", "1.43.5"},
    Feature{incompat, 0x1000, "dirdata", "data in directory entries (never in Linux)", "", ""},
    Feature{incompat, 0x2000, "metadata_csum_seed", "the checksum seed is kept apart from the UUID", "4.4", "1.43"},
    Feature{incompat, 0x4000, "large_dir", "directories above 2 GiB, three-level hash trees", "4.13", "1.43.5"},
    Feature{incompat, 0x8000, "inline_data", "small files kept in the inode", "3.8", "1.43"},
    Feature{incompat, 0x10000, "encrypt", "encrypted files", "4.1", "1.43"},
    Feature{incompat, 0x20000, "casefold", "directories that ignore case", "5.2", "1.45"},
    Feature{ro_compat, 0x0001, "sparse_super", "backup superblocks in groups 0, 1 and powers of 3, 5, 7", "2.2", "1.10"},
    Feature{ro_compat, 0x0002, "large_file", "files above 2 GiB", "2.4", "1.14"},
    Feature{ro_compat, 0x0008, "huge_file", "i_blocks counted in file-system blocks", "2.6.28", "1.41"},
    Feature{ro_compat, 0x0010, "uninit_bg", "descriptor checksums and uninitialised groups", "2.6.28", "1.41"},
    Feature{ro_compat, 0x0020, "dir_nlink", "more than 65000 subdirectories", "2.6.28", "1.41"},
    Feature{ro_compat, 0x0040, "extra_isize", "room in inodes for nanoseconds and creation time", "2.6.28", "1.41"},
    Feature{ro_compat, 0x0080, "snapshot", "snapshots (never in Linux)", "", ""},
    Feature{ro_compat, 0x0100, "quota", "quota usage in hidden inodes", "3.6", "1.42"},
    Feature{ro_compat, 0x0200, "bigalloc", "bitmaps count clusters of several blocks", "3.2", "1.42"},
    Feature{ro_compat, 0x0400, "metadata_csum", "checksums over all metadata", "3.5", "1.43"},
    Feature{ro_compat, 0x0800, "replica", "replicas (never in Linux)", "", ""},
    Feature{ro_compat, 0x1000, "read-only", "the image must not be written", "4.0", "1.43"},
    Feature{ro_compat, 0x2000, "project", "project quotas", "4.5", "1.43"},
    Feature{ro_compat, 0x4000, "shared_blocks", "files share blocks; only good read-only", "", "1.44.3"},
    Feature{ro_compat, 0x8000, "verity", "files with a Merkle tree behind their end", "5.4", "1.45.2"},
    Feature{ro_compat, 0x10000, "orphan_present", "the orphan file may hold entries", "5.15", "1.47.0"},
};

struct AliasName {
  std::string_view alias, name;
};
/// Dotted numbers; empty when it is none.
std::vector<unsigned> parse_version(std::string_view text) {
  std::vector<unsigned> parts;
  while (true) {
    unsigned n = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (error != std::errc{} || n > 9999) return {};
    parts.push_back(n);
    text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
    if (text.empty()) return parts;
    if (text.front() != '.') return {};
    text.remove_prefix(1);
  }
}

/// Incompat bits GRUB reads through or knows how to ignore, by release (its fs/ext2.c, from 2.00 on).
constexpr std::array<std::string_view, 7> kGrubSinceEver = {"filetype", "needs_recovery", "meta_bg", "extent",
                                                            "64bit",    "flex_bg",        "mmp"};
constexpr std::string_view kGrubEncrypt = "encrypt";  // 2.04

constexpr std::array kAliases = {
    AliasName{"extents", "extent"},         AliasName{"gdt_csum", "uninit_bg"},   AliasName{"uninit_groups", "uninit_bg"},
    AliasName{"dir_nlinks", "dir_nlink"},   AliasName{"readonly", "read-only"},   AliasName{"largedir", "large_dir"},
    AliasName{"csum_seed", "metadata_csum_seed"},
};

}  // namespace

std::span<const Feature> known_features() { return kFeatures; }

std::uint32_t& FeatureBits::word(FeatureWord w) {
  return w == FeatureWord::compat ? compat : w == FeatureWord::incompat ? incompat : ro_compat;
}

std::uint32_t FeatureBits::word(FeatureWord w) const {
  return w == FeatureWord::compat ? compat : w == FeatureWord::incompat ? incompat : ro_compat;
}

FeatureBits feature_bits(const ext2_super_block& super) {
  return {super.s_feature_compat, super.s_feature_incompat, super.s_feature_ro_compat};
}

std::optional<FeatureBit> parse_feature(std::string_view text) {
  for (const AliasName& a : kAliases)
    if (text == a.alias) text = a.name;
  for (const Feature& f : kFeatures)
    if (text == f.name) return FeatureBit{f.word, f.mask};
  if (!text.starts_with("FEATURE_") || text.size() < 10) return {};
  FeatureWord word{};
  switch (text[8]) {
    case 'C': word = FeatureWord::compat; break;
    case 'I': word = FeatureWord::incompat; break;
    case 'R': word = FeatureWord::ro_compat; break;
    default: return {};
  }
  unsigned bit = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + 9, end, bit);
  if (error != std::errc{} || stop != end || bit > 31) return {};
  return FeatureBit{word, std::uint32_t{1} << bit};
}

const Feature* find_feature(FeatureBit bit) {
  const auto it =
      std::ranges::find_if(kFeatures, [&](const Feature& f) { return f.word == bit.word && f.mask == bit.mask; });
  return it == kFeatures.end() ? nullptr : &*it;
}

std::string feature_name(FeatureBit bit) {
  if (const Feature* f = find_feature(bit)) return f->name;
  const char letter = bit.word == FeatureWord::compat ? 'C' : bit.word == FeatureWord::incompat ? 'I' : 'R';
  return std::string("FEATURE_") + letter + std::to_string(std::countr_zero(bit.mask));
}

std::optional<Reader> parse_reader(std::string_view text) {
  const std::size_t dash = text.find('-');
  if (dash == std::string_view::npos) return {};
  Reader r{std::string(text.substr(0, dash)), parse_version(text.substr(dash + 1)), std::string(text)};
  if (r.version.empty() || (r.name != "linux" && r.name != "e2fsprogs" && r.name != "grub")) return {};
  return r;
}

Reading reading_of(const Reader& reader, const Feature& feature) {
  const auto reached = [&](std::string_view since) { return !since.empty() && reader.version >= parse_version(since); };
  if (reader.name == "grub") {
    if (feature.word != FeatureWord::incompat) return Reading::full;
    const std::string_view name = feature.name;
    if (std::ranges::find(kGrubSinceEver, name) != kGrubSinceEver.end()) return Reading::full;
    if (name == kGrubEncrypt && reached("2.04")) return Reading::full;
    if ((name == "metadata_csum_seed" || name == "large_dir") && reached("2.12")) return Reading::full;
    return Reading::refused;
  }
  if (reader.name == "e2fsprogs") return reached(feature.e2fsprogs_since) ? Reading::full : Reading::refused;
  if (reached(feature.linux_since) || feature.word == FeatureWord::compat) return Reading::full;
  return feature.word == FeatureWord::ro_compat ? Reading::read_only : Reading::refused;
}

std::vector<std::string> feature_names(const FeatureBits& bits) {
  std::vector<std::string> names;
  for (const FeatureWord w : {FeatureWord::compat, FeatureWord::incompat, FeatureWord::ro_compat})
    for (unsigned bit = 0; bit < 32; ++bit)
      if (bits.word(w) >> bit & 1) names.push_back(feature_name({w, std::uint32_t{1} << bit}));
  return names;
}

}  // namespace e4::image
