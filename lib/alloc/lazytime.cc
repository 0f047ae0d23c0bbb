// SPDX-License-Identifier: GPL-2.0-only
#include "alloc/lazytime.h"

namespace e4::alloc {

template class BasicLazytime<NativeSync>;

}  // namespace e4::alloc
