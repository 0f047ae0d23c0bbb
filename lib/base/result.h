// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <tl/expected.hpp>
#include <type_traits>
#include <utility>

#include "base/error.h"

namespace e4 {

/// A value or an Error. Derives from tl::expected (an alias would not be
/// [[nodiscard]], and a dropped error would compile in silence).
template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
  Result(Error e) : tl::expected<T, Error>(tl::unexpect, std::move(e)) {}  // NOLINT(google-explicit-constructor)
};

namespace detail {
template <class T>
T take(Result<T>& r) { return std::move(*r); }
inline void take(Result<void>&) {}
}  // namespace detail

}  // namespace e4

/// Yields the value of a Result, or returns its Error from the function.
#define E4_TRY(...)                                                       \
  __extension__({                                                         \
    auto e4_try_result_ = (__VA_ARGS__);                                  \
    if (!e4_try_result_) return ::e4::Error(std::move(e4_try_result_).error()); \
    ::e4::detail::take(e4_try_result_);                                   \
  })
