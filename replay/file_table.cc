// SPDX-License-Identifier: GPL-2.0-only
#include "replay/file_table.h"

#include <algorithm>
#include <iterator>

namespace e4::replay {

Result<FileTable::File*> FileTable::find(Ino ino) {
  if (auto it = files_.find(ino); it != files_.end()) return &it->second;
  File file;
  std::map<Blk, Piece> owned;
  E4_TRY(loader_(ino, file, owned));
  for (const auto& [block, piece] : owned) {
    // What the trace has already given to somebody else stays there.
    const auto next = pieces_.lower_bound(block);
    const bool before = next != pieces_.begin() && std::prev(next)->first + std::prev(next)->second.len_blocks > block;
    if (before || (next != pieces_.end() && next->first < block + piece.len_blocks)) continue;
    pieces_[block] = piece;
  }
  return &(files_[ino] = file);
}

void FileTable::create(Ino ino, std::uint32_t mode, Ino parent) {
  File& f = files_[ino];
  const bool in_image = f.in_image;
  f = File{};
  f.mode = mode;
  f.parent = parent;
  f.in_image = in_image;
  f.created = f.changed = true;
}

Result<void> FileTable::release(Ino ino) {
  File* f = E4_TRY(find(ino));
  f->gone = f->changed = true;
  f->links = 0;
  return {};
}

Result<void> FileTable::unlink(Ino ino) {
  File* f = E4_TRY(find(ino));
  f->changed = true;
  if (f->links > 0) --f->links;
  f->unlinked = f->links == 0;
  return {};
}

Result<void> FileTable::grow(Ino ino, std::uint64_t size_bytes) {
  File* f = E4_TRY(find(ino));
  if (size_bytes > f->size_bytes) {
    f->size_bytes = size_bytes;
    f->changed = true;
  }
  return {};
}

Result<void> FileTable::set_size(Ino ino, std::uint64_t size_bytes) {
  File* f = E4_TRY(find(ino));
  f->size_bytes = size_bytes;
  f->changed = true;
  return {};
}

void FileTable::split_at(Blk block) {
  auto it = pieces_.upper_bound(block);
  if (it == pieces_.begin()) return;
  --it;
  const Blk start = it->first;
  Piece& p = it->second;
  if (start == block || start + p.len_blocks <= block) return;
  Piece tail = p;
  const auto head_blocks = static_cast<std::uint32_t>(block - start);
  tail.len_blocks -= head_blocks;
  if (tail.kind == Kind::data) tail.lblk += head_blocks;
  p.len_blocks = head_blocks;
  pieces_[block] = tail;
}

std::uint64_t FileTable::cut(Blk block, std::uint64_t blocks) {
  split_at(block);
  split_at(block + blocks);
  std::uint64_t taken = 0;
  auto it = pieces_.lower_bound(block);
  while (it != pieces_.end() && it->first < block + blocks) {
    taken += it->second.len_blocks;
    if (auto f = files_.find(it->second.ino); f != files_.end()) f->second.changed = true;
    it = pieces_.erase(it);
  }
  return taken;
}

Result<void> FileTable::allocate(Ino ino, Kind kind, Lblk lblk, Blk block, std::uint32_t blocks) {
  if (blocks == 0) return {};
  File* f = E4_TRY(find(ino));
  f->changed = true;
  cut(block, blocks);
  Piece p{ino, blocks, lblk, kind};
  // Extend the piece before it, so that files written in steps stay one run.
  if (auto it = pieces_.lower_bound(block); it != pieces_.begin()) {
    auto& [before, q] = *std::prev(it);
    if (before + q.len_blocks == block && q.ino == ino && q.kind == kind && kind == Kind::data &&
        q.lblk + q.len_blocks == lblk && q.len_blocks <= UINT32_MAX - blocks) {
      q.len_blocks += blocks;
      return {};
    }
  }
  pieces_[block] = p;
  return {};
}

Result<std::uint64_t> FileTable::free(Ino ino, Blk block, std::uint64_t blocks) {
  if (ino != 0) E4_TRY(find(ino));
  return blocks - std::min(blocks, cut(block, blocks));
}

Result<void> FileTable::collapse(Ino ino, Lblk from, Lblk blocks) {
  File* f = E4_TRY(find(ino));
  f->changed = true;
  const std::uint64_t end = std::uint64_t{from} + blocks;
  // Cut at the edges first; the freed blocks themselves follow as events.
  std::vector<Blk> edges;
  for (const auto& [block, p] : pieces_)
    if (p.ino == ino && p.kind == Kind::data)
      for (const std::uint64_t edge : {std::uint64_t{from}, end})
        if (p.lblk < edge && edge < std::uint64_t{p.lblk} + p.len_blocks) edges.push_back(block + (edge - p.lblk));
  for (const Blk b : edges) split_at(b);
  for (auto& [block, p] : pieces_) {
    if (p.ino != ino || p.kind != Kind::data || p.lblk < from) continue;
    if (p.lblk < end)
      p.kind = Kind::loose;
    else
      p.lblk -= blocks;
  }
  return {};
}

Result<void> FileTable::insert(Ino ino, Lblk from, Lblk blocks) {
  File* f = E4_TRY(find(ino));
  f->changed = true;
  std::vector<Blk> edges;
  for (const auto& [block, p] : pieces_)
    if (p.ino == ino && p.kind == Kind::data && p.lblk < from && from < std::uint64_t{p.lblk} + p.len_blocks)
      edges.push_back(block + (from - p.lblk));
  for (const Blk b : edges) split_at(b);
  for (auto& [block, p] : pieces_) {
    if (p.ino != ino || p.kind != Kind::data || p.lblk < from) continue;
    if (std::uint64_t{p.lblk} + blocks + p.len_blocks > UINT32_MAX)
      p.kind = Kind::loose;
    else
      p.lblk += blocks;
  }
  return {};
}

std::map<Ino, std::vector<std::pair<Blk, FileTable::Piece>>> FileTable::by_owner() const {
  std::map<Ino, std::vector<std::pair<Blk, Piece>>> m;
  for (const auto& [block, p] : pieces_) m[p.ino].emplace_back(block, p);
  return m;
}

}  // namespace e4::replay
