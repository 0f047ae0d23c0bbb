// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/io.h"
#include "image/device.h"
#include "mkfs/plan.h"
#include "mkfs/wishes.h"

namespace e4::mkfs {

/// Looks at the target without opening it for writing, at the clock
/// (SOURCE_DATE_EPOCH, then E2FSPROGS_FAKE_TIME, then the real one) and at the
/// system's random numbers. Splits "PATH?offset=N" into the wishes. Errors:
/// busy (mounted, unless -F was given twice), io, usage.
Result<Surroundings> look_around(Wishes& wishes, const cli::Io& io);

/// Creates or lengthens the file if it must hold `bytes` from the offset on,
/// and opens it for writing, exclusively. `created`: removed by the caller if
/// the rest fails.
struct Target {
  std::unique_ptr<image::Device> device;
  bool created = false;
};
Result<Target> open_target(const Wishes& wishes, const Surroundings& world, const Plan& plan);

}  // namespace e4::mkfs
