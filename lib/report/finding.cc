// SPDX-License-Identifier: GPL-2.0-only
#include "report/finding.h"

namespace e4::report {

std::string_view name_of(Severity s) {
  switch (s) {
    case Severity::note: return "note";
    case Severity::preen: return "preen";
    case Severity::error: return "error";
    case Severity::unfixable: return "unfixable";
  }
  return "";
}

std::string_view name_of(Fate f) {
  switch (f) {
    case Fate::noted: return "noted";
    case Fate::fixed: return "fixed";
    case Fate::would_fix: return "would-fix";
    case Fate::left: return "left";
  }
  return "";
}

}  // namespace e4::report
