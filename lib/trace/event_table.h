// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "trace/event.h"

namespace e4::trace {

/// How a field is written in text.
enum class Form : std::uint8_t {
  number,       // decimal, a sign is allowed
  octal,        // 0NNN
  hint_flags,   // names of allocation hints joined by "|", or 0x..
  free_flags,
  map_flags,
  falloc_mode,
  criterion,    // CR_... or 0xN
  letters,      // NMUB: kept as 0
  power,        // 2^n or 0 in text; n in the record
};

/// One field of an event: its name in the kernel's format file, where it goes
/// in Event, and how it looks in text.
struct Field {
  const char* name;       // nullptr: in text only
  std::uint16_t offset;   // in Event
  std::uint8_t bytes;     // 1, 2, 4 or 8 in Event
  Form form = Form::number;
};

/// One event of the kernel. `text` is its line after "dev MAJ,MIN": literal
/// characters, and '%' for the next field of `fields`; '%' followed by '-'
/// stands for a number that nobody needs. The text may go on after the pattern.
struct EventFormat {
  const char* name;  // "ext4_request_blocks"
  Kind kind;
  const char* text;
  std::span<const Field> fields;
};

/// The format of a kernel event by its name; nullptr for one nobody knows.
/// Events that are known and carry nothing have Kind::ignored.
const EventFormat* find_format(std::string_view name);
std::span<const EventFormat> all_formats();

/// Value of "A|B|0x40" in the given form; unknown names count as 0.
std::uint64_t parse_flags(Form form, std::string_view text);

}  // namespace e4::trace
