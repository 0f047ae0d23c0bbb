// SPDX-License-Identifier: GPL-2.0-only
#include "image/container.h"

#include <gtest/gtest.h>
#include <zstd.h>

#include <cstring>
#include <fstream>
#include <vector>

#include "base/endian.h"
#include "base/random.h"
#include "image/zstd_holes.h"
#include "image/zstd_mapping.h"
#include "support/temp_dir.h"

namespace e4::image {
namespace {

using Bytes = std::vector<std::byte>;

/// An image as metadata images are: islands in a sea of zeros, far apart and close together, some of them equal (so
/// that the compressor refers back over holes).
Bytes islands(std::uint64_t seed, std::size_t bytes) {
  Random random(seed);
  Bytes image(bytes);
  Bytes stamp(4096);
  for (std::byte& b : stamp) b = static_cast<std::byte>(random.next());
  for (int i = 0; i < 40; ++i) {
    const std::size_t at = random.below(bytes - 70000);
    const std::size_t n = random.between(1, 60000);
    if (random.one_in(3)) {
      std::memcpy(&image[at], stamp.data(), stamp.size());
    } else if (random.one_in(3)) {
      std::memset(&image[at], 0xFF, n);
    } else {
      for (std::size_t k = 0; k < n; ++k) image[at + k] = static_cast<std::byte>(random.next() >> (k % 50));
    }
  }
  return image;
}

Bytes compress(const Bytes& image, int level, bool checksum) {
  ZSTD_CCtx* c = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, checksum ? 1 : 0);
  Bytes out(ZSTD_compressBound(image.size()));
  out.resize(ZSTD_compress2(c, out.data(), out.size(), image.data(), image.size()));
  ZSTD_freeCCtx(c);
  return out;
}

Bytes read_all(Device& d) {
  Bytes b(d.size());
  EXPECT_TRUE(d.read(0, b));
  return b;
}

TEST(ImageContainer, BothWaysThroughZstdGiveTheImage) {
  for (const int level : {1, 3, 12, 19})
    for (const std::uint64_t seed : {1U, 2U, 3U}) {
      const Bytes image = islands(seed, 24U << 20);
      const Bytes z = compress(image, level, seed == 2);
      auto mapped = map_zstd(z, "z");
      ASSERT_TRUE(mapped) << mapped.error().message();
      ASSERT_NE(*mapped, nullptr);
      EXPECT_EQ((*mapped)->size(), image.size());
      EXPECT_TRUE(read_all(**mapped) == image) << "level " << level << " seed " << seed;
      SparseDevice sparse("s", image.size());
      auto bytes = decompress_skipping_holes(z, "z", image.size(), [&](std::uint64_t at, std::span<const std::byte> data) { return sparse.write(at, data); });
      ASSERT_TRUE(bytes) << bytes.error().message();
      EXPECT_EQ(*bytes, image.size());
      EXPECT_TRUE(read_all(sparse) == image) << "level " << level << " seed " << seed;
      EXPECT_LT(sparse.resident_bytes(), 4U << 20);
    }
}

TEST(ImageContainer, ADamagedOrCutZstdFileIsAnErrorNeverACrash) {
  const Bytes image = islands(7, 1U << 20);
  const Bytes z = compress(image, 6, true);
  for (std::size_t n = 0; n + 5 < z.size(); n += 1 + z.size() / 300) {
    auto cut = map_zstd(std::span(z).first(n), "cut");
    EXPECT_FALSE(cut) << n;
  }
  Random random(9);
  for (int i = 0; i < 400; ++i) {
    Bytes bad = z;
    bad[4 + random.below(bad.size() - 4)] ^= static_cast<std::byte>(1U << random.below(8));
    auto d = map_zstd(bad, "bad");
    if (d && *d != nullptr) {
      EXPECT_LE((*d)->size(), 64U << 20);
    }
  }
}

/// A tiny QCOW2 as e2image lays it out: cluster 512 bytes, one level 2 table.
Bytes qcow2(std::uint64_t guest_bytes) {
  Bytes f(512 * 5);
  store<be32>(f.data(), 0, 0x514649FB);
  store<be32>(f.data(), 4, 2);
  store<be32>(f.data(), 20, 9);
  store<be64>(f.data(), 24, guest_bytes);
  store<be32>(f.data(), 36, 1);
  store<be64>(f.data(), 40, 512);
  store<be64>(f.data(), 512, 1024 | std::uint64_t{1} << 63);
  store<be64>(f.data(), 1024 + 8 * 3, 2048 | std::uint64_t{1} << 63);  // guest cluster 3
  std::memset(&f[2048], 0xAB, 512);
  return f;
}

class Qcow2 : public ::testing::Test {
 protected:
  Result<std::unique_ptr<Device>> open(const Bytes& b) {
    const std::string path = dir_ / "image.qcow2";
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(b.data()), static_cast<std::streamsize>(b.size()));
    return open_container(path);
  }
  testing_support::TempDir dir_;
};

TEST_F(Qcow2, MappedClustersAreReadTheRestIsZeros) {
  auto d = open(qcow2(512 * 60));
  ASSERT_TRUE(d) << d.error().message();
  EXPECT_EQ((*d)->size(), 512U * 60);
  const Bytes all = read_all(**d);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], i / 512 == 3 ? std::byte{0xAB} : std::byte{0});
}

TEST_F(Qcow2, UnderZstdToo) {
  auto d = open(compress(qcow2(512 * 60), 3, true));
  ASSERT_TRUE(d) << d.error().message();
  EXPECT_EQ((*d)->size(), 512U * 60);
}

TEST_F(Qcow2, ImpossibleHeadsAreErrors) {
  const auto with = [](std::size_t at, std::uint64_t v, bool wide) {
    Bytes b = qcow2(512 * 60);
    if (wide) store<be64>(b.data(), at, v);
    else store<be32>(b.data(), at, v);
    return b;
  };
  EXPECT_FALSE(open(with(4, 9, false))) << "version";
  EXPECT_FALSE(open(with(8, 5, true))) << "backing file";
  EXPECT_FALSE(open(with(20, 60, false))) << "cluster bits";
  EXPECT_FALSE(open(with(24, ~0ULL, true))) << "size";
  EXPECT_FALSE(open(with(32, 1, false))) << "encrypted";
  EXPECT_FALSE(open(with(36, 0, false))) << "no level 1 table";
  EXPECT_FALSE(open(with(40, 1U << 30, true))) << "level 1 table outside";
  EXPECT_FALSE(open(with(512, 1U << 30, true))) << "level 2 table outside";
  EXPECT_FALSE(open(with(1024, std::uint64_t{1} << 62, true))) << "compressed cluster";
}

}  // namespace
}  // namespace e4::image
