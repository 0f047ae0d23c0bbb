// SPDX-License-Identifier: GPL-2.0-only
#include "support/interleave.h"

#include <algorithm>

#include "base/assert.h"

namespace e4::testing_support {

void Interleave::own(unsigned thread, void* memory, std::size_t bytes) {
  if (own_.size() <= thread) own_.resize(thread + 1);
  own_[thread].push_back({static_cast<std::byte*>(memory), bytes});
  shared(memory, bytes);
}

void Interleave::thread(std::vector<Operation> operations) {
  programs_.push_back(std::move(operations));
  if (own_.size() < programs_.size()) own_.resize(programs_.size());
}

Interleave::Seen Interleave::replay(Kind kind, const void* word) {
  const Entry& e = history()[at_++];
  // Another path than last time would mean that the operation depends on something it did not read through ModelSync.
  E4_ASSERT(e.kind == kind && e.word == word);
  return e.seen;
}

void Interleave::record(Kind kind, const void* word, Seen seen) {
  history().push_back({word, kind, seen});
  ++at_;
  if (kind == Kind::unlock) return;
  stepped_ = true;
  path_.push_back({running_, history().back()});
}

void Interleave::stop() {
  stopping_ = true;  // destructors on the way out must not touch anything
  throw Stop{};
}

void Interleave::block() {
  stopping_ = true;
  throw Blocked{};
}

bool Interleave::stale_value(const void* word, std::uint64_t& value) {
  for (Hint& h : hints_) {
    if (h.word != word) continue;
    std::uint32_t& view = h.views[running_];
    choices_ = static_cast<std::uint32_t>(h.values.size()) - view;
    view += choice_;
    value = h.values[view];
    return true;
  }
  return false;
}

void Interleave::hint_stored(const void* word, std::uint64_t value) {
  for (Hint& h : hints_) {
    if (h.word != word) continue;
    h.values.push_back(value);
    h.views[running_] = static_cast<std::uint32_t>(h.values.size() - 1);
  }
}

Interleave::State Interleave::capture() const {
  State s;
  std::size_t bytes = 0;
  for (const Region& r : regions_) bytes += r.bytes;
  s.memory.resize(bytes);
  std::byte* out = s.memory.data();
  for (const Region& r : regions_) {
    std::memcpy(out, r.memory, r.bytes);
    out += r.bytes;
  }
  s.threads = threads_;
  s.hints = hints_;
  return s;
}

void Interleave::restore(const State& state) {
  const std::byte* in = state.memory.data();
  for (const Region& r : regions_) {
    std::memcpy(r.memory, in, r.bytes);
    in += r.bytes;
  }
  threads_ = state.threads;
  hints_ = state.hints;
}

Interleave::HashKey Interleave::key() const {
  std::uint64_t a = 0x9E3779B97F4A7C15ULL, b = 0xC2B2AE3D27D4EB4FULL;
  const auto feed = [&](std::uint64_t v) {
    a = (a ^ v) * 0xBF58476D1CE4E5B9ULL;
    a ^= a >> 29;
    b = (b + v) * 0x94D049BB133111EBULL;
    b ^= b >> 32;
  };
  for (const Region& r : regions_) {
    std::size_t i = 0;
    for (; i + 8 <= r.bytes; i += 8) {
      std::uint64_t v;
      std::memcpy(&v, r.memory + i, 8);
      feed(v);
    }
    for (; i < r.bytes; ++i) feed(static_cast<std::uint64_t>(r.memory[i]));
  }
  for (const Thread& t : threads_) {
    feed(t.operation << 32 | t.history.size());
    for (const Entry& e : t.history) feed(e.seen.value << 1 | (e.seen.flag ? 1 : 0));
  }
  for (const Hint& h : hints_) {
    feed(h.values.size());
    for (const std::uint64_t v : h.values) feed(v);
    for (const std::uint32_t v : h.views) feed(v);
  }
  return {a, b};
}

void Interleave::save_own(unsigned thread) {
  std::vector<std::byte>& saved = threads_[thread].own_at_start;
  saved.clear();
  for (const Region& r : own_[thread]) saved.insert(saved.end(), r.memory, r.memory + r.bytes);
}

/// One access of `thread`. False: it waits for a lock.
bool Interleave::step(unsigned thread, std::uint32_t choice, bool& finished) {
  Thread& t = threads_[thread];
  const std::byte* saved = t.own_at_start.data();
  for (const Region& r : own_[thread]) {
    std::memcpy(r.memory, saved, r.bytes);
    saved += r.bytes;
  }
  running_ = thread;
  at_ = 0;
  stepped_ = stopping_ = finished = false;
  choice_ = choice;
  choices_ = 1;
  current_ = this;
  bool blocked = false;
  try {
    programs_[thread][t.operation]();
    finished = true;
  } catch (const Stop&) {
  } catch (const Blocked&) {
    blocked = true;
  }
  current_ = nullptr;
  stopping_ = false;
  if (blocked) return false;
  E4_ASSERT(stepped_ || finished);
  if (finished) {
    ++t.operation;
    t.history.clear();
    save_own(thread);
  }
  return true;
}

/// False: stop everything.
bool Interleave::explore() {
  if (++report_.states >= max_states_) return false;
  report_.longest = std::max(report_.longest, path_.size());
  const State here = capture();
  const std::size_t depth = path_.size();
  bool any = false, all_done = true;
  for (unsigned t = 0; t < programs_.size(); ++t) {
    if (here.threads[t].operation == programs_[t].size()) continue;
    all_done = false;
    for (std::uint32_t choice = 0, choices = 1; choice < choices; ++choice) {
      restore(here);
      bool finished = false;
      const bool moved = step(t, choice, finished);
      choices = choices_;
      if (moved) {
        any = true;
        ++report_.steps;
        if (const std::string wrong = each_step_ ? each_step_(t, finished) : std::string(); !wrong.empty()) {
          report_.failure = describe(wrong);
          return false;
        }
        if (visited_.insert(key()).second && !explore()) return false;
      }
      path_.resize(depth);
    }
  }
  if (all_done) {
    ++report_.ends;
    if (const std::string wrong = at_end_ ? at_end_() : std::string(); !wrong.empty()) {
      report_.failure = describe(wrong);
      return false;
    }
  } else if (!any) {
    report_.failure = describe("deadlock");
    return false;
  }
  return true;
}

std::string Interleave::describe(const std::string& what) const {
  static constexpr const char* kNames[] = {"load", "store", "exchange", "cas", "add", "get", "set", "lock", "try_lock", "unlock"};
  std::vector<const void*> words;  // named in the order they turn up
  std::string text = what + "\nschedule:";
  for (const PathStep& p : path_) {
    auto w = std::find(words.begin(), words.end(), p.entry.word);
    if (w == words.end()) w = words.insert(words.end(), p.entry.word);
    text += "\n  thread " + std::to_string(p.thread) + ": " + kNames[static_cast<int>(p.entry.kind)] + " word " +
            std::to_string(w - words.begin()) + " saw " + std::to_string(p.entry.seen.value) +
            (p.entry.kind == Kind::cas ? (p.entry.seen.flag ? " (won)" : " (lost)") : "");
  }
  return text;
}

Interleave::Report Interleave::run(std::uint64_t max_states) {
  max_states_ = max_states;
  report_ = {};
  visited_.clear();
  path_.clear();
  threads_.assign(programs_.size(), {});
  for (unsigned t = 0; t < programs_.size(); ++t) save_own(t);
  for (Hint& h : hints_) {
    std::uint32_t v = 0;  // hint words are 32 bits wide
    std::memcpy(&v, h.word, sizeof v);
    h.values = {v};
    h.views.assign(programs_.size(), 0);
  }
  const State start = capture();
  visited_.insert(key());
  report_.complete = explore();
  restore(start);
  return report_;
}

void ModelLock::lock() {
  Interleave* const e = Interleave::current();
  if (e == nullptr) return;  // a check looks in, between two steps
  e->access(Interleave::Kind::lock, this, [&] {
    if (held_ != 0) e->block();
    held_ = 1;
    return Interleave::Seen{};
  });
}

bool ModelLock::try_lock() {
  Interleave* const e = Interleave::current();
  if (e == nullptr) return true;
  return e->access(Interleave::Kind::try_lock, this, [&] {
            const bool got = held_ == 0;
            held_ = 1;
            return Interleave::Seen{0, got};
          }).flag;
}

void ModelLock::unlock() {
  Interleave* const e = Interleave::current();
  if (e == nullptr) return;
  e->access(Interleave::Kind::unlock, this, [&] {
    held_ = 0;
    return Interleave::Seen{};
  });
}

}  // namespace e4::testing_support
