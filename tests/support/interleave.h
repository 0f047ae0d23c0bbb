// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "alloc/sync.h"
#include "base/mutex.h"

namespace e4::testing_support {

/// Walks through every interleaving of a few small threads over real code that
/// touches shared memory through ModelSync.
///
/// A thread is a list of operations (closures over the code under test). What an
/// operation does next depends only on what it has read so far, so no stack is
/// kept: to take one step of a thread, its operation is run again from the
/// start with the values it saw before played back, does one new access for
/// real, and is stopped (by an exception) at the access after that. A state is
/// the registered memory and what each thread has read in its current
/// operation; states are visited once, told apart by a 128-bit hash.
///
/// Locks block; unlock goes with the access before it (others could only have
/// waited in between). Memory is sequentially consistent, except for words
/// declared hint(): a relaxed load of one may return any value of its history
/// that is not older than the last one the thread has seen.
class Interleave {
 public:
  using Operation = std::function<void()>;
  /// Both return what is wrong, empty if nothing.
  using Check = std::function<std::string()>;
  using StepCheck = std::function<std::string(unsigned thread, bool operation_finished)>;

  /// Memory that the threads share, and monitors' own.
  void shared(void* memory, std::size_t bytes) { regions_.push_back({static_cast<std::byte*>(memory), bytes}); }
  /// Memory only operations of `thread` write, without ModelSync (others may read it in checks).
  void own(unsigned thread, void* memory, std::size_t bytes);
  void hint(const void* word) { hints_.push_back({word, {}, {}}); }
  void thread(std::vector<Operation> operations);
  void each_step(StepCheck check) { each_step_ = std::move(check); }
  void at_end(Check check) { at_end_ = std::move(check); }

  struct Report {
    std::uint64_t states = 0, steps = 0, ends = 0;
    std::size_t longest = 0;   // steps of the longest schedule
    bool complete = false;     // every interleaving was looked at
    std::string failure;       // the first thing wrong, and the schedule that led to it
  };
  /// Stops at the first failure or at `max_states`.
  Report run(std::uint64_t max_states = 20'000'000);

  // --- for ModelSync ----------------------------------------------------------------------------
  enum class Kind : std::uint8_t { load, store, exchange, cas, add, get, set, lock, try_lock, unlock };
  struct Seen {
    std::uint64_t value = 0;
    bool flag = false;
  };
  /// The explorer whose operation runs on this thread, or nullptr.
  static Interleave* current() { return current_; }
  /// One access: played back, or done now, or the end of this step.
  template <class Do>
  Seen access(Kind kind, const void* word, Do perform) {
    if (stopping_) return {};
    if (at_ < history().size()) return replay(kind, word);
    if (stepped_ && kind != Kind::unlock) stop();
    const Seen seen = perform();
    record(kind, word, seen);
    return seen;
  }
  [[noreturn]] void block();
  /// Hint words: the value this load returns, or false for other words.
  bool stale_value(const void* word, std::uint64_t& value);
  void hint_stored(const void* word, std::uint64_t value);

 private:
  struct Region {
    std::byte* memory;
    std::size_t bytes;
  };
  struct Entry {
    const void* word;
    Kind kind;
    Seen seen;
  };
  struct Hint {
    const void* word;
    std::vector<std::uint64_t> values;   // modification order
    std::vector<std::uint32_t> views;    // per thread: oldest value it may still see
  };
  struct Thread {
    std::size_t operation = 0;
    std::vector<Entry> history;          // of the current operation
    std::vector<std::byte> own_at_start; // own memory when the current operation began
  };
  struct State {
    std::vector<std::byte> memory;
    std::vector<Thread> threads;
    std::vector<Hint> hints;
  };
  struct Stop {};
  struct Blocked {};
  struct HashKey {
    std::uint64_t a, b;
    bool operator==(const HashKey&) const = default;
  };
  struct HashKeyHash {
    std::size_t operator()(const HashKey& k) const { return k.a; }
  };
  struct PathStep {
    unsigned thread;
    Entry entry;
  };

  std::vector<Entry>& history() { return threads_[running_].history; }
  Seen replay(Kind kind, const void* word);
  void record(Kind kind, const void* word, Seen seen);
  [[noreturn]] void stop();
  [[nodiscard]] State capture() const;
  void restore(const State& state);
  [[nodiscard]] HashKey key() const;
  void save_own(unsigned thread);
  bool step(unsigned thread, std::uint32_t choice, bool& finished);
  bool explore();
  [[nodiscard]] std::string describe(const std::string& what) const;

  static inline thread_local Interleave* current_ = nullptr;
  std::vector<Region> regions_;
  std::vector<std::vector<Region>> own_;
  std::vector<std::vector<Operation>> programs_;
  StepCheck each_step_;
  Check at_end_;

  std::vector<Thread> threads_;
  std::vector<Hint> hints_;
  unsigned running_ = 0;
  std::size_t at_ = 0;
  bool stepped_ = false, stopping_ = false;
  std::uint32_t choice_ = 0, choices_ = 1;
  std::unordered_set<HashKey, HashKeyHash> visited_;
  std::vector<PathStep> path_;
  std::uint64_t max_states_ = 0;
  Report report_;
};

/// A blocking lock under the explorer; plain words outside of it.
class E4_CAPABILITY("mutex") ModelLock {
 public:
  ModelLock() = default;
  explicit ModelLock(alloc::NeighbourRank) {}
  void lock() E4_ACQUIRE();
  bool try_lock() E4_TRY_ACQUIRE(true);
  void unlock() E4_RELEASE();
  [[nodiscard]] alloc::LockTraffic traffic() const { return {}; }

 private:
  std::uint32_t held_ = 0;
};

struct ModelSync {
  using Spin = ModelLock;
  using Sleep = ModelLock;

  template <class T>
  static T load(const T& word, std::memory_order order) {
    return read(Interleave::Kind::load, word, order);
  }
  template <class T>
  static void store(T& word, T value, std::memory_order) {
    write(Interleave::Kind::store, word, value);
  }
  template <class T>
  static T exchange(T& word, T value, std::memory_order) {
    return modify(Interleave::Kind::exchange, word, [value](T) { return value; });
  }
  template <class T>
  static bool compare_exchange(T& word, T& expected, T value, std::memory_order, std::memory_order) {
    const auto perform = [&] {
      const T found = word;
      const bool same = found == expected;
      if (same) word = value;
      return Interleave::Seen{bits(found), same};
    };
    Interleave* const e = Interleave::current();
    const Interleave::Seen seen = e != nullptr ? e->access(Interleave::Kind::cas, &word, perform) : perform();
    if (!seen.flag) expected = from_bits<T>(seen.value);
    return seen.flag;
  }
  template <class T>
  static T fetch_add(T& word, T by, std::memory_order) {
    return modify(Interleave::Kind::add, word, [by](T now) { return static_cast<T>(now + by); });
  }
  template <class T>
  static T get(const T& field) {
    return read(Interleave::Kind::get, field, std::memory_order_seq_cst);
  }
  template <class T>
  static void set(T& field, T value) {
    write(Interleave::Kind::set, field, value);
  }
  static void yield() {}

 private:
  template <class T>
  static std::uint64_t bits(T v) {
    static_assert(sizeof(T) <= 8);
    std::uint64_t b = 0;
    std::memcpy(&b, &v, sizeof v);
    return b;
  }
  template <class T>
  static T from_bits(std::uint64_t b) {
    T v;
    std::memcpy(&v, &b, sizeof v);
    return v;
  }
  template <class T>
  static T read(Interleave::Kind kind, const T& word, std::memory_order order) {
    Interleave* const e = Interleave::current();
    if (e == nullptr) return word;
    return from_bits<T>(e->access(kind, &word, [&] {
                           std::uint64_t stale = 0;
                           if (order == std::memory_order_relaxed && e->stale_value(&word, stale))
                             return Interleave::Seen{stale, false};
                           return Interleave::Seen{bits(word), false};
                         }).value);
  }
  template <class T>
  static void write(Interleave::Kind kind, T& word, T value) {
    Interleave* const e = Interleave::current();
    if (e == nullptr) {
      word = value;
      return;
    }
    e->access(kind, &word, [&] {
      word = value;
      e->hint_stored(&word, bits(value));
      return Interleave::Seen{};
    });
  }
  template <class T, class F>
  static T modify(Interleave::Kind kind, T& word, F f) {
    const auto perform = [&] {
      const T old = word;
      word = f(old);
      return Interleave::Seen{bits(old), false};
    };
    Interleave* const e = Interleave::current();
    return from_bits<T>((e != nullptr ? e->access(kind, &word, perform) : perform()).value);
  }
};

}  // namespace e4::testing_support
