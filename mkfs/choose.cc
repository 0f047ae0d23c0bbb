// SPDX-License-Identifier: GPL-2.0-only
#include "mkfs/choose.h"

#include <algorithm>
#include <array>

namespace e4::mkfs {

namespace {

// What a new file system can be given. The rest are states (needs_recovery,
// orphan_present), were never finished, or need content made with them.
constexpr std::array<std::string_view, 31> kSettable = {
    "has_journal", "ext_attr",   "resize_inode",  "dir_index", "sparse_super2", "fast_commit", "stable_inodes",
    "orphan_file", "filetype",   "meta_bg",       "extent",    "64bit",         "mmp",         "flex_bg",
    "ea_inode",    "metadata_csum_seed", "large_dir", "inline_data", "encrypt", "casefold",    "sparse_super",
    "large_file",  "huge_file",  "uninit_bg",     "dir_nlink", "extra_isize",   "bigalloc",    "metadata_csum",
    "verity",      "quota",      "project"};

image::FeatureBit bit_of(std::string_view name) {
  return image::parse_feature(name).value_or(image::FeatureBit{image::FeatureWord::compat, 0});
}

bool contains(const image::FeatureBits& bits, image::FeatureBit bit) {
  return bit.mask != 0 && (bits.word(bit.word) & bit.mask) != 0;
}

struct Word {
  std::string_view name;
  bool on;
};
/// The name behind a sign. "no_x" takes x away unless there is a feature called "no_x".
Word split_sign(std::string_view text) {
  if (text.starts_with('^') || text.starts_with('-')) return {text.substr(1), false};
  if (text.starts_with('+')) return {text.substr(1), true};
  if (text.starts_with("no_") && !image::parse_feature(text)) return {text.substr(3), false};
  return {text, true};
}

}  // namespace

Result<Choice> Choice::make(const image::FeatureBits& defaults, const std::vector<std::string>& words) {
  Choice c;
  c.bits_ = defaults;
  for (const std::string& text : words) {
    if (text.empty()) continue;
    if (text == "none") {
      c.bits_ = {};
      c.asked_on_ = {};
      c.asked_off_ = {~0U, ~0U, ~0U};
      continue;
    }
    const Word word = split_sign(text);
    const auto bit = image::parse_feature(word.name);
    const std::string name(word.name);
    if (!word.on) {
      if (!bit || image::find_feature(*bit) == nullptr) {
        c.notes_.push_back("'" + text + "': there is no feature '" + name + "' to leave out");
        continue;
      }
    } else if (!bit || image::find_feature(*bit) == nullptr) {
      return make_error(ErrorKind::usage, "unknown feature '" + name + "'");
    } else if (const std::string known = image::feature_name(*bit); std::ranges::find(kSettable, known) == kSettable.end()) {
      return make_error(ErrorKind::usage, "feature '" + name + "' cannot be set when a file system is made");
    }
    c.bits_.word(bit->word) = (c.bits_.word(bit->word) & ~bit->mask) | (word.on ? bit->mask : 0);
    c.asked_on_.word(bit->word) = (c.asked_on_.word(bit->word) & ~bit->mask) | (word.on ? bit->mask : 0);
    c.asked_off_.word(bit->word) = (c.asked_off_.word(bit->word) & ~bit->mask) | (word.on ? 0 : bit->mask);
  }
  return c;
}

bool Choice::has(std::string_view name) const { return contains(bits_, bit_of(name)); }
bool Choice::asked_for(std::string_view name) const { return contains(asked_on_, bit_of(name)); }
bool Choice::asked_against(std::string_view name) const { return contains(asked_off_, bit_of(name)); }

void Choice::set(std::string_view name, bool on) {
  const image::FeatureBit bit = bit_of(name);
  bits_.word(bit.word) = (bits_.word(bit.word) & ~bit.mask) | (on ? bit.mask : 0);
}

void Choice::need(std::string_view name) {
  set(name, true);
  const image::FeatureBit bit = bit_of(name);
  asked_on_.word(bit.word) |= bit.mask;
}

Result<void> Choice::drop(std::string_view name, const std::string& why) {
  if (!has(name)) return {};
  if (asked_for(name)) return make_error(ErrorKind::usage, "feature '" + std::string(name) + "': " + why);
  set(name, false);
  notes_.push_back(std::string(name) + " left out: " + why);
  return {};
}

Result<void> Choice::suit(const image::Reader& reader) {
  std::string left_out;
  for (const image::Feature& f : image::known_features()) {
    if (!has(f.name)) continue;
    bool usable = image::reading_of(reader, f) == image::Reading::full;
    // The kernel will set orphan_present, which bars older kernels from writing until it is clean again.
    if (f.name == std::string_view("orphan_file"))
      usable = usable && image::reading_of(reader, *image::find_feature(bit_of("orphan_present"))) == image::Reading::full;
    if (usable) continue;
    if (asked_for(f.name))
      return make_error(ErrorKind::usage, "feature '" + std::string(f.name) + "': " + reader.text + " cannot use it");
    set(f.name, false);
    left_out += std::string(left_out.empty() ? "" : ", ") + f.name;
  }
  if (!left_out.empty()) notes_.push_back("for " + reader.text + " left out: " + left_out);
  return {};
}

Result<void> Choice::settle(std::uint32_t inode_bytes) {
  // metadata_csum covers the descriptors too; both bits together are an error to e2fsck.
  if (has("metadata_csum")) {
    if (asked_for("uninit_bg") && asked_for("metadata_csum"))
      return make_error(ErrorKind::usage, "features 'uninit_bg' and 'metadata_csum' exclude each other");
    if (has("uninit_bg") && asked_for("uninit_bg") && !asked_for("metadata_csum")) set("metadata_csum", false);
    else set("uninit_bg", false);
  }
  if (!has("metadata_csum")) E4_TRY(drop("metadata_csum_seed", "it needs metadata_csum"));
  if (!has("extent")) {
    E4_TRY(drop("64bit", "it needs extent"));
    E4_TRY(drop("bigalloc", "it needs extent"));
  }
  if (has("meta_bg")) E4_TRY(drop("resize_inode", "it cannot be combined with meta_bg"));
  if (!has("sparse_super"))
    E4_TRY(drop("resize_inode", "it needs sparse_super, or every group would hold reserved descriptor blocks"));
  if (!has("has_journal")) {
    E4_TRY(drop("fast_commit", "it needs a journal (has_journal)"));
    E4_TRY(drop("orphan_file", "it needs a journal (has_journal)"));
  }
  if (inode_bytes <= 128) {
    E4_TRY(drop("extra_isize", "inodes of 128 bytes have no room for it"));
    E4_TRY(drop("inline_data", "inodes of 128 bytes have no room for it"));
    E4_TRY(drop("project", "inodes of 128 bytes have no room for it"));
  }
  if (!has("ext_attr")) {
    E4_TRY(drop("inline_data", "it needs ext_attr"));
    E4_TRY(drop("ea_inode", "it needs ext_attr"));
  }
  if (!has("dir_index")) E4_TRY(drop("large_dir", "it needs dir_index"));
  if (has("casefold") && has("encrypt") && !has("dir_index"))
    return make_error(ErrorKind::usage, "features 'casefold' and 'encrypt' together need dir_index");
  return {};
}

}  // namespace e4::mkfs
