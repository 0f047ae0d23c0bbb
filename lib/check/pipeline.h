// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <optional>

#include "base/error.h"
#include "check/options.h"
#include "image/device.h"
#include "report/progress.h"
#include "report/sink.h"
#include "report/verdict.h"

namespace e4::check {

struct Outcome {
  report::Verdict verdict;         // exit_status is not filled in here
  std::optional<Error> error;      // why the run ended early
  bool cancelled = false;          // the user asked to stop; what was done is complete in itself
  bool refused_feature = false;    // an unknown feature kept us from writing what had to be written, or from looking
};

/// One run over one image: superblock, journal, descriptors, bitmaps that
/// recovery touched, orphans; see lib/README.md, "One recovery, end to end".
///
/// Everything happens in an overlay. With Mode::read_only the device is never
/// written (it may be read-only); in the other modes it is written through
/// journal::Committer only, so that being killed anywhere loses nothing and the
/// next run ends in the same image. After a run with Mode::yes a second one
/// finds nothing that this one has not listed as left.
///
/// Deterministic: the same image and options (now included) give the same
/// findings and the same bytes. One thread. Memory is bounded by the blocks
/// that change and 24 bytes a replayed block.
Outcome check_image(image::Device& device, const Options& options, report::Sink& sink, report::Progress& progress);

}  // namespace e4::check
