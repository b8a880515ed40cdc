// SPDX-License-Identifier: Apache-2.0
// Characters of UTF-8 text, with the properties that tokenizers ask for (Unicode's data is ICU's).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace transom::text {

// No text may be longer, in bytes, nor become so: a tokenizer.json may hold components that multiply a text.
constexpr size_t kMaximumTextSize = size_t{1} << 27;
// Throws if `size` is too large.
void check_text_size(size_t size);
// Throws if a sequence of components has made much more of a text than it got.
void check_text_growth(size_t before, size_t after);

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

// Whether the character is in Unicode since `version` or before. The tables of the tokenizers library are of several
// ages; the functions below answer as it does.
bool in_unicode(char32_t c, int version);

bool is_space(char32_t c);            // the property White_Space
bool is_word_character(char32_t c);   // \w: letters, marks, decimal digits, connectors, joiners
bool is_punctuation(char32_t c);      // categories P, and the punctuation and symbols of ASCII
bool is_numeric(char32_t c);          // categories N
bool is_mark(char32_t c);             // categories M
bool is_nonspacing_mark(char32_t c);  // category Mn
bool is_control(char32_t c);          // categories Cc, Cf and Co, but for tab and line ends
bool is_chinese(char32_t c);          // the CJK blocks of BERT's tokenizer

// The script of a character as a number; kana count as Han, a space and what has no script as kAnyScript.
constexpr int kAnyScript = -1;
int script_of(char32_t c);

// The lower-case form: one character, but two for U+0130.
std::u32string lower_case(char32_t c);
// A text in small letters; what is no UTF-8 is replaced.
std::string without_case(std::string_view text);

}  // namespace transom::text
