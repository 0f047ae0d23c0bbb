// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "alloc/allocator.h"
#include "replay/image_state.h"
#include "replay/options.h"
#include "trace/player.h"
#include "trace/reader.h"
#include "trace/recording.h"

namespace e4::replay {

/// One file system of a recording, loaded: its start state and an allocator over it.
struct World {
  trace::RecordedFilesystem recorded;
  std::unique_ptr<ImageState> start;
  std::unique_ptr<alloc::Allocator> allocator;  // over *start
};

/// The recording that the options name: a directory, or parts by hand, with
/// --set and --device applied.
Result<trace::Recording> load_recording(const RecordingOptions& options);

/// Loads the start state of a file system and puts an allocator over it.
Result<World> load_world(const trace::Recording& recording, const trace::RecordedFilesystem& fs,
                         const alloc::Policy& policy);

/// What a player must know of it. `reader` tells thread names and must outlive the facts.
trace::PlayerFacts player_facts(const trace::Recording& recording, World& world, const trace::Reader& reader);

/// Plays one event; an Error names the trace and the event.
Result<void> feed(trace::Player& player, const trace::Recording& recording, trace::Item& item);

/// "MAJOR:MINOR".
std::string device_name(std::uint32_t device);

/// After the last event: Error if the trace had none at all, or only events of other devices (`any`: one of ours was
/// there). Nothing compared or replayed is not "all identical".
Result<void> expect_events(const trace::Recording& recording, const trace::Reader& reader, bool any);

/// A policy from "name=value" and "preset=name" words, in order.
Result<alloc::Policy> make_policy(const std::vector<std::string>& words);

}  // namespace e4::replay
