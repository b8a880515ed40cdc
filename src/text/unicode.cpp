// SPDX-License-Identifier: Apache-2.0
#include "text/unicode.h"

#include <simdjson.h>
#include <unicode/uchar.h>

namespace transom::text {

void append_character(std::string& out, char32_t c) {
  char bytes[4];
  out.append(bytes, encode_character(c, bytes));
}

std::u32string to_characters(std::string_view text) {
  std::u32string characters;
  characters.reserve(text.size());
  for (const char *at = text.data(), *end = at + text.size(); at < end;) characters += next_character(at);
  return characters;
}

size_t count_characters(std::string_view text) {
  size_t count = 0;
  for (char byte : text) count += !is_continuation(byte);
  return count;
}

bool is_ascii(std::string_view text) {
  unsigned char all = 0;
  for (char byte : text) all |= static_cast<unsigned char>(byte);
  return all < 0x80;
}

bool is_valid_utf8(std::string_view text) { return simdjson::validate_utf8(text.data(), text.size()); }

std::string repaired_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 8);
  auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  for (size_t i = 0; i < text.size();) {
    unsigned lead = byte(i);
    if (lead < 0x80) {
      out += text[i++];
      continue;
    }
    // The second byte's range depends on the lead (no overlong forms, no surrogates, nothing above U+10FFFF).
    unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    size_t length = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
    size_t good = 1;
    while (good < length && byte(i + good) >= (good == 1 ? low : 0x80) && byte(i + good) <= (good == 1 ? high : 0xBF)) {
      ++good;
    }
    if (good == length) out += text.substr(i, length);
    else out += "\xEF\xBF\xBD";
    i += good;
  }
  return out;
}

namespace {
bool has_category(char32_t c, uint32_t mask) { return (U_GET_GC_MASK(static_cast<UChar32>(c)) & mask) != 0; }
}  // namespace

bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  return u_isUWhiteSpace(static_cast<UChar32>(c));
}

bool is_punctuation(char32_t c) {
  if (c < 0x80) return (c > 32 && c < 48) || (c > 57 && c < 65) || (c > 90 && c < 97) || (c > 122 && c < 127);
  return has_category(c, U_GC_P_MASK);
}

bool is_letter(char32_t c) {
  if (c < 0x80) return (c | 32) >= 'a' && (c | 32) <= 'z';
  return has_category(c, U_GC_L_MASK);
}

bool is_number(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  return has_category(c, U_GC_N_MASK);
}

bool is_mark(char32_t c) { return c >= 0x300 && has_category(c, U_GC_M_MASK); }
bool is_nonspacing_mark(char32_t c) { return c >= 0x300 && has_category(c, U_GC_MN_MASK); }

bool is_other(char32_t c) {
  if (c < 0x80) return c < 32 || c == 127;
  return has_category(c, U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK | U_GC_CN_MASK | U_GC_CS_MASK);
}

bool is_word_character(char32_t c) {
  if (c < 0x80) return is_letter(c) || is_number(c) || c == '_';
  return has_category(c, U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK) || c == 0x200C || c == 0x200D ||
         u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_ALPHABETIC);
}

bool is_chinese(char32_t c) {
  if (c < 0x3400) return false;
  return (c >= 0x4E00 && c <= 0x9FFF) || c <= 0x4DBF || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0x2F800 && c <= 0x2FA1F);
}

char32_t simple_lower_case(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  return static_cast<char32_t>(u_tolower(static_cast<UChar32>(c)));
}

}  // namespace transom::text
