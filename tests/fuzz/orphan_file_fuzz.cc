// SPDX-License-Identifier: GPL-2.0-only
// Changes to a small image full of orphans: classify, release, and look again.
// What may never happen besides a crash: a second look that finds work the
// first had done, or a release that fails after the plan was made.
#include <algorithm>
#include <cstdlib>
#include <memory>

#include "orphan/inode.h"
#include "orphan/release.h"
#include "tests/fuzz/tiny_image.h"

namespace {

using namespace e4;

void require(bool holds) {
  if (!holds) std::abort();
}

void recover(image::Device& device) {
  image::Overlay overlay(device, fuzz::kBlockBytes);
  auto volume = orphan::Volume::load(overlay);
  if (!volume) return;
  orphan::ClassifyOptions how;
  how.names = orphan::ClassifyOptions::Names::always;
  how.paths = true;
  auto plan = orphan::classify(*volume, how);
  if (!plan) return;
  const std::uint64_t promised = plan->totals().back_bytes;
  const auto done = orphan::release_all(*volume, *plan, {.now = 1'900'000'000, .done = {}});
  require(done.has_value());
  require(done->freed_bytes == promised);
  auto again = orphan::classify(*volume, how);
  require(again.has_value());
  for (const orphan::Record& r : again->records) require(r.action == orphan::Action::leave);
}

void edit_file(image::Device& device) {
  image::Overlay overlay(device, fuzz::kBlockBytes);
  auto volume = orphan::Volume::load(overlay);
  if (!volume) return;
  if (const auto found = orphan::find_orphan_file(*volume); !found) return;
  if (!orphan::resize_orphan_file(*volume, 3, 5)) return;
  const auto file = orphan::inspect_orphan_file(*volume);
  require(file && file->blocks.size() == 3 && file->proved());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::TinyImage image;
  image.apply({data, size});
  const auto device = image.device();
  recover(*device);
  edit_file(*device);
  return 0;
}
