// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "image/features.h"

namespace e4::mkfs {

/// Which features a file system gets, and who said so: what was only a default
/// may be dropped to make a combination sound; what was asked for may not, and
/// becomes an error that names it.
class Choice {
 public:
  /// Starts from `defaults` and takes the words of -O in order. "name" or
  /// "+name" adds; "^name", "-name" and "no_name" take away; "none" starts
  /// from nothing. Taking away what nobody knows is a note, since it is not
  /// there; adding it, or adding what cannot be set when a file system is
  /// made, is an Error (usage).
  static Result<Choice> make(const image::FeatureBits& defaults, const std::vector<std::string>& words);

  [[nodiscard]] const image::FeatureBits& bits() const { return bits_; }
  [[nodiscard]] bool has(std::string_view name) const;
  [[nodiscard]] bool asked_for(std::string_view name) const;     // by name, and not taken away again
  [[nodiscard]] bool asked_against(std::string_view name) const; // by name or by "none"
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

  /// Turns a feature on because another option needs it.
  void need(std::string_view name);
  /// Turns off a default feature with a note that says why; an Error (usage)
  /// when it was asked for by name. Nothing happens when it is off.
  Result<void> drop(std::string_view name, const std::string& why);
  /// Drops every default feature that `reader` refuses or cannot write with,
  /// one note for all; an Error when one of them was asked for by name.
  Result<void> suit(const image::Reader& reader);
  /// Applies every rule between features that does not depend on sizes: what
  /// the kernel or e2fsck would refuse is dropped (defaults) or an Error.
  Result<void> settle(std::uint32_t inode_bytes);

 private:
  void set(std::string_view name, bool on);
  image::FeatureBits bits_, asked_on_, asked_off_;
  std::vector<std::string> notes_;
};

}  // namespace e4::mkfs
