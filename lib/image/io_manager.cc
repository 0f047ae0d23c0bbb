// SPDX-License-Identifier: GPL-2.0-only
#include "image/io_manager.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace e4::image {
namespace {

constexpr char kPrefix[] = "e4-device:";

Device& device_of(io_channel ch) { return *static_cast<Device*>(ch->private_data); }

errcode_t to_errcode(const Error& e) { return e.code != 0 ? e.code : EIO; }

std::size_t bytes_of(io_channel ch, int count) {
  return count < 0 ? static_cast<std::size_t>(-static_cast<long>(count))
                   : static_cast<std::size_t>(count) * static_cast<std::size_t>(ch->block_size);
}

errcode_t channel_open(const char* name, int flags, io_channel* out) {
  if (std::strncmp(name, kPrefix, std::strlen(kPrefix)) != 0) return EXT2_ET_BAD_DEVICE_NAME;
  void* pointer = nullptr;
  if (std::sscanf(name + std::strlen(kPrefix), "%p", &pointer) != 1 || pointer == nullptr)
    return EXT2_ET_BAD_DEVICE_NAME;
  auto* device = static_cast<Device*>(pointer);
  if ((flags & IO_FLAG_RW) != 0 && !device->writable()) return EROFS;
  auto* ch = static_cast<io_channel>(std::calloc(1, sizeof(struct struct_io_channel)));
  if (ch == nullptr) return EXT2_ET_NO_MEMORY;
  ch->magic = EXT2_ET_MAGIC_IO_CHANNEL;
  ch->manager = device_io_manager();
  ch->name = ::strdup(name);
  ch->block_size = 1024;
  ch->refcount = 1;
  ch->private_data = device;
  if (ch->name == nullptr) {
    std::free(ch);
    return EXT2_ET_NO_MEMORY;
  }
  *out = ch;
  return 0;
}

errcode_t channel_close(io_channel ch) {
  if (--ch->refcount > 0) return 0;
  std::free(ch->name);
  std::free(ch);
  return 0;
}

errcode_t channel_set_blksize(io_channel ch, int block_bytes) {
  ch->block_size = block_bytes;
  return 0;
}

errcode_t channel_read64(io_channel ch, unsigned long long block, int count, void* data) {
  const std::size_t n = bytes_of(ch, count);
  const auto bs = static_cast<unsigned long long>(ch->block_size);
  if (block > UINT64_MAX / bs) return EXT2_ET_SHORT_READ;
  auto r = device_of(ch).read(block * bs, std::span(static_cast<std::byte*>(data), n));
  if (r) return 0;
  const errcode_t code = r.error().kind == ErrorKind::corrupt ? EXT2_ET_SHORT_READ : to_errcode(r.error());
  // libext2fs's callers look at the buffer after some errors; it must hold something defined.
  std::memset(data, 0, n);
  return ch->read_error != nullptr ? ch->read_error(ch, static_cast<unsigned long>(block), count, data, n, 0, code)
                                   : code;
}

errcode_t channel_write64(io_channel ch, unsigned long long block, int count, const void* data) {
  const std::size_t n = bytes_of(ch, count);
  const auto bs = static_cast<unsigned long long>(ch->block_size);
  if (block > UINT64_MAX / bs) return EXT2_ET_SHORT_WRITE;
  auto r = device_of(ch).write(block * bs, std::span(static_cast<const std::byte*>(data), n));
  return r ? 0 : to_errcode(r.error());
}

errcode_t channel_read(io_channel ch, unsigned long block, int count, void* data) {
  return channel_read64(ch, block, count, data);
}
errcode_t channel_write(io_channel ch, unsigned long block, int count, const void* data) {
  return channel_write64(ch, block, count, data);
}

errcode_t channel_write_byte(io_channel ch, unsigned long offset, int count, const void* data) {
  auto r = device_of(ch).write(offset,
                               std::span(static_cast<const std::byte*>(data), static_cast<std::size_t>(count)));
  return r ? 0 : to_errcode(r.error());
}

errcode_t channel_flush(io_channel ch) {
  auto r = device_of(ch).flush();
  return r ? 0 : to_errcode(r.error());
}

errcode_t channel_set_option(io_channel, const char*, const char*) { return 0; }

// libext2fs falls back to writing zeros itself when these say "not here".
errcode_t channel_discard(io_channel, unsigned long long, unsigned long long) { return EXT2_ET_UNIMPLEMENTED; }
errcode_t channel_readahead(io_channel, unsigned long long, unsigned long long) { return EXT2_ET_OP_NOT_SUPPORTED; }
errcode_t channel_zeroout(io_channel, unsigned long long, unsigned long long) { return EXT2_ET_UNIMPLEMENTED; }

}  // namespace

io_manager device_io_manager() {
  // Never written after this initialisation; the API just lacks the const.
  static struct struct_io_manager manager = [] {
    struct struct_io_manager m {};
    m.magic = EXT2_ET_MAGIC_IO_MANAGER;
    m.name = "e4 device";
    m.open = channel_open;
    m.close = channel_close;
    m.set_blksize = channel_set_blksize;
    m.read_blk = channel_read;
    m.write_blk = channel_write;
    m.flush = channel_flush;
    m.write_byte = channel_write_byte;
    m.set_option = channel_set_option;
    m.read_blk64 = channel_read64;
    m.write_blk64 = channel_write64;
    m.discard = channel_discard;
    m.cache_readahead = channel_readahead;
    m.zeroout = channel_zeroout;
    return m;
  }();
  return &manager;
}

std::string device_channel_name(Device& device) {
  char text[64];
  std::snprintf(text, sizeof text, "%s%p", kPrefix, static_cast<void*>(&device));
  return text;
}

}  // namespace e4::image
