// SPDX-License-Identifier: GPL-2.0-only
#pragma once

namespace e4::detail {
[[noreturn]] void assert_failed(const char* expr, const char* file, int line);
}

/// What our own code must guarantee; always on. Never for values from an image.
#define E4_ASSERT(expr) \
  (__builtin_expect(!!(expr), 1) ? (void)0 : ::e4::detail::assert_failed(#expr, __FILE__, __LINE__))

/// Costly walks: debug, sanitizer builds only (E4_DEBUG).
#ifdef E4_DEBUG
#define E4_VERIFY(expr) E4_ASSERT(expr)
#else
#define E4_VERIFY(expr) ((void)0)
#endif
