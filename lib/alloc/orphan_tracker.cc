// SPDX-License-Identifier: GPL-2.0-only
#include "alloc/orphan_tracker.h"

namespace e4::alloc {

template class BasicOrphanTracker<NativeSync>;

}  // namespace e4::alloc
