// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "image/filsys.h"

namespace e4::replay {

struct Name {
  Ino ino = 0;
  std::uint8_t type = 0;  // EXT2_FT_*; 0 without the filetype feature
  std::string name;
};

/// The live entries of a directory block, "." and ".." included; stops at the
/// first entry that cannot be (what follows it is lost). `bytes`: a whole block.
std::vector<Name> parse_dir_block(image::Filsys& fs, const std::vector<std::byte>& block);

/// Packs names into linear directory blocks in the given order, as many as fit
/// into `blocks` blocks; names that did not fit are left in `rest`. Each block
/// is complete (record lengths, checksum tail) but for the checksum itself.
std::vector<std::vector<std::byte>> pack_dir_blocks(image::Filsys& fs, const std::vector<Name>& names, std::size_t blocks,
                                                    std::vector<Name>& rest);

}  // namespace e4::replay
