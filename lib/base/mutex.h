// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <mutex>

// clang's thread-safety analysis does not know libstdc++'s std::mutex, hence
// this thin annotated one. g++ ignores the attributes.
#if defined(__clang__)
#define E4_TSA(x) __attribute__((x))
#else
#define E4_TSA(x)
#endif
#define E4_CAPABILITY(x) E4_TSA(capability(x))
#define E4_SCOPED_CAPABILITY E4_TSA(scoped_lockable)
#define E4_GUARDED_BY(x) E4_TSA(guarded_by(x))
#define E4_PT_GUARDED_BY(x) E4_TSA(pt_guarded_by(x))
#define E4_REQUIRES(...) E4_TSA(requires_capability(__VA_ARGS__))
#define E4_EXCLUDES(...) E4_TSA(locks_excluded(__VA_ARGS__))
#define E4_ACQUIRE(...) E4_TSA(acquire_capability(__VA_ARGS__))
#define E4_TRY_ACQUIRE(...) E4_TSA(try_acquire_capability(__VA_ARGS__))
#define E4_RELEASE(...) E4_TSA(release_capability(__VA_ARGS__))
#define E4_ACQUIRED_BEFORE(...) E4_TSA(acquired_before(__VA_ARGS__))
#define E4_ACQUIRED_AFTER(...) E4_TSA(acquired_after(__VA_ARGS__))
#define E4_RETURN_CAPABILITY(x) E4_TSA(lock_returned(x))
#define E4_ASSERT_CAPABILITY(x) E4_TSA(assert_capability(x))
#define E4_NO_THREAD_SAFETY_ANALYSIS E4_TSA(no_thread_safety_analysis)

namespace e4 {

class E4_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void lock() E4_ACQUIRE() { m_.lock(); }
  void unlock() E4_RELEASE() { m_.unlock(); }
  bool try_lock() E4_TRY_ACQUIRE(true) { return m_.try_lock(); }

 private:
  std::mutex m_;
};

/// Holds a Mutex (or anything with lock/unlock) for a scope.
template <class M>
class E4_SCOPED_CAPABILITY BasicLock {
 public:
  explicit BasicLock(M& m) E4_ACQUIRE(m) : m_(m) { m_.lock(); }
  ~BasicLock() E4_RELEASE() { m_.unlock(); }
  BasicLock(const BasicLock&) = delete;
  BasicLock& operator=(const BasicLock&) = delete;

 private:
  M& m_;
};
using MutexLock = BasicLock<Mutex>;

}  // namespace e4
