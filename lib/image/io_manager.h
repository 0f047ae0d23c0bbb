// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <ext2fs/ext2_fs.h>
#include <ext2fs/ext2fs.h>

#include <string>

#include "image/device.h"

namespace e4::image {

/// libext2fs's I/O goes through this manager to a Device. The device travels
/// in the channel's name (device_channel_name), the only argument open() has;
/// it must outlive the channel.
io_manager device_io_manager();
std::string device_channel_name(Device& device);

}  // namespace e4::image
