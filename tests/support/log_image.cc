// SPDX-License-Identifier: GPL-2.0-only
#include "tests/support/log_image.h"

#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <map>
#include <stdexcept>

#include "journal/fs_super.h"
#include "tests/support/child.h"
#include "tests/support/temp_dir.h"

namespace e4::test {

namespace {
std::vector<std::byte> run_mke2fs(const std::vector<std::string>& mke2fs_args, const std::string& size) {
  testing_support::TempDir dir;
  const std::string path = dir / "image";
  std::vector<std::string> argv{"mke2fs", "-F", "-q"};
  argv.insert(argv.end(), mke2fs_args.begin(), mke2fs_args.end());
  argv.push_back(path);
  argv.push_back(size);
  const std::string output = dir / "output";
  if (const auto run = testing_support::run_child(argv, output); run.status != 0) {
    std::ifstream in(output);
    throw std::runtime_error("mke2fs: " + std::string(std::istreambuf_iterator<char>(in), {}));
  }
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  std::vector<std::byte> bytes(static_cast<std::size_t>(in.tellg()));
  in.seekg(0);
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!in) throw std::runtime_error("mke2fs: short image");
  return bytes;
}
}  // namespace

std::vector<std::byte> make_ext_image(const std::vector<std::string>& mke2fs_args, const std::string& size) {
  // mke2fs takes longer than most tests: one run for each set of arguments.
  static std::map<std::vector<std::string>, std::vector<std::byte>> made;
  std::vector<std::string> key = mke2fs_args;
  key.push_back(size);
  auto it = made.find(key);
  if (it == made.end()) it = made.emplace(std::move(key), run_mke2fs(mke2fs_args, size)).first;
  return it->second;
}

void set_recover(std::vector<std::byte>& image, bool on) {
  VectorDevice device(std::move(image));
  auto super = journal::FsSuper::read(device);
  if (!super) throw std::runtime_error(super.error().message());
  super->set_recover(on);
  if (!super->write(device)) throw std::runtime_error("superblock");
  image = std::move(device.bytes);
}

namespace {
// The arguments that make mke2fs copy a small tree in; made once.
std::vector<std::string> tree_args(bool wanted) {
  if (!wanted) return {};
  static const testing_support::TempDir dir;
  static const bool made = [] {
    namespace fs = std::filesystem;
    fs::create_directories(dir / "dir");
    fs::create_directories(dir / "many");
    std::ofstream(dir / "file") << std::string(3000, 'f');
    std::ofstream(dir / "dir/inner") << "inner";
    for (int i = 0; i < 40; ++i) std::ofstream(dir / fmt::format("many/a-rather-long-name-{}", i));
    return true;
  }();
  return made ? std::vector<std::string>{"-d", dir.path()} : std::vector<std::string>{};
}

std::vector<std::string> mke2fs_args(const LogOptions& o) {
  std::vector<std::string> args = tree_args(o.files);
  for (const auto& a : std::initializer_list<std::string>{"-t", "ext4", "-b", std::to_string(o.block_bytes), "-O", o.features, "-J",
                             fmt::format("size={}", o.journal_mib), "-U", "6a1f2c3d-0001-4002-8003-123456789abc", "-E",
                             "hash_seed=6a1f2c3d-0001-4002-8003-123456789abd,root_owner=0:0"}) {
    args.push_back(a);
  }
  return args;
}
}  // namespace

LogImage::LogImage(const LogOptions& o) : device(make_ext_image(mke2fs_args(o), o.size)) {
  set_recover(device.bytes, o.recover);
  auto fs = image::Filsys::open(device);
  if (!fs) throw std::runtime_error(fs.error().message());
  auto opened = journal::Log::open(device, *fs);
  if (!opened) throw std::runtime_error(opened.error().message());
  log = std::make_unique<journal::Log>(std::move(*opened));
  // The upper half of the last group: mke2fs puts nothing there.
  first_data = ext2fs_blocks_count(&fs->super()) - 1024;
  change_super([&](journal::SuperOnDisk& raw) {
    raw.s_feature_compat = o.compat;
    raw.s_feature_incompat = o.incompat;
    if (o.incompat & (journal::kIncompatCsumV2 | journal::kIncompatCsumV3)) raw.s_checksum_type = journal::kChecksumTypeCrc32c;
    raw.s_num_fc_blks = o.fast_commit_blocks;
    raw.s_start = o.start;
    raw.s_sequence = o.sequence;
  });
}

void LogImage::change_super(const std::function<void(journal::SuperOnDisk&)>& change) {
  journal::SuperOnDisk raw = log->super().raw;
  change(raw);
  if (!log->write_super(device, raw)) throw std::runtime_error("journal superblock");
  // What follows from the fields only comes with opening it again.
  auto fs = image::Filsys::open(device);
  auto opened = fs ? journal::Log::open(device, *fs) : Result<journal::Log>(fs.error());
  if (opened) *log = std::move(*opened);
}

std::vector<std::byte> LogImage::block(std::uint8_t fill, std::uint32_t first) const {
  std::vector<std::byte> b(log->block_bytes(), std::byte{fill});
  store<be32>(b.data(), 0, first);
  return b;
}

Result<journal::RecoveryPlan> LogImage::plan(journal::PlanOptions options) {
  auto fs = image::Filsys::open(device);
  if (!fs) return fs.error();
  return journal::plan_recovery(device, *fs, options);
}

}  // namespace e4::test
