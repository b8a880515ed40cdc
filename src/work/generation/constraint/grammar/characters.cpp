// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/grammar/characters.h"

#include "base/error.h"

namespace transom::constraint {

uint32_t next_character(std::string_view text, size_t& at) {
  const auto first = static_cast<uint8_t>(text[at]);
  const size_t length = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
  if (length == 0 || at + length > text.size()) fail("a text of the grammar is no UTF-8 at byte {}", at);
  uint32_t character = length == 1 ? first : first & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<uint8_t>(text[at + i]);
    if (byte >> 6 != 2) fail("a text of the grammar is no UTF-8 at byte {}", at);
    character = character << 6 | (byte & 0x3fu);
  }
  at += length;
  return character;
}

}  // namespace transom::constraint
