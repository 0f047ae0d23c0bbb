// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/units.h"
#include "base/where.h"

namespace e4 {

enum class ErrorKind {
  io,            // the operating system or the medium said no
  corrupt,       // the image (or trace) lies: a value that cannot be
  incompatible,  // well formed, but a feature we do not handle
  no_space,
  busy,          // in use by somebody else: mounted, opened exclusively
  usage,         // the caller asked for something impossible
  cancelled,
};

/// What went wrong, where in the image, and why: one clear line for the user.
/// An Error means "we could not"; what is wrong with an image that we *could*
/// look at is a report::Finding instead.
struct Error {
  ErrorKind kind = ErrorKind::io;
  std::string text;            // without a trailing newline or period
  long code = 0;               // errno or a libext2fs errcode_t; 0 if none
  std::optional<Ino> ino;      // the inode it is about
  std::optional<Blk> block;    // the physical block it is about
  Where where;

  /// "context: text (inode 12, block 34): Input/output error"
  [[nodiscard]] std::string message() const;
  /// Puts "what: " in front of the text on the way up.
  Error&& context(const std::string& what) &&;
  Error&& at_inode(Ino n) && { ino = n; return static_cast<Error&&>(*this); }
  Error&& at_block(Blk b) && { block = b; return static_cast<Error&&>(*this); }
};

Error make_error(ErrorKind kind, std::string text, long code = 0, Where where = Where::here());
/// An Error of kind io from an errno value.
Error errno_error(int errnum, std::string text, Where where = Where::here());

}  // namespace e4
