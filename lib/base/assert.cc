// SPDX-License-Identifier: GPL-2.0-only
#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace e4::detail {

void assert_failed(const char* expr, const char* file, int line) {
  std::fprintf(stderr, "e4progs bug: %s:%d: assertion failed: %s\n", file, line, expr);
  std::abort();
}

}  // namespace e4::detail
