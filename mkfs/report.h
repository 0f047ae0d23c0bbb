// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <iosfwd>

#include "mkfs/plan.h"
#include "mkfs/wishes.h"
#include "mkfs/write.h"

namespace e4::mkfs {

/// What one run made, or (dry run) would make.
struct Outcome {
  const Wishes& wishes;
  const Plan& plan;
  const Built& built;
  std::uint64_t bytes_written = 0;  // to the target; 0 in a dry run
};

/// The first part of mke2fs's output: size, UUID, backups; with -v the whole geometry.
void print_geometry(std::ostream& out, const Outcome& made);
/// The second part: a line for each step, the orphan file among them.
void print_steps(std::ostream& out, const Outcome& made);
/// One document: {"schema": "e4progs-mkfs", "schema_version": 1, ...}. Keys are only ever added within a version.
void print_json(std::ostream& out, const Outcome& made);

}  // namespace e4::mkfs
