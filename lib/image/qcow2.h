// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <memory>

#include "base/result.h"
#include "image/device.h"

namespace e4::image {

/// Reads the QCOW2 image that lies on `file`: versions 2 and 3, as e2image
/// and qemu-img write them, without backing file, encryption, compression,
/// external data file or snapshots in use. Read-only; unallocated clusters are zeros.
Result<std::unique_ptr<Device>> open_qcow2(std::unique_ptr<Device> file);
bool is_qcow2(Device& file);

}  // namespace e4::image
