// SPDX-License-Identifier: GPL-2.0-only
#include "mkfs/mkfs.h"

#include <unistd.h>

#include <istream>
#include <nlohmann/json.hpp>
#include <ostream>

#include "image/signature.h"
#include "image/undo.h"
#include "mkfs/draft.h"
#include "mkfs/options.h"
#include "mkfs/plan.h"
#include "mkfs/report.h"
#include "mkfs/target.h"
#include "mkfs/write.h"

namespace e4::mkfs {

namespace {

/// A person at a terminal is asked before other content is lost; a script is not.
Result<bool> may_overwrite(const Wishes& wishes, const Surroundings& world, cli::Io& io) {
  if (!world.exists || wishes.force > 0 || wishes.dry_run || !io.in_is_terminal || !io.out_is_terminal) return true;
  const auto found = image::describe_content(wishes.image);
  if (!found) return true;
  io.out << wishes.image << " contains " << *found << "\nProceed anyway? (y,N) " << std::flush;
  std::string answer;
  std::getline(io.in, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

/// Copies the draft to the target. What a failure leaves is no file system, and no file if we made it.
Result<std::uint64_t> write_out(const Wishes& wishes, const Surroundings& world, const Plan& plan, const Draft& draft,
                                const cli::Io& io) {
  Target target = E4_TRY(open_target(wishes, world, plan));
  auto written = [&]() -> Result<std::uint64_t> {
    // A file just created is one hole.
    Draft::Commit how{.discard = plan.discard && !target.created,
                      .reads_zero = target.created || plan.assume_zeroed,
                      .stop = io.stop};
    if (!wishes.undo) return draft.commit(*target.device, how);
    how.discard = false;
    auto undo = E4_TRY(image::open_undo(*target.device, *wishes.undo, plan.block_bytes));
    return draft.commit(*undo, how);
  }();
  if (!written && target.created) ::unlink(wishes.image.c_str());
  return written;
}

Result<void> make(Wishes& wishes, cli::Io& io) {
  const Surroundings world = E4_TRY(look_around(wishes, io));
  const Plan plan = E4_TRY(mkfs::plan(wishes, world));
  for (const std::string& note : plan.notes) io.err << "e4mkfs: " << note << '\n';
  if (!E4_TRY(may_overwrite(wishes, world, io))) return make_error(ErrorKind::cancelled, "nothing was written");

  Draft draft(wishes.image, plan.blocks * plan.block_bytes, plan.block_bytes);
  const Built built = E4_TRY(build(plan, draft));
  for (const std::string& note : built.notes) io.err << "e4mkfs: " << note << '\n';
  Outcome made{.wishes = wishes, .plan = plan, .built = built};
  const bool text = !wishes.quiet && !wishes.json;
  if (text && !world.exists && !wishes.dry_run) io.out << "Creating regular file " << wishes.image << '\n';
  if (text) print_geometry(io.out, made);
  if (!wishes.dry_run) {
    made.bytes_written = E4_TRY(write_out(wishes, world, plan, draft, io));
    if (text) print_steps(io.out, made);
  }
  if (wishes.json) print_json(io.out, made);
  return {};
}

}  // namespace

int run(const std::vector<std::string>& args, cli::Io& io) {
  auto options = parse_options(args);
  if (!options) {
    io.err << "e4mkfs: " << options.error().message() << '\n';
    return 1;
  }
  if (options->done) {
    io.out << options->text;
    return 0;
  }
  const auto made = make(options->wishes, io);
  if (made) return 0;
  io.err << "e4mkfs: " << made.error().message() << '\n';
  if (options->wishes.json)
    io.out << nlohmann::json{{"schema", "e4progs-mkfs"}, {"schema_version", 1}, {"tool", "e4mkfs"},
                             {"tool_version", E4_VERSION}, {"image", options->wishes.image},
                             {"error", made.error().message()}}
                  .dump(2, ' ', false, nlohmann::json::error_handler_t::replace)
           << '\n';
  return 1;
}

}  // namespace e4::mkfs
