// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct ext2_super_block;

namespace e4::image {

/// Which of the superblock's three feature words a bit belongs to, and so what
/// an old reader does with a bit it does not know: ignore it (compat), refuse
/// (incompat), or refuse to write (ro_compat).
enum class FeatureWord { compat, incompat, ro_compat };

/// One feature bit. `name` is the word e2fsprogs uses; `linux_since` and
/// `e2fsprogs_since` are the first releases that handle it ("" if it never was in one).
struct Feature {
  FeatureWord word;
  std::uint32_t mask;  // exactly one bit
  const char* name;
  const char* meaning;
  const char* linux_since;
  const char* e2fsprogs_since;
};

/// Every feature this suite knows by name, by word and then by bit.
std::span<const Feature> known_features();

/// A set of feature bits: the three words of one superblock.
struct FeatureBits {
  std::uint32_t compat = 0, incompat = 0, ro_compat = 0;
  std::uint32_t& word(FeatureWord w);
  [[nodiscard]] std::uint32_t word(FeatureWord w) const;
  [[nodiscard]] bool operator==(const FeatureBits&) const = default;
};
FeatureBits feature_bits(const ext2_super_block& super);

/// One bit, known by name or not.
struct FeatureBit {
  FeatureWord word;
  std::uint32_t mask;
  bool operator==(const FeatureBit&) const = default;
};

/// "orphan_file", an alias ("extents", "gdt_csum"), or the form in which
/// unknown bits are printed: FEATURE_C12, FEATURE_I5, FEATURE_R16.
std::optional<FeatureBit> parse_feature(std::string_view text);

/// The entry for a bit, or nullptr when nobody has named it.
const Feature* find_feature(FeatureBit bit);

/// "orphan_file", or "FEATURE_C20" for a bit without a name.
std::string feature_name(FeatureBit bit);

/// A reader that an image must suit: "linux-5.10", "e2fsprogs-1.46.2" or "grub-2.06".
struct Reader {
  std::string name;                    // "linux", "e2fsprogs", "grub"
  std::vector<unsigned> version;       // most significant part first
  std::string text;                    // as given
};
/// Nothing when the name is not one of the three or the version is no dotted number.
std::optional<Reader> parse_reader(std::string_view text);

/// What a reader makes of a feature it meets. A kernel that does not know a
/// compat bit mounts all the same, and one that does not know an ro_compat bit
/// mounts read-only; e2fsck refuses every bit it does not know; GRUB only reads.
enum class Reading { full, read_only, refused };
Reading reading_of(const Reader& reader, const Feature& feature);

/// Names of all bits set, in e2fsprogs's order: compat, incompat, ro_compat.
std::vector<std::string> feature_names(const FeatureBits& bits);

}  // namespace e4::image
