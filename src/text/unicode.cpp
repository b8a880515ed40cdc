// SPDX-License-Identifier: Apache-2.0
#include "text/unicode.h"

#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <algorithm>

#include "base/error.h"

namespace transom::text {

std::string well_formed(std::string_view text) {
  if (text.size() > static_cast<size_t>(INT32_MAX) / 4)
    fail("text: expected less than 512 MiB, found {} bytes", text.size());
  const auto length = static_cast<int32_t>(text.size());
  std::string result;
  result.reserve(text.size());
  for (int32_t i = 0; i < length;) {
    UChar32 c = 0;
    U8_NEXT(text.data(), i, length, c);
    if (c < 0) c = 0xFFFD;
    if (c < 0x80) {
      result.push_back(static_cast<char>(c));
    } else {
      append_character(result, static_cast<char32_t>(c));
    }
  }
  return result;
}

void append_character(std::string& text, char32_t c) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6), put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 0x3F)), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  }
}

std::string character_text(char32_t c) {
  std::string text;
  append_character(text, c);
  return text;
}

std::u32string characters(std::string_view text) {
  std::u32string result;
  for (size_t i = 0; i < text.size();) result.push_back(next_character(text, i));
  return result;
}

size_t count_characters(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

namespace {

UChar32 code(char32_t c) { return static_cast<UChar32>(c); }
uint32_t category(char32_t c) { return U_MASK(u_charType(code(c))); }

}  // namespace

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  return u_isUWhiteSpace(code(c));
}

bool is_word_character(char32_t c) {
  if (c < 0x80) return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  return u_isUAlphabetic(code(c)) || (category(c) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0 || c == 0x200C ||
         c == 0x200D;
}

bool is_punctuation(char32_t c) {
  if (c < 0x80) {
    return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
  }
  return (category(c) & U_GC_P_MASK) != 0;
}

bool is_numeric(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  return (category(c) & U_GC_N_MASK) != 0;
}

bool is_mark(char32_t c) { return c >= 0x300 && (category(c) & U_GC_M_MASK) != 0; }
bool is_nonspacing_mark(char32_t c) { return c >= 0x300 && (category(c) & U_GC_MN_MASK) != 0; }

bool is_control(char32_t c) {
  if (c < 0x80) return (c < 32 && c != '\t' && c != '\n' && c != '\r') || c == 127;
  // Format characters that are younger than the tables of the tokenizers library, which keeps them.
  if (c == 0x890 || c == 0x891 || c == 0x8E2 || c == 0x110CD || (c >= 0x13430 && c <= 0x1343F)) return false;
  return (category(c) & (U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK)) != 0;
}

bool is_chinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

std::u32string lower_case(char32_t c) {
  if (c == 0x130) return U"i\u0307";
  return {static_cast<char32_t>(u_tolower(code(c)))};
}

}  // namespace transom::text
