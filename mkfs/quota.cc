// SPDX-License-Identifier: GPL-2.0-only
#include "mkfs/quota.h"

#include <cstring>
#include <map>

#include "base/assert.h"
#include "base/endian.h"

namespace e4::mkfs {

namespace {

constexpr std::size_t kBlock = 1024;
constexpr std::uint32_t kWeekSeconds = 7 * 24 * 3600;

struct Header {
  le32 dqh_magic, dqh_version;
  le32 dqi_bgrace, dqi_igrace, dqi_flags, dqi_blocks, dqi_free_blk, dqi_free_entry;
};
static_assert(sizeof(Header) == 32);

struct DataHeader {
  le32 dqdh_next_free, dqdh_prev_free;
  le16 dqdh_entries, dqdh_pad1;
  le32 dqdh_pad2;
};
static_assert(sizeof(DataHeader) == 16);

struct Entry {
  le32 dqb_id, dqb_pad;
  le64 dqb_ihardlimit, dqb_isoftlimit, dqb_curinodes;
  le64 dqb_bhardlimit, dqb_bsoftlimit, dqb_curspace, dqb_btime, dqb_itime;
};
static_assert(sizeof(Entry) == 72);

constexpr std::size_t kEntries = (kBlock - sizeof(DataHeader)) / sizeof(Entry);

std::uint32_t magic_of(QuotaKind kind) {
  switch (kind) {
    case QuotaKind::user: return 0xD9C01F11;
    case QuotaKind::group: return 0xD9C01927;
    case QuotaKind::project: return 0xD9C03F14;
  }
  return 0;
}

}  // namespace

std::vector<std::byte> quota_file(QuotaKind kind, const std::vector<QuotaUsage>& usages) {
  E4_ASSERT(!usages.empty() && usages.size() <= kEntries);
  // Block numbers: 0 header, 1 root, then a node for every prefix of an id seen (level, its leading bytes), the
  // data block last.
  using Prefix = std::pair<unsigned, std::uint32_t>;
  const auto prefix = [](std::uint32_t id, unsigned level) {
    return Prefix{level, level == 0 ? 0 : id >> (32 - 8 * level)};
  };
  std::map<Prefix, std::uint32_t> nodes = {{{0, 0}, 1}};
  std::uint32_t next = 2;
  for (const QuotaUsage& u : usages)
    for (unsigned level = 1; level < 4; ++level)
      if (nodes.emplace(prefix(u.id, level), next).second) ++next;
  const std::uint32_t data = next++;

  std::vector<std::byte> file(std::size_t{next} * kBlock);
  Header h{};
  h.dqh_magic = magic_of(kind);
  h.dqh_version = 1;
  h.dqi_bgrace = h.dqi_igrace = kWeekSeconds;
  h.dqi_blocks = next;
  h.dqi_free_entry = usages.size() < kEntries ? data : 0;
  std::memcpy(file.data(), &h, sizeof h);

  const auto refer = [&](std::uint32_t from, std::uint8_t slot, std::uint32_t to) {
    store<le32>(file.data(), std::size_t{from} * kBlock + std::size_t{slot} * 4, to);
  };
  for (const auto& [at, block] : nodes)
    if (at.first != 0) refer(nodes.at({at.first - 1, at.second >> 8}), static_cast<std::uint8_t>(at.second), block);
  DataHeader d{};
  d.dqdh_entries = static_cast<std::uint16_t>(usages.size());
  std::memcpy(file.data() + std::size_t{data} * kBlock, &d, sizeof d);
  for (std::size_t i = 0; i < usages.size(); ++i) {
    refer(nodes.at(prefix(usages[i].id, 3)), static_cast<std::uint8_t>(usages[i].id), data);
    Entry e{};
    e.dqb_id = usages[i].id;
    e.dqb_curinodes = usages[i].inodes;
    e.dqb_curspace = usages[i].bytes;
    std::memcpy(file.data() + std::size_t{data} * kBlock + sizeof d + i * sizeof e, &e, sizeof e);
  }
  return file;
}

}  // namespace e4::mkfs
