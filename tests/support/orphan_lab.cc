// SPDX-License-Identifier: GPL-2.0-only
#include "tests/support/orphan_lab.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/crc32c.h"
#include "base/endian.h"
#include "orphan/inode.h"
#include "orphan/mapping.h"
#include "tests/support/child.h"

namespace e4::testing_support {
namespace {

constexpr std::uint64_t kNow = 1'900'000'000;

template <class T>
T must(Result<T> r, const char* what) {
  if (!r) throw std::runtime_error(std::string(what) + ": " + r.error().message());
  if constexpr (!std::is_void_v<T>) return std::move(*r);
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string w; in >> w;) out.push_back(w);
  return out;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

OrphanLab::OrphanLab(const std::string& arguments, const std::string& size) : image_(dir_ / "image") {
  std::vector<std::string> argv = {"mke2fs", "-Fq", "-N", "512"};
  for (const std::string& w : words(arguments)) argv.push_back(w);
  argv.push_back(image_);
  argv.push_back(size);
  const ChildRun run = run_child(argv, dir_ / "mke2fs.out");
  if (run.status != 0) throw std::runtime_error("mke2fs: " + read_file(dir_ / "mke2fs.out"));
}

void OrphanLab::debugfs(const std::vector<std::string>& commands) {
  {
    std::ofstream out(dir_ / "commands");
    for (const std::string& c : commands) out << c << '\n';
  }
  const ChildRun run = run_child({"debugfs", "-w", "-f", dir_ / "commands", image_}, dir_ / "debugfs.out");
  if (run.status != 0) throw std::runtime_error("debugfs: " + read_file(dir_ / "debugfs.out"));
}

Ino OrphanLab::file(const std::string& name, std::size_t bytes) {
  {
    std::ofstream out(dir_ / "content");
    for (std::size_t i = 0; i < bytes; ++i) out << static_cast<char>('a' + i % 23);
  }
  debugfs({"write " + dir_ / "content" + " " + name});
  run_child({"debugfs", "-R", "stat " + name, image_}, dir_ / "stat.out");
  const std::string text = read_file(dir_ / "stat.out");
  const auto at = text.find("Inode: ");
  if (at == std::string::npos) throw std::runtime_error("no inode for " + name + ": " + text);
  return static_cast<Ino>(std::stoul(text.substr(at + 7)));
}

Ino OrphanLab::unnamed_file(std::size_t bytes, bool linked) {
  const std::string name = "f" + std::to_string(files_++);
  const Ino ino = file(name, bytes);
  debugfs({"unlink " + name, "sif <" + std::to_string(ino) + "> links_count " + (linked ? "1" : "0")});
  return ino;
}

OrphanLab::Open OrphanLab::open() {
  Open o;
  o.device = must(image::open_file(image_, {.writable = true}), "open");
  std::byte raw[1024];
  must(o.device->read(1024, raw), "superblock");
  o.overlay = std::make_unique<image::Overlay>(*o.device, 1024U << load<le32>(raw, 0x18));
  return o;
}

void OrphanLab::write_back(Open& o) {
  for (const Blk b : o.overlay->dirty_blocks()) {
    const auto data = must(o.overlay->view(b), "view");
    must(o.device->write(b * o.overlay->block_bytes(), data), "write");
    o.overlay->settled(b);
  }
}

void OrphanLab::edit(const std::function<void(orphan::Volume&)>& edit) {
  Open o = open();
  auto volume = must(orphan::Volume::load(*o.overlay), "volume");
  edit(volume);
  must(volume.seal(), "seal");
  write_back(o);
}

void OrphanLab::edit_inode(Ino ino, const std::function<void(std::span<std::byte>)>& change) {
  edit([&](orphan::Volume& v) {
    const auto raw = must(orphan::InodeTable(v).edit(ino), "inode");
    change(raw);
    orphan::seal_inode(v.geo(), ino, raw);
  });
}

void OrphanLab::put_slots(std::uint32_t block, const std::vector<Ino>& numbers, bool present) {
  edit([&](orphan::Volume& v) {
    const auto file = must(orphan::inspect_orphan_file(v), "orphan file");
    if (block >= file.blocks.size()) throw std::runtime_error("no such orphan block");
    const Blk where = file.blocks[block].physical;
    const auto raw = must(v.overlay().edit(where), "orphan block");
    for (std::uint32_t i = 0; i < numbers.size(); ++i) orphan::set_slot(raw, i, numbers[i]);
    orphan::seal_orphan_block(raw, orphan::inode_csum_seed(v.geo().csum_seed, file.ino, file.generation), where,
                              v.geo().metadata_csum());
    must(v.set_orphan_present(present), "orphan_present");
  });
}

void OrphanLab::damage_block(std::uint32_t block, std::size_t offset, std::uint32_t value) {
  edit([&](orphan::Volume& v) {
    const auto file = must(orphan::inspect_orphan_file(v), "orphan file");
    store<le32>(must(v.overlay().edit(file.blocks.at(block).physical), "orphan block").data(), offset, value);
  });
}

void OrphanLab::set_list_head(Ino ino) {
  edit([&](orphan::Volume& v) { must(v.set_last_orphan(ino), "s_last_orphan"); });
}

orphan::Plan OrphanLab::classify(const orphan::ClassifyOptions& options) {
  Open o = open();
  auto volume = must(orphan::Volume::load(*o.overlay), "volume");
  return must(orphan::classify(volume, options), "classify");
}

OrphanLab::Outcome OrphanLab::recover(const orphan::ClassifyOptions& options, std::size_t capacity) {
  Open o = open();
  auto volume = must(orphan::Volume::load(*o.overlay), "volume");
  Outcome out{.plan = must(orphan::classify(volume, options), "classify"), .totals = {}, .batches = 0};
  orphan::Releaser releaser(volume, out.plan, {.now = kNow, .capacity_blocks = capacity, .done = {}});
  while (must(releaser.batch(), "batch")) {
    ++out.batches;
    if (o.overlay->dirty_count() > std::max<std::size_t>(capacity, 16)) throw std::runtime_error("a batch above its capacity");
    write_back(o);
  }
  out.totals = releaser.totals();
  return out;
}

std::uint32_t OrphanLab::rewrite() {
  std::uint32_t n = 0;
  edit([&](orphan::Volume& v) {
    const auto file = must(orphan::inspect_orphan_file(v), "orphan file");
    n = must(orphan::rewrite_orphan_file(v, file), "rewrite");
  });
  return n;
}

int OrphanLab::fsck() {
  const ChildRun run = run_child({"e2fsck", "-fn", image_}, dir_ / "fsck.out");
  fsck_text = read_file(dir_ / "fsck.out");
  return run.status;
}

std::uint32_t OrphanLab::content(Blk block) {
  Open o = open();
  return crc32c(~0U, must(o.overlay->view(block), "view"));
}

Blk OrphanLab::first_block(Ino ino) {
  Open o = open();
  auto v = must(orphan::Volume::load(*o.overlay), "volume");
  const auto view = must(orphan::InodeTable(v).view(ino), "inode");
  const std::vector<std::byte> raw(view.begin(), view.end());
  orphan::Mapping m;
  must(orphan::walk_mapping(v, ino, orphan::InodeView(raw), m), "mapping");
  return m.runs.at(0).physical;
}

const orphan::Record& record_of(const orphan::Plan& plan, Ino ino, std::size_t nth) {
  for (const orphan::Record& r : plan.records)
    if (r.ino == ino && nth-- == 0) return r;
  throw std::runtime_error("no record of inode " + std::to_string(ino));
}

}  // namespace e4::testing_support
