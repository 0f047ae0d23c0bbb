// SPDX-License-Identifier: GPL-2.0-only
// Where would ext4 put a file of so many blocks on this image, and why? Nothing is written.
//   c++ -std=c++20 allocate.cc $(pkg-config --cflags --libs libe4) -o allocate
//   ./allocate IMAGE BLOCKS
#include <cstdio>
#include <cstdlib>

#include "alloc/allocator.h"
#include "alloc/goal.h"
#include "image/device.h"
#include "image/filsys.h"
#include "space/image_space.h"

namespace {

int fail(const e4::Error& error) {
  std::fprintf(stderr, "%s\n", error.message().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fputs("usage: allocate IMAGE BLOCKS\n", stderr), 2;
  auto device = e4::image::open_file(argv[1]);
  if (!device) return fail(device.error());
  auto fs = e4::image::Filsys::open(**device);
  if (!fs) return fail(fs.error());
  auto space = e4::space::Space::load(*fs);
  if (!space) return fail(space.error());
  e4::alloc::Allocator& allocator = (*space)->allocator();

  const auto blocks = static_cast<std::uint32_t>(std::strtoul(argv[2], nullptr, 10));
  e4::alloc::Request request;
  request.ino = fs->super().s_first_ino + 1;
  request.i_size = std::uint64_t{blocks} * fs->block_bytes();
  request.goal = e4::alloc::inode_goal(allocator.geometry(), allocator.mount().delalloc, request.ino, true, 0);
  request.flags = e4::alloc::kHintData;
  const std::uint32_t cluster = allocator.geometry().cluster_blocks();
  // A request may get less than it asks for; the caller goes on with the rest.
  for (std::uint32_t done = 0; done < blocks;) {
    request.lblk = request.lright = done;
    request.lleft = done > 0 ? done - 1 : 0;
    request.len_clusters = (blocks - done + cluster - 1) / cluster;
    const e4::alloc::Explanation why = allocator.explain(request, /*keep=*/true, /*groups_per_pass=*/4);
    std::fputs(why.text().c_str(), stdout);
    if (why.outcome.status != e4::alloc::Status::ok) return 1;
    done += why.outcome.len * cluster;
    request.goal = why.outcome.block + std::uint64_t{why.outcome.len} * cluster;
    request.pleft = request.goal - 1;
  }
  return 0;
}
