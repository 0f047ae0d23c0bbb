// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/crash_device.h"

namespace e4::testing_support {

/// Damages an image in the places recovery looks at. Half of the damage to
/// sealed structures gets a right checksum afterwards, so that it reaches the
/// code behind the checksum test.
class Mutator {
 public:
  /// Reads the layout from a healthy image.
  explicit Mutator(const Bytes& image);
  /// One to six changes that follow from `seed` alone; says what it did.
  std::string apply(CrashDevice& device, std::uint64_t seed) const;

 private:
  struct Area {
    std::string name;
    std::uint64_t offset = 0, length_bytes = 0;
    std::uint32_t weight = 1;
    enum Seal { none, super, descriptors, inode, journal_super } seal = none;
    std::uint32_t number = 0;  // inode number
  };
  void add(std::string name, std::uint64_t offset, std::uint64_t length_bytes, std::uint32_t weight, Area::Seal seal = Area::none,
           std::uint32_t number = 0);
  void reseal(CrashDevice& device, const Area& area) const;

  std::vector<Area> areas_;
  std::uint32_t weights_ = 0;
  std::uint32_t block_bytes_ = 0, inode_bytes_ = 0, desc_bytes_ = 0, groups_ = 0, csum_seed_ = 0;
  std::uint64_t desc_offset_ = 0;
  bool csum_ = false;
};

}  // namespace e4::testing_support
