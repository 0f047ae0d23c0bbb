// SPDX-License-Identifier: GPL-2.0-only
#include "mkfs/target.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "mkfs/size.h"

namespace e4::mkfs {

namespace {

/// A random UUID of version 4.
Result<Uuid> random_uuid() {
  Uuid uuid{};
  if (::getrandom(uuid.data(), uuid.size(), 0) != static_cast<ssize_t>(uuid.size()))
    return errno_error(errno, "no random numbers");
  uuid[6] = static_cast<std::uint8_t>((uuid[6] & 0x0F) | 0x40);
  uuid[8] = static_cast<std::uint8_t>((uuid[8] & 0x3F) | 0x80);
  return uuid;
}

Result<void> read_clock(Surroundings& world, const cli::Io& io) {
  for (const char* variable : {"SOURCE_DATE_EPOCH", "E2FSPROGS_FAKE_TIME"}) {
    const std::string text = io.environment(variable);
    if (text.empty()) continue;
    auto seconds = parse_number(text, 0, (std::uint64_t{1} << 34) - 1);
    if (!seconds) return Error(std::move(seconds).error()).context(variable);
    world.now = static_cast<std::int64_t>(*seconds);
    world.time_is_fixed = true;
    return {};
  }
  world.now = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  return {};
}

Result<void> measure_device(const std::string& path, Surroundings& world) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno_error(errno, "cannot open " + path);
  int sector = 512;
  std::uint64_t bytes = 0;
  const bool ok = ::ioctl(fd, BLKSSZGET, &sector) == 0 && ::ioctl(fd, BLKGETSIZE64, &bytes) == 0;
  const int error = errno;
  ::close(fd);
  if (!ok) return errno_error(error, path + ": cannot find its size");
  world.sector_bytes = static_cast<std::uint32_t>(sector);
  world.target_bytes = bytes;
  return {};
}

}  // namespace

Result<Surroundings> look_around(Wishes& wishes, const cli::Io& io) {
  Surroundings world;
  if (const std::size_t q = wishes.image.rfind("?offset="); q != std::string::npos) {
    wishes.extended.push_back("offset=" + wishes.image.substr(q + 8));
    wishes.image.resize(q);
  }
  E4_TRY(read_clock(world, io));
  world.random_uuid = E4_TRY(random_uuid());
  world.random_hash_seed = E4_TRY(random_uuid());
  world.own_uid = ::getuid();
  world.own_gid = ::getgid();

  struct stat st {};
  if (::stat(wishes.image.c_str(), &st) != 0) {
    if (errno != ENOENT) return errno_error(errno, "cannot look at " + wishes.image);
    return world;
  }
  world.exists = true;
  world.block_device = S_ISBLK(st.st_mode);
  if (!world.block_device && !S_ISREG(st.st_mode))
    return make_error(ErrorKind::usage, wishes.image + " is neither a regular file nor a block device");
  if (world.block_device) E4_TRY(measure_device(wishes.image, world));
  else world.target_bytes = static_cast<std::uint64_t>(st.st_size);
  const Extended extended = E4_TRY(parse_extended(wishes.extended, 0, 0));
  if (extended.offset_bytes > world.target_bytes && !wishes.size)
    return make_error(ErrorKind::usage, wishes.image + " ends before the offset " + std::to_string(extended.offset_bytes));
  world.target_bytes -= std::min(world.target_bytes, extended.offset_bytes);
  if (!wishes.dry_run && wishes.force < 2) E4_TRY(image::refuse_if_in_use(wishes.image));
  return world;
}

Result<Target> open_target(const Wishes& wishes, const Surroundings& world, const Plan& plan) {
  Target target;
  const std::uint64_t needed = plan.offset_bytes + plan.blocks * plan.block_bytes;
  if (!world.block_device) {
    const int fd = ::open(wishes.image.c_str(), O_RDWR | O_CLOEXEC | (world.exists ? 0 : O_CREAT | O_EXCL), 0666);
    if (fd < 0) return errno_error(errno, "cannot open " + wishes.image);
    target.created = !world.exists;
    struct stat st {};
    int error = ::fstat(fd, &st) != 0 ? errno : 0;
    if (error == 0 && static_cast<std::uint64_t>(st.st_size) < needed && ::ftruncate(fd, static_cast<off_t>(needed)) != 0)
      error = errno;
    ::close(fd);
    if (error != 0) {
      if (target.created) ::unlink(wishes.image.c_str());
      return errno_error(error, wishes.image + ": cannot make it " + std::to_string(needed) + " bytes long");
    }
  }
  auto device = image::open_file(
      wishes.image, {.writable = true, .offset = plan.offset_bytes, .ignore_mounted = wishes.force >= 2});
  if (!device) {
    if (target.created) ::unlink(wishes.image.c_str());
    return std::move(device).error();
  }
  target.device = std::move(*device);
  return target;
}

}  // namespace e4::mkfs
