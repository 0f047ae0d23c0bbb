// SPDX-License-Identifier: GPL-2.0-only
#include "fsck/fsck.h"

#include <memory>
#include <ostream>

#include "cli/exit_status.h"
#include "fsck/options.h"
#include "image/device.h"
#include "report/json.h"
#include "report/progress.h"
#include "report/text.h"

namespace e4::fsck {

namespace status = cli::exit_status;

namespace {

std::unique_ptr<report::Progress> make_progress(const Options& o, cli::Io& io) {
  if (!o.progress_fd || *o.progress_fd < 0) return report::no_progress();
  if (*o.progress_fd == 0) return o.json ? report::no_progress() : report::bar_progress(io.out, o.image, io.columns);
  return report::descriptor_progress(*o.progress_fd, o.image);
}

check::Outcome run(const Options& o, report::Sink& sink, report::Progress& progress) {
  auto device = image::open_file(o.image, {.writable = o.check.mode != check::Mode::read_only});
  if (!device) {
    check::Outcome out;
    out.error = std::move(device).error();
    return out;
  }
  return check::check_image(**device, o.check, sink, progress);
}

}  // namespace

int exit_status_of(const check::Outcome& o) {
  const report::Verdict& v = o.verdict;
  int s = status::kOk;
  if (v.left > 0) s |= status::kLeft;
  else if (v.fixed > 0 && (!o.error || v.bytes_written > 0)) s |= status::kFixed;
  if (o.error) s |= status::kOperational;
  if (o.refused_feature) s = (s & ~status::kFixed) | status::kOperational | status::kLeft;
  if (o.cancelled) s |= status::kCancelled;
  return s;
}

int fsck(const std::vector<std::string>& args, cli::Io& io) {
  const auto parsed = parse(args, io);
  if (const int* end = std::get_if<int>(&parsed)) return *end;
  const Options& o = std::get<Options>(parsed);
  const bool preen = o.check.mode == check::Mode::preen, read_only = o.check.mode == check::Mode::read_only;
  if (!preen && !o.json) io.err << "e4fsck " << E4_VERSION << '\n';

  report::TextSink text(io.out, {.device = o.image, .prefix_all = preen, .print_quiet = o.verbose},
                        o.check.mode == check::Mode::interactive ? &io.in : nullptr);
  report::Collector collected(o.json ? nullptr : &text, o.json ? 10'000 : 0);
  const auto progress = make_progress(o, io);
  check::Outcome out = run(o, collected, *progress);
  out.verdict.exit_status = exit_status_of(out);

  if (o.json) {
    report::write_json(io.out,
                       {.tool = "e4fsck", .version = E4_VERSION, .image = o.image, .mode = std::string(check::name_of(o.check.mode)),
                        .error = out.error ? out.error->message() : ""},
                       out.verdict, collected);
    return out.verdict.exit_status;
  }
  if (out.verdict.halted)
    io.out << '\n' << o.image << ": UNEXPECTED INCONSISTENCY; RUN e4fsck MANUALLY.\n\t(i.e., without -a or -p options)\n";
  if (out.error) io.err << "e4fsck: " << out.error->message() << '\n';
  if (out.refused_feature)
    io.err << "e4fsck: " << o.image << ": nothing was written because of the unknown feature\n";
  if (out.cancelled) io.err << "e4fsck: " << o.image << ": cancelled; run it again to finish\n";
  if (!out.error || out.verdict.found != 0) report::write_summary(io.out, o.image, out.verdict, read_only || out.refused_feature);
  return out.verdict.exit_status;
}

}  // namespace e4::fsck
