// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/unicode/unicode.h"

#include <unicode/uchar.h>
#include <unicode/uscript.h>
#include <unicode/utf8.h>

#include <algorithm>

#include "base/error.h"

namespace transom::text {

void check_text_size(size_t size) {
  require(size <= kMaximumTextSize, "text: expected at most {} bytes in each step of the tokenizer, found {}",
          kMaximumTextSize, size);
}

void check_text_growth(size_t before, size_t after) {
  require(after <= before * 64 + (size_t{1} << 20), "text: a sequence of components made {} bytes of {}", after,
          before);
}

std::string well_formed(std::string_view text) {
  check_text_size(text.size());
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

// The tokenizers library takes categories from tables of Unicode 8: what is younger has none.
uint32_t old_category(char32_t c) { return in_unicode(c, 8) ? category(c) : 0; }

}  // namespace

bool in_unicode(char32_t c, int version) {
  if (c < 0x250) return true;
  UVersionInfo age;
  u_charAge(code(c), age);
  return age[0] > 0 && age[0] <= version;
}

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
  return (old_category(c) & U_GC_P_MASK) != 0 || c == 0x166D || c == 0x111C9;  // of other categories since
}

bool is_numeric(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  return (category(c) & U_GC_N_MASK) != 0;
}

// A few characters have been moved between the categories since.
bool is_mark(char32_t c) {
  if (c == 0x1CF2 || c == 0x1CF3) return true;
  return c >= 0x300 && c != 0x111C9 && (category(c) & U_GC_M_MASK) != 0 && in_unicode(c, 9);
}

bool is_nonspacing_mark(char32_t c) {
  if (c == 0x1734) return true;
  if (c == 0x1885 || c == 0x1886 || c == 0xA9BD || c == 0x111C9) return false;
  return c >= 0x300 && (old_category(c) & U_GC_MN_MASK) != 0;
}

bool is_control(char32_t c) {
  if (c < 0x80) return (c < 32 && c != '\t' && c != '\n' && c != '\r') || c == 127;
  return (old_category(c) & (U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK)) != 0;
}

bool is_chinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

int script_of(char32_t c) {
  if (c == ' ') return kAnyScript;
  UErrorCode error = U_ZERO_ERROR;
  const UScriptCode script = uscript_getScript(code(c), &error);
  if (c == 0x30FC || script == USCRIPT_HIRAGANA || script == USCRIPT_KATAKANA) return USCRIPT_HAN;
  return U_FAILURE(error) || script == USCRIPT_UNKNOWN ? kAnyScript : script;
}

std::u32string lower_case(char32_t c) {
  if (c == 0x130) return U"i\u0307";
  // Letters of Unicode 16 and 17, which older releases of ICU lack.
  if (c >= 0x10D50 && c <= 0x10D65) return {c + 0x20};
  if (c >= 0x16EA0 && c <= 0x16EB8) return {c + 0x1B};
  if (c == 0x1C89 || c == 0xA7CC || c == 0xA7CE || c == 0xA7D2 || c == 0xA7D4 || c == 0xA7DA) return {c + 1};
  if (c == 0xA7CB) return U"\u0264";
  if (c == 0xA7DC) return U"\u019B";
  return {static_cast<char32_t>(u_tolower(code(c)))};
}

std::string without_case(std::string_view text) {
  std::string result;
  const std::string whole = well_formed(text);
  for (size_t position = 0; position < whole.size();)
    for (const char32_t c : lower_case(next_character(whole, position))) append_character(result, c);
  return result;
}

}  // namespace transom::text
