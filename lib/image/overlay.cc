// SPDX-License-Identifier: GPL-2.0-only
#include "image/overlay.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <unordered_map>

#include "base/assert.h"

namespace e4::image {
namespace {

constexpr std::size_t kCleanCacheBytes = 16 * kMiB;
constexpr std::size_t kSpareBytes = 64 * kMiB;
constexpr std::size_t kReadaheadBytesMax = 256 * kKiB;
constexpr Blk kNoBlock = ~Blk{0};
constexpr unsigned char kJournalMagic[4] = {0xC0, 0x3B, 0x39, 0x98};

struct AliasTo {
  Blk source;
  bool unescape;
};

}  // namespace

struct Overlay::Impl {
  // Dirty blocks live in their own allocations: edit() spans stay valid while the map grows.
  std::unordered_map<Blk, std::unique_ptr<std::byte[]>> dirty;
  // Buffers of settled blocks, for the next ones: a release in batches would
  // otherwise take and return the same pages over and over. Bounded.
  std::vector<std::unique_ptr<std::byte[]>> spare;
  std::unique_ptr<std::byte[]> buffer(std::uint32_t bytes) {
    if (spare.empty()) return std::unique_ptr<std::byte[]>(new std::byte[bytes]);
    auto b = std::move(spare.back());
    spare.pop_back();
    return b;
  }
  std::unordered_map<Blk, AliasTo> aliases;

  // Clean cache: direct-mapped, so that a run of blocks is a run of slots and
  // read-ahead is one read. tag[slot] is the block held there.
  std::unique_ptr<std::byte[]> cache;  // not cleared: most of it is never touched on a small image
  std::vector<Blk> tag;
  // Read-ahead: several sequential readers take turns (an inode table, the
  // orphan file, bitmaps), so each has a stream of its own.
  struct Stream {
    Blk next = kNoBlock;      // the block whose miss goes on with it
    Blk before = kNoBlock;    // ... or goes on backwards, as the orphan list does (newest first)
    std::size_t window = 1;   // blocks to read then
    std::uint64_t used = 0;
  };
  std::array<Stream, 8> streams;
  std::uint64_t turn = 0;
  std::vector<std::byte> scratch;  // an unescaped alias

  // One-entry memo: walks of inode tables edit the same block sixteen times.
  Blk last_dirty = kNoBlock;
  std::byte* last_data = nullptr;
};

Overlay::Overlay(Device& base, std::uint32_t block_bytes)
    : base_(base), block_bytes_(block_bytes), impl_(std::make_unique<Impl>()) {
  E4_ASSERT(std::has_single_bit(block_bytes) && block_bytes >= 1024 && block_bytes <= 65536);
}

Overlay::~Overlay() = default;

std::uint64_t Overlay::size() const { return base_.size(); }
const std::string& Overlay::name() const { return base_.name(); }
Blk Overlay::blocks_count() const { return base_.size() / block_bytes_; }

Result<std::span<const std::byte>> Overlay::view(Blk block) {
  Impl& m = *impl_;
  if (block == m.last_dirty) return std::span<const std::byte>(m.last_data, block_bytes_);
  if (block >= blocks_count())
    return make_error(ErrorKind::corrupt, name() + ": block is past the end of the device").at_block(block);
  if (auto it = m.dirty.find(block); it != m.dirty.end()) {
    m.last_dirty = block;
    m.last_data = it->second.get();
    return std::span<const std::byte>(m.last_data, block_bytes_);
  }
  Blk source = block;
  bool unescape = false;
  if (!m.aliases.empty()) {
    if (auto it = m.aliases.find(block); it != m.aliases.end()) {
      source = it->second.source;
      unescape = it->second.unescape;
    }
  }
  if (m.tag.empty()) {
    const std::size_t slots = std::max<std::uint64_t>(64, std::min<std::uint64_t>(kCleanCacheBytes, base_.size()) / block_bytes_);
    m.tag.assign(slots, kNoBlock);
    m.cache.reset(new std::byte[slots * block_bytes_]);
  }
  const std::size_t slots = m.tag.size();
  const std::size_t slot = source % slots;
  if (m.tag[slot] != source) {
    Impl::Stream* stream = &m.streams[0];
    for (auto& s : m.streams) {
      if (s.next == source || s.before == source) {
        stream = &s;
        break;
      }
      if (s.used < stream->used) stream = &s;
    }
    const bool back = stream->before == source;
    stream->window = back || stream->next == source ? std::min(stream->window * 2, kReadaheadBytesMax / block_bytes_) : 1;
    stream->used = ++m.turn;
    std::size_t n = back ? std::min<std::uint64_t>({stream->window, slot + 1, source + 1})
                         : std::min<std::uint64_t>({stream->window, slots - slot, blocks_count() - source});
    Blk first = back ? source - (n - 1) : source;
    const auto fetch = [&] {
      const std::size_t at = first % slots;
      std::fill_n(m.tag.begin() + static_cast<std::ptrdiff_t>(at), n, kNoBlock);
      return base_.read(first * block_bytes_, std::span(m.cache.get() + at * block_bytes_, n * block_bytes_));
    };
    auto r = fetch();
    if (!r && n > 1) {  // a bad sector further on must not hide this block
      n = 1;
      first = source;
      r = fetch();
    }
    if (!r) return Error(std::move(r).error()).at_block(source);
    for (std::size_t i = 0; i < n; ++i) m.tag[first % slots + i] = first + i;
    stream->next = first + n;
    stream->before = first == 0 ? kNoBlock : first - 1;
  }
  const std::byte* data = m.cache.get() + slot * block_bytes_;
  if (unescape) {
    m.scratch.assign(data, data + block_bytes_);
    std::memcpy(m.scratch.data(), kJournalMagic, sizeof kJournalMagic);
    data = m.scratch.data();
  }
  return std::span<const std::byte>(data, block_bytes_);
}

Result<std::span<std::byte>> Overlay::edit(Blk block) {
  Impl& m = *impl_;
  if (block == m.last_dirty) return std::span<std::byte>(m.last_data, block_bytes_);
  if (auto it = m.dirty.find(block); it != m.dirty.end()) {
    m.last_dirty = block;
    m.last_data = it->second.get();
    return std::span<std::byte>(m.last_data, block_bytes_);
  }
  const auto old = E4_TRY(view(block));
  std::unique_ptr<std::byte[]> copy = m.buffer(block_bytes_);
  std::memcpy(copy.get(), old.data(), block_bytes_);
  m.aliases.erase(block);
  m.last_dirty = block;
  m.last_data = (m.dirty[block] = std::move(copy)).get();
  return std::span<std::byte>(m.last_data, block_bytes_);
}

Result<std::span<std::byte>> Overlay::create(Blk block) {
  Impl& m = *impl_;
  if (block >= blocks_count())
    return make_error(ErrorKind::corrupt, name() + ": block is past the end of the device").at_block(block);
  auto& data = m.dirty[block];
  if (!data) data = m.buffer(block_bytes_);
  std::memset(data.get(), 0, block_bytes_);
  m.aliases.erase(block);
  m.last_dirty = block;
  m.last_data = data.get();
  return std::span<std::byte>(m.last_data, block_bytes_);
}

Result<void> Overlay::read(std::uint64_t offset, std::span<std::byte> out) {
  if (out.size() > size() || offset > size() - out.size())
    return make_error(ErrorKind::corrupt, name() + ": read at byte " + std::to_string(offset) + " is past the end");
  while (!out.empty()) {
    const Blk block = offset / block_bytes_;
    const std::size_t in = offset % block_bytes_;
    const std::size_t n = std::min<std::size_t>(out.size(), block_bytes_ - in);
    if (block >= blocks_count()) return base_.read(offset, out);  // the odd tail
    const auto data = E4_TRY(view(block));
    std::memcpy(out.data(), data.data() + in, n);
    out = out.subspan(n);
    offset += n;
  }
  return {};
}

Result<void> Overlay::write(std::uint64_t offset, std::span<const std::byte> data) {
  if (data.size() > size() || offset > size() - data.size())
    return make_error(ErrorKind::corrupt, name() + ": write at byte " + std::to_string(offset) + " is past the end");
  while (!data.empty()) {
    const Blk block = offset / block_bytes_;
    const std::size_t in = offset % block_bytes_;
    const std::size_t n = std::min<std::size_t>(data.size(), block_bytes_ - in);
    const auto to = n == block_bytes_ ? E4_TRY(create(block)) : E4_TRY(edit(block));
    std::memcpy(to.data() + in, data.data(), n);
    data = data.subspan(n);
    offset += n;
  }
  return {};
}

Result<std::uint64_t> Overlay::next_data(std::uint64_t offset) {
  std::uint64_t at = E4_TRY(base_.next_data(offset));
  const Blk first = offset / block_bytes_;
  auto nearer = [&](Blk block) {
    if (block >= first) at = std::min(at, std::max(offset, block * block_bytes_));
  };
  for (const auto& [block, data] : impl_->dirty) nearer(block);
  for (const auto& [block, to] : impl_->aliases) nearer(block);
  return at;
}

void Overlay::alias(Blk block, Blk source, bool unescape) {
  E4_ASSERT(block < blocks_count() && source < blocks_count());
  forget(block);
  impl_->aliases[block] = {source, unescape};
}

bool Overlay::is_dirty(Blk block) const { return impl_->dirty.contains(block); }
std::size_t Overlay::dirty_count() const { return impl_->dirty.size(); }
std::size_t Overlay::alias_count() const { return impl_->aliases.size(); }

std::vector<Blk> Overlay::dirty_blocks() const {
  std::vector<Blk> v;
  v.reserve(impl_->dirty.size());
  for (const auto& [block, data] : impl_->dirty) v.push_back(block);
  std::sort(v.begin(), v.end());
  return v;
}

std::vector<Overlay::Alias> Overlay::aliases() const {
  std::vector<Alias> v;
  v.reserve(impl_->aliases.size());
  for (const auto& [block, to] : impl_->aliases) v.push_back({block, to.source, to.unescape});
  std::sort(v.begin(), v.end(), [](const Alias& a, const Alias& b) { return a.block < b.block; });
  return v;
}

void Overlay::forget(Blk block) {
  Impl& m = *impl_;
  if (m.last_dirty == block) m.last_dirty = kNoBlock;
  if (auto it = m.dirty.find(block); it != m.dirty.end()) {
    if (m.spare.size() < kSpareBytes / block_bytes_) m.spare.push_back(std::move(it->second));
    m.dirty.erase(it);
  }
  m.aliases.erase(block);
  if (!m.tag.empty() && m.tag[block % m.tag.size()] == block) m.tag[block % m.tag.size()] = kNoBlock;
}

void Overlay::discard() {
  Impl& m = *impl_;
  m.dirty.clear();
  m.aliases.clear();
  m.last_dirty = kNoBlock;
  std::fill(m.tag.begin(), m.tag.end(), kNoBlock);
}

}  // namespace e4::image
