// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <string>

#include "replay/report_model.h"

namespace e4::replay {

/// One self-contained HTML page (no network, no scripts): summary, timeline,
/// criteria, latency, disk before and after, free runs, files, and with
/// several runs a side-by-side table. Readable in print, in dark mode and by
/// keyboard (every chart's numbers stand in a table behind a disclosure).
std::string report_html(const ReportModel& model);

}  // namespace e4::replay
