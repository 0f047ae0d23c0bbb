// SPDX-License-Identifier: GPL-2.0-only
#include "replay/options_run.h"

#include <CLI/CLI.hpp>

namespace e4::replay {
namespace {

void many(CLI::App& app, const char* name, std::vector<std::string>& to, const char* help, const char* type) {
  app.add_option(name, to, help)->type_name(type)->type_size(1)->allow_extra_args(false)->take_all();
}

void add_running(CLI::App& app, trace::RunOptions& run, unsigned& repeats, bool& by_cpu) {
  app.add_option("--threads", run.threads, "threads that make requests at once")->type_name("N")->check(CLI::Range(1U, 1024U));
  app.add_flag("--map-cpus", by_cpu, "a thread for each recorded CPU (default: inodes spread over the threads)");
  app.add_option("--repeat", repeats, "run so often, take the median")->type_name("N")->check(CLI::Range(1U, 1000U));
}

}  // namespace

PolicySet parse_policy_set(const std::string& text) {
  PolicySet p;
  std::string words = text;
  if (const std::size_t colon = text.find(':'); colon != std::string::npos && text.find('=') > colon) {
    p.name = text.substr(0, colon);
    words = text.substr(colon + 1);
  }
  if (p.name.empty()) p.name = words;
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t end = std::min(words.find(',', at), words.size());
    if (end > at) p.words.push_back(words.substr(at, end - at));
    at = end + 1;
  }
  return p;
}

void add_run_commands(CLI::App& app, RunCommandLine& line) {
  CLI::App& run = *app.add_subcommand("run", "run a recording's requests as fast as they go, under one set of policies");
  add_recording(run, line.run.from);
  add_running(run, line.run.run, line.run.repeats, line.run.by_cpu);
  many(run, "--policy", line.run.policy, "allocator policy (see: e4replay policies)", "NAME=VALUE");
  run.add_option("--preset", line.run.preset, "policies of a kernel (linux-6.18, linux-6.15, ...)")->type_name("KERNEL");
  run.add_flag("--json", line.run.json, "print one JSON document instead of text");

  CLI::App& what_if = *app.add_subcommand("what-if", "run a recording under two or more sets of policies, side by side");
  add_recording(what_if, line.what_if.from);
  add_running(what_if, line.what_if.run, line.what_if.repeats, line.what_if.by_cpu);
  what_if.add_option("--base", line.what_if.base, "the set the others are measured against (default: linux-6.18:preset=linux-6.18)")
      ->type_name("[NAME:]WORDS");
  many(what_if, "--with", line.what_if.with, "another set: words such as busy-groups=wait,scan=linear or preset=linux-6.15", "[NAME:]WORDS");
  what_if.add_flag("--json", line.what_if.json, "print one JSON document instead of text");

  CLI::App& report = *app.add_subcommand("report", "write one HTML page about a run, or about several side by side");
  add_recording(report, line.report.from);
  add_running(report, line.report.run, line.report.repeats, line.report.by_cpu);
  report.add_option("--base", line.report.base, "the first set of policies (default: linux-6.18)")->type_name("[NAME:]WORDS");
  many(report, "--with", line.report.with, "another set, shown beside the first", "[NAME:]WORDS");
  report.add_option("-o,--output", line.report.output, "page to write")->type_name("FILE.html")->required();

  CLI::App& m = *app.add_subcommand("materialize", "write the state a recording leads to as a file system image");
  add_recording(m, line.materialize.from);
  m.add_option("-o,--output", line.materialize.output, "image to write")->type_name("IMAGE")->required();
  m.add_option("--stop-at", line.materialize.stop_at, "stop after this event number, or after so many seconds (12.5s)")
      ->type_name("EVENT|TIME");
  m.add_flag("--crash", line.materialize.crash, "leave open-but-unlinked inodes as orphans, as a power cut would");
  m.add_flag("--json", line.materialize.json, "print one JSON document instead of text");

  CLI::App& g = *app.add_subcommand("generate", "make a synthetic recording ('generate list' names the workloads)");
  g.add_option("workload", line.generate.workload, "workload to play")->type_name("WORKLOAD")->required();
  g.add_option("-o,--output", line.generate.output, "recording directory to make")->type_name("DIR");
  g.add_option("--seed", line.generate.seed, "the same seed gives the same recording")->type_name("N");
  g.add_option("--image", line.generate.image, "start image (default: one is made with e4mkfs)")->type_name("IMAGE");
  g.add_option("--size", line.generate.size, "size of the image that is made")->type_name("SIZE");
  g.add_option("--block-size", line.generate.block_bytes, "its block size")->type_name("BYTES");
  g.add_option("--cpus", line.generate.cpus, "CPUs the workload runs on")->type_name("N")->check(CLI::Range(1U, 1024U));
  g.add_option("--count", line.generate.count, "files, steps or loops")->type_name("N");
  g.add_option("--fill", line.generate.fill_percent, "ageing: how full it gets")->type_name("PERCENT")->check(CLI::Range(1U, 99U));
  many(g, "--set", line.generate.set, "a tunable or mount option", "NAME=VALUE");
  g.add_flag("--json", line.generate.json, "print one JSON document instead of text");

  CLI::App& step = *app.add_subcommand("step", "walk through a recording event by event, forwards and backwards");
  add_recording(step, line.step.from);
  many(step, "--policy", line.step.policy, "allocator policy (see: e4replay policies)", "NAME=VALUE");

  CLI::App& s = *app.add_subcommand("sweep", "run many recordings under many policies, one JSON line each; can be continued");
  s.add_option("file", line.sweep.file, "sweep file (recordings, policies, threads, repeats)")->type_name("SWEEP.json")->required();
  s.add_option("-o,--output", line.sweep.output, "lines are added to this file")->type_name("FILE.jsonl")->required();
  s.add_option("--shard", line.sweep.shard, "only this part of the jobs, for several machines")->type_name("I/N");
  s.add_flag("-q,--quiet", line.sweep.quiet, "no line for each job on standard error");

  CLI::App& j = *app.add_subcommand("merge", "join the outputs of a sweep's shards");
  j.add_option("file", line.merge.file, "the sweep file")->type_name("SWEEP.json")->required();
  j.add_option("inputs", line.merge.inputs, "outputs of the shards")->type_name("FILE.jsonl")->required();
  j.add_option("-o,--output", line.merge.output, "file to write")->type_name("FILE.jsonl")->required();
}

Result<bool> take_run_command(CLI::App& app, RunCommandLine& line, Options& out) {
  auto given = [&](const char* name) { return app.get_subcommand(name)->parsed(); };
  auto mapping = [](trace::RunOptions& r, bool by_cpu) {
    r.mapping = by_cpu ? trace::Mapping::cpu : trace::Mapping::inode;
  };
  if (given("run")) {
    E4_TRY(check_recording(line.run.from, "run"));
    mapping(line.run.run, line.run.by_cpu);
    out.command = line.run;
  } else if (given("what-if")) {
    E4_TRY(check_recording(line.what_if.from, "what-if"));
    if (line.what_if.with.empty()) return make_error(ErrorKind::usage, "what-if needs at least one --with");
    mapping(line.what_if.run, line.what_if.by_cpu);
    out.command = line.what_if;
  } else if (given("report")) {
    E4_TRY(check_recording(line.report.from, "report"));
    mapping(line.report.run, line.report.by_cpu);
    out.command = line.report;
  } else if (given("materialize")) {
    E4_TRY(check_recording(line.materialize.from, "materialize"));
    out.command = line.materialize;
  } else if (given("generate")) {
    if (line.generate.output.empty() && line.generate.workload != "list")
      return make_error(ErrorKind::usage, "generate needs -o DIR");
    out.command = line.generate;
  } else if (given("step")) {
    E4_TRY(check_recording(line.step.from, "step"));
    out.command = line.step;
  } else if (given("sweep")) {
    out.command = line.sweep;
  } else if (given("merge")) {
    out.command = line.merge;
  } else {
    return false;
  }
  return true;
}

}  // namespace e4::replay
