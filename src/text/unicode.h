// SPDX-License-Identifier: Apache-2.0
// Characters of UTF-8 text, with the properties that tokenizers ask for (Unicode's data is ICU's).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace transom::text {

// `text` with each ill-formed sequence replaced by U+FFFD. All other functions here expect well-formed text.
std::string well_formed(std::string_view text);

// The character at byte `position`, which moves behind it.
inline char32_t next_character(std::string_view text, size_t& position) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(position);
  if (first < 0x80) return ++position, first;
  if (first < 0xE0) {
    const char32_t c = (first & 0x1F) << 6 | (byte(position + 1) & 0x3F);
    return position += 2, c;
  }
  if (first < 0xF0) {
    const char32_t c = (first & 0x0F) << 12 | (byte(position + 1) & 0x3F) << 6 | (byte(position + 2) & 0x3F);
    return position += 3, c;
  }
  const char32_t c = (first & 0x07) << 18 | (byte(position + 1) & 0x3F) << 12 | (byte(position + 2) & 0x3F) << 6 |
                     (byte(position + 3) & 0x3F);
  return position += 4, c;
}

// The byte where the character before byte `position` (at least 1) begins.
inline size_t previous_boundary(std::string_view text, size_t position) {
  do --position;
  while (position > 0 && (static_cast<unsigned char>(text[position]) & 0xC0) == 0x80);
  return position;
}

void append_character(std::string& text, char32_t c);
std::string character_text(char32_t c);
std::u32string characters(std::string_view text);
size_t count_characters(std::string_view text);

bool is_space(char32_t c);            // the property White_Space
bool is_word_character(char32_t c);   // \w: letters, marks, decimal digits, connectors, joiners
bool is_punctuation(char32_t c);      // categories P, and the punctuation and symbols of ASCII
bool is_numeric(char32_t c);          // categories N
bool is_mark(char32_t c);             // categories M
bool is_nonspacing_mark(char32_t c);  // category Mn
bool is_control(char32_t c);          // categories Cc, Cf and Co, but for tab and line ends
bool is_chinese(char32_t c);          // the CJK blocks of BERT's tokenizer

// The lower-case form: one character, but two for U+0130.
std::u32string lower_case(char32_t c);

}  // namespace transom::text
