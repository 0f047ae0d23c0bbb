// SPDX-License-Identifier: GPL-2.0-only
#include "image/qcow2.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "base/endian.h"

namespace e4::image {
namespace {

constexpr std::uint32_t kMagic = 0x514649FB;  // "QFI\xfb"
constexpr std::uint64_t kOffsetMask = 0x00FFFFFFFFFFFE00;
constexpr std::uint64_t kCompressed = std::uint64_t{1} << 62;

class Qcow2Device final : public Device {
 public:
  Qcow2Device(std::unique_ptr<Device> file, std::uint64_t bytes, unsigned cluster_bits)
      : file_(std::move(file)), bytes_(bytes), cluster_bits_(cluster_bits) {}
  std::unordered_map<std::uint64_t, std::uint64_t> clusters;  // guest cluster to file offset

  Result<void> read(std::uint64_t offset, std::span<std::byte> out) override {
    if (offset > bytes_ || out.size() > bytes_ - offset)
      return make_error(ErrorKind::corrupt, name() + ": read past the end of the image");
    const std::uint64_t cluster_bytes = std::uint64_t{1} << cluster_bits_;
    while (!out.empty()) {
      const std::uint64_t within = offset & (cluster_bytes - 1);
      const std::size_t n = std::min<std::uint64_t>(out.size(), cluster_bytes - within);
      const auto it = clusters.find(offset >> cluster_bits_);
      if (it == clusters.end()) {
        std::memset(out.data(), 0, n);
      } else {
        // The last cluster of the file may be short; what is missing is zeros.
        const std::uint64_t at = it->second + within;
        const std::uint64_t there = at < file_->size() ? std::min<std::uint64_t>(n, file_->size() - at) : 0;
        if (there != 0) E4_TRY(file_->read(at, out.first(there)));
        std::memset(out.data() + there, 0, n - there);
      }
      offset += n;
      out = out.subspan(n);
    }
    return {};
  }
  Result<void> write(std::uint64_t, std::span<const std::byte>) override {
    return make_error(ErrorKind::usage, name() + ": a QCOW2 image is read-only here");
  }
  Result<void> flush() override { return {}; }
  [[nodiscard]] std::uint64_t size() const override { return bytes_; }
  [[nodiscard]] bool writable() const override { return false; }
  [[nodiscard]] const std::string& name() const override { return file_->name(); }

 private:
  std::unique_ptr<Device> file_;
  std::uint64_t bytes_;
  unsigned cluster_bits_;
};

}  // namespace

bool is_qcow2(Device& file) {
  std::array<std::byte, 4> magic{};
  return file.size() >= 104 && file.read(0, magic) && load<be32>(magic.data()) == kMagic;
}

Result<std::unique_ptr<Device>> open_qcow2(std::unique_ptr<Device> file) {
  const std::string name = file->name();
  const auto bad = [&](ErrorKind kind, const char* what) { return make_error(kind, name + ": QCOW2: " + what); };
  std::array<std::byte, 104> head{};
  if (file->size() < 72) return bad(ErrorKind::corrupt, "no room for a head");
  E4_TRY(file->read(0, std::span(head).first(std::min<std::uint64_t>(head.size(), file->size()))));
  const std::uint32_t version = load<be32>(head.data(), 4);
  const std::uint32_t cluster_bits = load<be32>(head.data(), 20);
  const std::uint64_t bytes = load<be64>(head.data(), 24);
  const std::uint32_t l1_size = load<be32>(head.data(), 36);
  const std::uint64_t l1_offset = load<be64>(head.data(), 40);
  if (load<be32>(head.data()) != kMagic) return bad(ErrorKind::corrupt, "wrong magic");
  if (version != 2 && version != 3) return bad(ErrorKind::incompatible, "unknown version");
  if (load<be64>(head.data(), 8) != 0) return bad(ErrorKind::incompatible, "has a backing file");
  if (load<be32>(head.data(), 32) != 0) return bad(ErrorKind::incompatible, "encrypted");
  if (version == 3 && (load<be64>(head.data(), 72) & ~std::uint64_t{3}) != 0)
    return bad(ErrorKind::incompatible, "needs a feature that is not known here");
  if (cluster_bits < 9 || cluster_bits > 21) return bad(ErrorKind::corrupt, "impossible cluster size");
  if (bytes > (std::uint64_t{1} << 60)) return bad(ErrorKind::corrupt, "impossible size");
  const std::uint64_t cluster_bytes = std::uint64_t{1} << cluster_bits;
  const std::uint64_t l2_entries = cluster_bytes / 8;
  const std::uint64_t l1_needed = (bytes + cluster_bytes * l2_entries - 1) / (cluster_bytes * l2_entries);
  if (l1_size < l1_needed) return bad(ErrorKind::corrupt, "level 1 table too short");
  const std::uint64_t l1_bytes = l1_needed * 8;
  if (l1_offset > file->size() || l1_bytes > file->size() - l1_offset)
    return bad(ErrorKind::corrupt, "level 1 table outside the file");

  std::vector<std::byte> l1(l1_bytes), l2(cluster_bytes);
  E4_TRY(file->read(l1_offset, l1));
  Device& from = *file;
  auto device = std::make_unique<Qcow2Device>(std::move(file), bytes, cluster_bits);
  // Two level 1 entries may name one table, so the number of tables read is bounded by the file's clusters.
  std::uint64_t tables_left = from.size() / cluster_bytes + 1;
  for (std::uint64_t i = 0; i < l1_needed; ++i) {
    const std::uint64_t table = load<be64>(l1.data(), i * 8) & kOffsetMask;
    if (table == 0) continue;
    if (tables_left-- == 0) return bad(ErrorKind::corrupt, "more level 2 tables than clusters");
    if (table > from.size() || cluster_bytes > from.size() - table)
      return bad(ErrorKind::corrupt, "level 2 table outside the file");
    E4_TRY(from.read(table, l2));
    for (std::uint64_t j = 0; j < l2_entries; ++j) {
      const std::uint64_t entry = load<be64>(l2.data(), j * 8);
      if ((entry & kCompressed) != 0) return bad(ErrorKind::incompatible, "compressed clusters");
      const std::uint64_t offset = entry & kOffsetMask;
      if (offset == 0 || (version == 3 && (entry & 1) != 0)) continue;
      if (offset >= from.size()) return bad(ErrorKind::corrupt, "cluster outside the file");
      device->clusters.emplace(i * l2_entries + j, offset);
    }
  }
  return std::unique_ptr<Device>(std::move(device));
}

}  // namespace e4::image
