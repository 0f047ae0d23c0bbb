// SPDX-License-Identifier: GPL-2.0-only
// Every recording of the corpus, turned into an image: e2fsck must call it
// clean and its block bitmap must be the one the kernel left.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "image/container.h"
#include "image/overlay.h"
#include "replay/materialize.h"
#include "support/temp_dir.h"
#include "trace/reader.h"
#include "trace/recording.h"

namespace e4::replay {
namespace {

namespace fs = std::filesystem;

std::string corpus() {
  const char* env = std::getenv("E4_CORPUS");
  return env != nullptr ? env : "../shared/corpus";
}

std::vector<std::string> recordings() {
  std::vector<std::string> names;
  if (fs::is_directory(corpus() + "/traces"))
    for (const auto& e : fs::directory_iterator(corpus() + "/traces")) names.push_back(e.path().filename());
  std::sort(names.begin(), names.end());
  if (names.empty()) names.emplace_back("none");
  return names;
}

std::string read_all(const std::string& path) {
  std::ostringstream s;
  s << std::ifstream(path).rdbuf();
  return s.str();
}

class MaterializeCorpus : public ::testing::TestWithParam<std::string> {};

TEST_P(MaterializeCorpus, IsCleanAndHasTheKernelsBitmap) {
  if (GetParam() == "none") GTEST_SKIP() << "no corpus at " << corpus();
  auto recording = trace::open_recording(corpus() + "/traces/" + GetParam());
  ASSERT_TRUE(recording) << recording.error().message();
  for (const auto& f : recording->filesystems) {
    SCOPED_TRACE(f.device_text);
    auto start = image::open_container(f.start_path);
    ASSERT_TRUE(start) << start.error().message();
    image::Overlay work(**start, 4096);  // a QCOW2 is read-only
    auto m = Materializer::open(work);
    ASSERT_TRUE(m) << m.error().message();
    trace::ReaderOptions options;
    options.devices = {f.device};
    auto reader = trace::open_trace(recording->trace_path, options);
    ASSERT_TRUE(reader) << reader.error().message();
    trace::Event e{};
    for (;;) {
      auto more = (*reader)->next(e);
      ASSERT_TRUE(more) << more.error().message();
      if (!*more) break;
      auto r = (*m)->apply(e);
      ASSERT_TRUE(r) << "event " << e.number << ": " << r.error().message();
    }
    auto done = (*m)->finish({.crash = false, .now = 1700000000});
    ASSERT_TRUE(done) << done.error().message();
    EXPECT_EQ(done->extra_blocks, 0U);

    testing_support::TempDir dir;
    if (work.size() <= 100 * kGiB) {
    auto out = image::export_image(work, dir / "img");
    ASSERT_TRUE(out) << out.error().message();
    EXPECT_EQ(0, std::system(("e2fsck -fn " + (dir / "img") + " >" + (dir / "log") + " 2>&1").c_str()))
        << read_all(dir / "log").substr(0, 3000);
    }

    auto end = image::open_container(f.end_path);
    ASSERT_TRUE(end) << end.error().message();
    auto theirs = image::Filsys::open(**end), ours = image::Filsys::open(work);
    ASSERT_TRUE(theirs && ours);
    ASSERT_TRUE(theirs->read_bitmaps() && ours->read_bitmaps());
    EXPECT_EQ(0, ext2fs_compare_block_bitmap(ours->raw()->block_map, theirs->raw()->block_map));
    EXPECT_EQ(0, ext2fs_compare_inode_bitmap(ours->raw()->inode_map, theirs->raw()->inode_map));
  }
}

INSTANTIATE_TEST_SUITE_P(All, MaterializeCorpus, ::testing::ValuesIn(recordings()), [](const auto& param) {
  std::string s = param.param;
  for (char& c : s)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return s;
});

}  // namespace
}  // namespace e4::replay
