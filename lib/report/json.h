// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <iosfwd>
#include <string>

#include "report/sink.h"
#include "report/verdict.h"

namespace e4::report {

inline constexpr int kJsonVersion = 1;

/// Heads the document: who made it, about what.
struct JsonHead {
  std::string tool;     // "e4fsck"
  std::string version;  // of the tool
  std::string image;
  std::string mode;     // "read-only", "preen", "yes", "interactive"
  std::string error;    // why the run ended early; empty when it did not
};

/// Writes one JSON document and a newline:
///   {"schema": "e4progs-check", "schema_version": 1, "tool", "tool_version", "image", "mode", "error": null|text,
///    "exit_status", "verdict": {...}, "findings": [{"id", "severity", "fate", "text", "inode", "block", "group",
///    "slot", "args": {...}}], "findings_not_listed": N}
/// Keys are only ever added within a schema version. Bytes that are not UTF-8
/// (names from an image) are replaced by U+FFFD.
void write_json(std::ostream& out, const JsonHead& head, const Verdict& verdict, const Collector& findings);

}  // namespace e4::report
