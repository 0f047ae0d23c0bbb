// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace e4::testing_support {

/// Runs work(0) ... work(n - 1) at once on n threads that start together.
template <class Work>
void together(unsigned threads, Work work) {
  std::atomic<unsigned> ready{0};
  std::vector<std::jthread> pool;
  pool.reserve(threads);
  for (unsigned t = 0; t < threads; ++t)
    pool.emplace_back([&, t] {
      ready.fetch_add(1);
      while (ready.load() != threads) std::this_thread::yield();
      work(t);
    });
}

}  // namespace e4::testing_support
