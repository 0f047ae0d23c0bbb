// SPDX-License-Identifier: GPL-2.0-only
#include "replay/sweep.h"

#include <fmt/core.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/crc32c.h"
#include "replay/options_run.h"

namespace e4::replay {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::uintmax_t kMaxSweepBytes = 64 * kMiB;

/// Names a job by what it is and not by where it stands.
std::string job_id(const SweepJob& j) {
  std::string text = fs::path(j.recording).lexically_normal().filename().string();
  if (text.empty()) text = fs::path(j.recording).lexically_normal().parent_path().filename().string();
  std::string words;
  for (const auto& w : j.policy.words) words += w + ",";
  return fmt::format("{}.{:08x}.{}x{}", text, crc32c(~0U, words.data(), words.size()), j.threads, j.repeats);
}

/// The lines of an output, by id. Stops at a line that is no JSON object: the rest was cut.
std::map<std::string, json> read_lines(const std::string& path, std::uint64_t& good_bytes) {
  std::map<std::string, json> lines;
  std::ifstream in(path, std::ios::binary);
  std::string line;
  good_bytes = 0;
  while (std::getline(in, line)) {
    if (in.eof()) break;  // no newline: the writer was stopped in the middle
    const json j = json::parse(line, nullptr, false);
    if (!j.is_object() || !j.contains("job") || !j["job"].is_string()) break;
    const auto id = j["job"].get<std::string>();
    if (!lines.contains(id) || !j.contains("error")) lines[id] = j;
    good_bytes += line.size() + 1;
  }
  return lines;
}

ordered_json run_job(const SweepJob& job) {
  ordered_json line;
  line["schema"] = "e4replay-sweep/1";
  line["job"] = job.id;
  line["recording"] = job.recording;
  line["policy"] = {{"name", job.policy.name}, {"words", job.policy.words}};
  line["threads"] = job.threads;
  ExperimentOptions o;
  o.from.recording = job.recording;
  o.policies = {job.policy};
  o.run.threads = job.threads;
  o.repeats = job.repeats;
  auto e = run_experiment(o);
  if (!e) {
    line["error"] = e.error().message();
    return line;
  }
  const ordered_json whole = ordered_json::parse(experiment_json(*e));
  line["events"] = whole["events"];
  line["lost_events"] = whole["lost_events"];
  line["trials"] = whole["trials"];
  return line;
}

}  // namespace

Result<std::vector<SweepJob>> read_sweep(const std::string& path) {
  std::error_code ec;
  if (const auto bytes = fs::file_size(path, ec); ec || bytes > kMaxSweepBytes)
    return make_error(ErrorKind::usage, "cannot read sweep file " + path);
  std::ifstream in(path, std::ios::binary);
  const json j = json::parse(in, nullptr, false, true);
  if (!j.is_object()) return make_error(ErrorKind::usage, path + ": not a JSON object");
  auto strings = [&](const char* name) -> Result<std::vector<std::string>> {
    std::vector<std::string> v;
    const auto it = j.find(name);
    if (it == j.end() || !it->is_array() || it->empty())
      return make_error(ErrorKind::usage, path + ": \"" + name + "\" must be a list of texts");
    for (const json& s : *it) {
      if (!s.is_string()) return make_error(ErrorKind::usage, path + ": \"" + name + "\" must be a list of texts");
      v.push_back(s.get<std::string>());
    }
    return v;
  };
  std::vector<std::uint32_t> threads{1};
  if (const auto it = j.find("threads"); it != j.end()) {
    threads.clear();
    if (it->is_array())
      for (const json& n : *it)
        if (n.is_number_unsigned() && n.get<std::uint64_t>() >= 1 && n.get<std::uint64_t>() <= 1024) threads.push_back(n.get<std::uint32_t>());
    if (threads.empty() || threads.size() != it->size())
      return make_error(ErrorKind::usage, path + ": \"threads\" must be a list of numbers from 1 to 1024");
  }
  std::uint32_t repeats = 1;
  if (const auto it = j.find("repeats"); it != j.end()) {
    if (!it->is_number_unsigned() || it->get<std::uint64_t>() < 1 || it->get<std::uint64_t>() > 1000)
      return make_error(ErrorKind::usage, path + ": \"repeats\" must be a number from 1 to 1000");
    repeats = it->get<std::uint32_t>();
  }
  std::vector<SweepJob> jobs;
  std::set<std::string> seen;
  for (const std::string& r : E4_TRY(strings("recordings")))
    for (const std::string& p : E4_TRY(strings("policies")))
      for (const std::uint32_t t : threads) {
        SweepJob job;
        job.recording = fs::path(r).is_absolute() ? r : (fs::path(path).parent_path() / r).string();
        job.policy = parse_policy_set(p);
        job.threads = t;
        job.repeats = repeats;
        job.id = job_id(job);
        while (!seen.insert(job.id).second) job.id += "+";
        jobs.push_back(std::move(job));
      }
  return jobs;
}

Result<Shard> parse_shard(const std::string& text) {
  Shard s;
  if (text.empty()) return s;
  const std::size_t slash = text.find('/');
  const char* end = text.data() + text.size();
  if (slash != std::string::npos) {
    const auto a = std::from_chars(text.data(), text.data() + slash, s.index);
    const auto b = std::from_chars(text.data() + slash + 1, end, s.count);
    if (a.ec == std::errc{} && a.ptr == text.data() + slash && b.ec == std::errc{} && b.ptr == end && s.index >= 1 && s.index <= s.count) {
      --s.index;
      return s;
    }
  }
  return make_error(ErrorKind::usage, "--shard " + text + ": I/N is wanted, I from 1 to N");
}

Result<SweepDone> run_sweep(const std::vector<SweepJob>& jobs, Shard shard, const std::string& output,
                            const std::function<bool(const SweepJob&, std::uint64_t, std::uint64_t)>& tick) {
  std::uint64_t good = 0;
  const auto have = read_lines(output, good);
  std::error_code ec;
  if (fs::exists(output, ec) && fs::file_size(output, ec) != good) fs::resize_file(output, good, ec);
  if (ec) return make_error(ErrorKind::io, "cannot continue " + output, ec.value());
  std::ofstream out(output, std::ios::binary | std::ios::app);
  if (!out) return make_error(ErrorKind::io, "cannot write " + output);
  SweepDone done;
  std::vector<const SweepJob*> mine;
  for (std::size_t i = 0; i < jobs.size(); ++i)
    if (i % shard.count == shard.index) mine.push_back(&jobs[i]);
  for (const SweepJob* job : mine) {
    ++done.jobs;
    if (const auto it = have.find(job->id); it != have.end() && !it->second.contains("error")) {
      ++done.skipped;
      continue;
    }
    if (tick && !tick(*job, done.jobs - 1, mine.size())) return make_error(ErrorKind::cancelled, "interrupted");
    const ordered_json line = run_job(*job);
    out << line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << "\n" << std::flush;
    if (!out) return make_error(ErrorKind::io, "cannot write " + output);
    ++(line.contains("error") ? done.failed : done.ran);
  }
  return done;
}

Result<std::vector<std::string>> merge_sweep(const std::vector<SweepJob>& jobs, const std::vector<std::string>& inputs,
                                             const std::string& output) {
  std::map<std::string, json> all;
  for (const std::string& path : inputs) {
    std::error_code ec;
    if (!fs::exists(path, ec)) return make_error(ErrorKind::usage, path + ": no such file");
    std::uint64_t good = 0;
    for (auto& [id, line] : read_lines(path, good))
      if (!all.contains(id) || all[id].contains("error")) all[id] = line;
  }
  std::vector<std::string> missing;
  std::string text;
  for (const SweepJob& job : jobs) {
    const auto it = all.find(job.id);
    if (it == all.end() || it->second.contains("error")) missing.push_back(job.id);
    if (it != all.end()) text += it->second.dump() + "\n";
  }
  std::ofstream out(output, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) return make_error(ErrorKind::io, "cannot write " + output);
  return missing;
}

}  // namespace e4::replay
