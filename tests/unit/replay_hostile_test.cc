// SPDX-License-Identifier: GPL-2.0-only
// Damaged recordings, as a user meets them: whatever is in the files, every
// command ends with a status of its own and at most one line that says why.
// E4_HOSTILE_ROUNDS=N makes a campaign of it (default 1), E4_HOSTILE_SEED sets where it begins.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/io.h"
#include "replay/replay.h"
#include "support/temp_dir.h"
#include "support/trace_mutator.h"
#include "trace/input.h"

namespace e4::replay {
namespace {

using testing_support::TempDir;

std::uint64_t knob(const char* name, std::uint64_t otherwise) {
  const char* v = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return v != nullptr ? std::strtoull(v, nullptr, 10) : otherwise;
}
std::uint64_t first_seed() { return knob("E4_HOSTILE_SEED", 1); }
std::uint64_t rounds() { return knob("E4_HOSTILE_ROUNDS", 1); }

struct Called {
  int status = 0;
  std::string out, err;
};

Called call(const std::vector<std::string>& args, const std::string& typed = "") {
  std::istringstream in(typed);
  std::ostringstream out, err;
  cli::Io io{in, out, err};
  Called c;
  c.status = run(args, io);
  c.out = out.str();
  c.err = err.str();
  return c;
}

std::string unpacked(const std::string& path) {
  auto source = trace::open_bytes(path);
  EXPECT_TRUE(source.has_value()) << path;
  std::string all;
  std::vector<char> buffer(1 << 20);
  while (source) {
    const auto n = (*source)->read(buffer.data(), buffer.size());
    EXPECT_TRUE(n.has_value()) << path;
    if (!n || *n == 0) break;
    all.append(buffer.data(), *n);
  }
  return all;
}

void write(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

void expect_sane(const Called& c, const std::string& what) {
  EXPECT_TRUE(c.status == 0 || c.status == 1 || c.status == 8) << what << ": status " << c.status << " " << c.err;
  if (c.status == 8) {
    const bool script = what.find(" step ") != std::string::npos;  // there every bad command gets its line
    if (!script) {
      EXPECT_EQ(std::count(c.err.begin(), c.err.end(), '\n'), 1) << what << ": " << c.err;
    }
    EXPECT_GT(c.err.size(), 15U) << what << ": " << c.err;
  }
}

const std::vector<std::string>& small_recordings() {
  static const std::vector<std::string> names = {"one-group", "bigalloc", "linear", "no-journal", "full", "indirect", "nodelalloc", "stripe",
                                                 "tunables", "one-kib"};
  return names;
}

/// All the ways to use a recording; `which` picks one.
std::pair<std::vector<std::string>, std::string> usage(const std::string& dir, std::uint64_t which, const std::string& output) {
  switch (which % 10) {
    case 0: return {{"compare", dir}, ""};
    case 1: return {{"compare", dir, "--free-run", "--json"}, ""};
    case 2: return {{"run", dir, "--threads", "1", "--json"}, ""};
    case 3: return {{"run", dir, "--threads", "3"}, ""};
    case 4: return {{"run", dir, "--threads", "2", "--map-cpus", "--preset", "linux-6.15"}, ""};
    case 5: return {{"materialize", dir, "-o", output}, ""};
    case 6: return {{"materialize", dir, "-o", output, "--crash", "--stop-at", std::to_string(which % 2003)}, ""};
    case 7: return {{"info", dir, "--count", "--json"}, ""};
    case 8: return {{"step", dir}, "n 400\nd\nexplain\nb 3\nstate\nd\nd\nexplain\norphans\ngroup 1\nfile 12\ndiff\ngoto 1\nq\n"};
    default: return {{"what-if", dir, "--with", "preset=linux-6.15"}, ""};
  }
}

class Hostile : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    from_ = "tests/recordings/" + GetParam();
    if (!std::filesystem::exists(from_)) GTEST_SKIP() << from_ << " is not there (run from the top of the tree)";
    std::filesystem::create_directory(dir_ / "r");
    for (const char* name : {"meta.json", "start.img.zst", "end.img.zst", "mb_groups.txt"})
      if (std::filesystem::exists(from_ + "/" + name)) std::filesystem::copy_file(from_ + "/" + name, dir_ / "r" + "/" + name);
  }
  TempDir dir_{"/dev/shm"};
  std::string from_;
};

TEST_P(Hostile, DamagedTracesEndWithAStatusAndAWord) {
  const testing_support::TraceMutator mutator(unpacked(from_ + "/trace.txt.zst"));
  for (std::uint64_t seed = first_seed(); seed < first_seed() + rounds() * 10; ++seed) {
    write(dir_ / "r/trace.txt", mutator.damaged(seed));
    const auto [args, typed] = usage(dir_ / "r", seed, dir_ / "out.img");
    const auto began = std::chrono::steady_clock::now();
    if (rounds() > 1) std::cerr << GetParam() << " " << args[0] << " " << seed << "\r";
    expect_sane(call(args, typed), GetParam() + " " + args[0] + " seed " + std::to_string(seed));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    if (took.count() > 10) std::cerr << GetParam() << " " << args[0] << " seed " << seed << " took " << took.count() << " s\n";
  }
}

TEST_P(Hostile, DamagedStartStatesEndWithAStatusAndAWord) {
  const std::string image = unpacked(from_ + "/start.img.zst");
  std::filesystem::copy_file(from_ + "/trace.txt.zst", dir_ / "r/trace.txt.zst");
  std::filesystem::remove(dir_ / "r/start.img.zst");
  const std::uint64_t n = rounds() > 1 ? rounds() * 5 : 3;
  for (std::uint64_t seed = first_seed(); seed < first_seed() + n; ++seed) {
    write(dir_ / "r/start.img", testing_support::damaged_image(image, seed));
    const auto [args, typed] = usage(dir_ / "r", seed, dir_ / "out.img");
    if (rounds() > 1) std::cerr << GetParam() << " start " << args[0] << " " << seed << "\r";
    expect_sane(call(args, typed), GetParam() + " start " + args[0] + " seed " + std::to_string(seed));
  }
}

TEST_P(Hostile, DamagedFilesEndWithAStatusAndAWord) {
  for (const char* name : {"trace.txt.zst", "start.img.zst", "end.img.zst", "meta.json", "mb_groups.txt"}) {
    const std::string bytes = [&] {
      std::ifstream in(from_ + "/" + name, std::ios::binary);
      std::ostringstream all;
      all << in.rdbuf();
      return all.str();
    }();
    std::filesystem::copy_file(from_ + "/trace.txt.zst", dir_ / "r/trace.txt.zst", std::filesystem::copy_options::overwrite_existing);
    const std::uint64_t n = rounds() > 1 ? rounds() * 2 : 1;
    for (std::uint64_t seed = first_seed(); seed < first_seed() + n; ++seed) {
      write(dir_ / "r/" + name, testing_support::damaged_bytes(bytes, seed));
      const auto [args, typed] = usage(dir_ / "r", seed, dir_ / "out.img");
      if (rounds() > 1) std::cerr << GetParam() << " " << name << " " << args[0] << " " << seed << "\r";
      expect_sane(call(args, typed), GetParam() + " " + name + " " + args[0] + " seed " + std::to_string(seed));
    }
    write(dir_ / "r/" + name, bytes);
  }
}

TEST(HostileRecording, NeighboursOutsideTheFileSystemGiveNoGoalThere) {
  const std::string from = "tests/recordings/one-group";
  if (!std::filesystem::exists(from)) GTEST_SKIP() << from << " is not there (run from the top of the tree)";
  TempDir dir("/dev/shm");
  std::filesystem::create_directory(dir / "r");
  for (const char* name : {"meta.json", "start.img.zst"}) std::filesystem::copy_file(from + "/" + name, dir / "r" + "/" + name);
  const std::string device = nlohmann::json::parse(std::ifstream(from + "/meta.json")).at("filesystems").at(0).at("device");
  const std::string comma = device.substr(0, device.find(':')) + "," + device.substr(device.find(':') + 1);
  const std::string head = "dd-100 [000] 1.000000001: ";
  std::string text;
  // The right neighbour ends the window that is preallocated, far beyond the last block; the left one is the last of all.
  for (const char* at : {"lleft 0 lright 16 pleft 0 pright 4611686018427387904", "lleft 0 lright 16 pleft 0 pright 18446744073709551615",
                         "lleft 4294967295 lright 0 pleft 18446744073709551615 pright 0"}) {
    const std::string request = "dev " + comma + " ino 12 flags HINT_DATA|HINT_TRYGOAL len 4 lblk 0 goal 5 ";
    text += head + "ext4_request_blocks: " + request + at + "\n" + head + "ext4_allocate_blocks: dev " + comma +
            " ino 12 flags HINT_DATA|HINT_TRYGOAL len 4 block 900 lblk 0 goal 5 " + at + "\n";
  }
  write(dir / "r/trace.txt", text);
  for (const char* mode : {"--resync", "--free-run"}) {
    const Called c = call({"compare", dir / "r", mode, "--json"});
    ASSERT_EQ(c.status, 1) << c.err;
    EXPECT_EQ(nlohmann::json::parse(c.out).at("filesystems").at(0).at("decisions"), 3) << c.out;
  }
}

TEST(HostileRecording, ATraceWithNothingOfTheFileSystemIsNotAllIdentical) {
  const std::string from = "tests/recordings/one-group";
  if (!std::filesystem::exists(from)) GTEST_SKIP() << from << " is not there (run from the top of the tree)";
  TempDir dir("/dev/shm");
  write(dir / "empty.txt", "");
  write(dir / "prose.txt", "This is no trace.\nNor is this.\n");
  const std::string trace = from + "/trace.txt.zst";
  for (const std::string command : {"compare", "run", "materialize"}) {
    std::vector<std::string> tail;
    if (command == "materialize") tail = {"-o", dir / "out.img"};
    const auto with = [&](std::vector<std::string> args) {
      args.insert(args.begin(), command);
      args.insert(args.end(), tail.begin(), tail.end());
      return call(args);
    };
    for (const char* name : {"empty.txt", "prose.txt"}) {
      const Called c = with({from, "--trace", dir / name});
      EXPECT_EQ(c.status, 8) << command << " " << name << c.out;
      EXPECT_NE(c.err.find(std::string(name) + ": no trace event in it"), std::string::npos) << c.err;
    }
    const Called other = with({"--image", from + "/start.img.zst", trace, "--device", "9:99"});
    EXPECT_EQ(other.status, 8) << command << other.out;
    EXPECT_NE(other.err.find("no event of device 9:99, but of 7:"), std::string::npos) << other.err;
    EXPECT_FALSE(std::filesystem::exists(dir / "out.img"));
  }
}

TEST(HostileRecording, NamesThatAreNotUtf8StillMakeDocuments) {
  const std::string from = "tests/recordings/one-group";
  if (!std::filesystem::exists(from)) GTEST_SKIP() << from << " is not there (run from the top of the tree)";
  TempDir dir("/dev/shm");
  const std::string odd = dir / "na\xffme";
  std::filesystem::copy(from, odd);
  auto meta = nlohmann::json::parse(std::ifstream(odd + "/meta.json"));
  meta.erase("name");
  write(odd + "/meta.json", meta.dump());
  std::string text = unpacked(odd + "/trace.txt.zst");
  const std::size_t kind = text.find("ext4_ext_map_blocks_enter");
  ASSERT_NE(kind, std::string::npos);
  text[kind + 6] = '\xfe';  // a note names the unknown event
  write(odd + "/trace.txt", text);
  std::filesystem::remove(odd + "/trace.txt.zst");
  for (const std::vector<std::string>& args : std::vector<std::vector<std::string>>{
           {"compare", odd, "--json"}, {"run", odd, "--json"}, {"info", odd, "--count", "--json"},
           {"what-if", odd, "--with", "scan=linear", "--json"}, {"materialize", odd, "--json", "-o", dir / "o\xfd.img"}}) {
    const Called c = call(args);
    EXPECT_EQ(c.status, 0) << args[0] << " " << c.err;
    const auto document = nlohmann::json::parse(c.out, nullptr, false);
    ASSERT_TRUE(document.is_object()) << args[0] << c.out;
    EXPECT_TRUE(document.at("schema").is_string());
  }
}

TEST(HostileRecording, ADirectoryWithoutBlocksTakesNoNames) {
  const std::string from = "tests/recordings/one-kib";
  if (!std::filesystem::exists(from)) GTEST_SKIP() << from << " is not there (run from the top of the tree)";
  TempDir dir("/dev/shm");
  std::ifstream in(from + "/start.img.zst", std::ios::binary);
  std::ostringstream all;
  all << in.rdbuf();
  // This damage leaves lost+found without a block, and names that fit nowhere else.
  write(dir / "start.img.zst", testing_support::damaged_bytes(all.str(), 7005));
  expect_sane(call({"materialize", "--image", dir / "start.img.zst", from + "/trace.txt.zst", "-o", dir / "out.img"}), "materialize");
}

INSTANTIATE_TEST_SUITE_P(Recordings, Hostile, testing::ValuesIn(small_recordings()), [](const auto& p) {
  std::string name = p.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace e4::replay
