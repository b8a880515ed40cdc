// SPDX-License-Identifier: Apache-2.0
// UTF-8 and the classes of characters that tokenizers speak of. Text inside this folder is always valid UTF-8: it is
// repaired once, where it enters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace transom::text {

// The character at `at`, which moves behind it.
inline char32_t next_character(const char*& at) {
  const auto* p = reinterpret_cast<const unsigned char*>(at);
  if (p[0] < 0x80) return at += 1, p[0];
  if (p[0] < 0xE0) return at += 2, (p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu);
  if (p[0] < 0xF0) return at += 3, (p[0] & 0x0Fu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
  return at += 4, (p[0] & 0x07u) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
}

// The length in bytes of the character that begins with this byte.
inline uint32_t character_length(char lead) {
  auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

inline bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Writes at most four bytes; returns how many.
inline uint32_t encode_character(char32_t c, char* out) {
  if (c < 0x80) return out[0] = static_cast<char>(c), 1;
  if (c < 0x800) return out[0] = static_cast<char>(0xC0 | c >> 6), out[1] = static_cast<char>(0x80 | (c & 0x3F)), 2;
  if (c < 0x10000) {
    out[0] = static_cast<char>(0xE0 | c >> 12);
    out[1] = static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out[2] = static_cast<char>(0x80 | (c & 0x3F));
    return 3;
  }
  out[0] = static_cast<char>(0xF0 | c >> 18);
  out[1] = static_cast<char>(0x80 | (c >> 12 & 0x3F));
  out[2] = static_cast<char>(0x80 | (c >> 6 & 0x3F));
  out[3] = static_cast<char>(0x80 | (c & 0x3F));
  return 4;
}

void append_character(std::string& out, char32_t c);
std::u32string to_characters(std::string_view text);
size_t count_characters(std::string_view text);
bool is_ascii(std::string_view text);
bool is_valid_utf8(std::string_view text);

// Each maximal part that is no UTF-8 becomes U+FFFD, as Python's errors="replace" does.
std::string repaired_utf8(std::string_view text);

bool is_white_space(char32_t c);      // the property White_Space
bool is_punctuation(char32_t c);      // ASCII symbols too, as in BERT
bool is_letter(char32_t c);           // L
bool is_number(char32_t c);           // N
bool is_mark(char32_t c);             // M
bool is_nonspacing_mark(char32_t c);  // Mn
bool is_other(char32_t c);            // Cc, Cf, Co, Cn
bool is_word_character(char32_t c);   // \w: Alphabetic, M, Nd, Pc, Join_Control
bool is_chinese(char32_t c);          // the blocks that BERT sets spaces around
char32_t simple_lower_case(char32_t c);

}  // namespace transom::text
