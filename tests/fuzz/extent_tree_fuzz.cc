// SPDX-License-Identifier: GPL-2.0-only
// Mappings of every kind, changed at will: a walk ends, and what it calls sane
// can be cut anywhere and walked again.
#include <algorithm>
#include <cstdlib>
#include <memory>

#include "orphan/inode.h"
#include "orphan/mapping.h"
#include "tests/fuzz/tiny_image.h"

namespace {

using namespace e4;

void require(bool holds) {
  if (!holds) std::abort();
}

std::uint64_t blocks_of(const std::vector<orphan::Run>& runs) {
  std::uint64_t n = 0;
  for (const auto& r : runs) n += r.blocks;
  return n;
}

void cut(image::Device& device, Ino ino, std::uint64_t end) {
  image::Overlay overlay(device, fuzz::kBlockBytes);
  auto volume = orphan::Volume::load(overlay);
  if (!volume) return;
  const auto view = orphan::InodeTable(*volume).view(ino);
  if (!view) return;
  std::vector<std::byte> raw(view->begin(), view->end());
  orphan::Mapping whole, rest;
  require(orphan::walk_mapping(*volume, ino, orphan::InodeView(raw), whole).has_value());
  if (!whole.ok() || whole.meta.size() > 64) return;
  // A tree block that is its own data, or part of the inode table, changes under the cut: ownership rules that out.
  std::vector<Blk> meta = whole.meta;
  std::sort(meta.begin(), meta.end());
  if (std::adjacent_find(meta.begin(), meta.end()) != meta.end()) return;
  const auto gone = orphan::cut_mapping(*volume, ino, raw, end);
  require(gone.has_value());
  require(orphan::walk_mapping(*volume, ino, orphan::InodeView(raw), rest).has_value());
  require(rest.ok());
  require(blocks_of(rest.runs) + blocks_of(gone->runs) == blocks_of(whole.runs));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  fuzz::TinyImage image;
  image.apply({data + 2, size - 2});
  const auto device = image.device();
  for (const Ino ino : {13U, 14U, 15U}) cut(*device, ino, data[0] % 32U | (data[1] & 1U) << 20);
  return 0;
}
