// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"

namespace e4::report {

struct JournalVerdict {
  bool present = false;           // the file system has an internal journal
  bool needed = false;            // its log had something to replay
  bool replayed = false;          // and was replayed, in the image or (-n) in memory
  std::uint64_t transactions = 0; // committed transactions replayed
  std::uint64_t blocks = 0;       // home blocks written by them
  std::uint64_t revoked = 0;      // log blocks skipped because of a revoke record
  std::uint64_t fast_commit_records = 0;
  std::uint64_t dropped_transactions = 0;  // damaged, not applied
  std::uint64_t dropped_blocks = 0;
};

struct OrphanVerdict {
  std::uint64_t deleted = 0;    // links 0: inode and blocks given back
  std::uint64_t truncated = 0;  // a pending truncate finished
  std::uint64_t dropped = 0;    // entry removed, inode not touched
  std::uint64_t left = 0;       // not released: left to the full check
  std::uint64_t freed_blocks = 0;
  [[nodiscard]] std::uint64_t released() const { return deleted + truncated; }
};

struct Counts {
  std::uint64_t inodes = 0, free_inodes = 0;
  std::uint64_t blocks = 0, free_blocks = 0;  // in blocks, clusters already multiplied out
};

/// The answer of one check, for programs. Numbers count; nothing is rounded.
struct Verdict {
  std::uint64_t found = 0;  // findings that are worse than a note; recovery itself is none
  std::uint64_t fixed = 0;
  std::uint64_t left = 0;   // found - fixed
  bool halted = false;      // -p met something it may not decide
  JournalVerdict journal;
  OrphanVerdict orphans;
  std::uint64_t bytes_written = 0;     // to the image, the journal's log included
  std::uint64_t bytes_would_write = 0; // -n: bytes that differ between the image and its repaired copy, by whole blocks
  bool changed = false;                // something in the image was (or with -n would be) rewritten
  Counts counts;                       // of the image after recovery
  std::vector<std::string> not_checked;
  int exit_status = 0;
};

}  // namespace e4::report
