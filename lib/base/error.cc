// SPDX-License-Identifier: GPL-2.0-only
#include "base/error.h"

extern "C" {  // its header has no guard of its own for C++
#include <et/com_err.h>
}

#include <utility>

namespace e4 {

std::string Error::message() const {
  std::string s = text;
  if (ino || block) {
    s += " (";
    if (ino) s += "inode " + std::to_string(*ino);
    if (ino && block) s += ", ";
    if (block) s += "block " + std::to_string(*block);
    s += ")";
  }
  if (code != 0) s += std::string(": ") + error_message(code);
  return s;
}

Error&& Error::context(const std::string& what) && {
  text = what + ": " + text;
  return std::move(*this);
}

Error make_error(ErrorKind kind, std::string text, long code, Where where) {
  Error e;
  e.kind = kind;
  e.text = std::move(text);
  e.code = code;
  e.where = where;
  return e;
}

Error errno_error(int errnum, std::string text, Where where) {
  return make_error(ErrorKind::io, std::move(text), errnum, where);
}

}  // namespace e4
