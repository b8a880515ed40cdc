// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/grammar/character_kinds.h"

#include <unicode/uchar.h>

#include "work/generation/constraint/grammar/regex.h"

namespace transom::constraint {
namespace {

UBool add_digits(const void* context, UChar32 begin, UChar32 end, UCharCategory category) {
  if (category == U_DECIMAL_DIGIT_NUMBER)
    static_cast<CodePoints*>(const_cast<void*>(context))
        ->emplace_back(static_cast<uint32_t>(begin), static_cast<uint32_t>(end - 1));
  return true;
}

const CodePoints& decimal_digits() {
  static const CodePoints kDigits = [] {
    CodePoints digits;
    u_enumCharTypes(add_digits, &digits);
    return joined_ranges(digits);
  }();
  return kDigits;
}

// Signs of which no dialect makes words; of the others, signs and symbols too, some do.
const CodePoints kSigns = {{0x00, 0x2f},     {':', '@'},       {'[', '^'},       {'`', '`'},       {'{', 0xa9},
                           {0xab, 0xb1},     {0xb4, 0xb4},     {0xb6, 0xb8},     {0xbb, 0xbb},     {0xbf, 0xbf},
                           {0xd7, 0xd7},     {0xf7, 0xf7},     {0x2000, 0x200b}, {0x200e, 0x203e}, {0x2041, 0x2053},
                           {0x2055, 0x205f}, {0x20a0, 0x20bf}, {0x2190, 0x23ff}, {0x2500, 0x2775}, {0x3000, 0x3003},
                           {0x3008, 0x3020}};

}  // namespace

CodePoints surely_of(char kind) {
  switch (kind) {
    case 'd':
      return {{'0', '9'}};
    case 'w':
      return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    case 's':
      return {{'\t', '\r'}, {' ', ' '}, {0xa0, 0xa0}, {0x2028, 0x2029}, {0x3000, 0x3000}};
    case 'D':
      return complement(decimal_digits());
    case 'W':
      return kSigns;
    case 'S':
      return complement({{'\t', '\r'},
                         {0x1c, ' '},
                         {0x85, 0x85},
                         {0xa0, 0xa0},
                         {0x1680, 0x1680},
                         {0x180e, 0x180e},
                         {0x2000, 0x200b},
                         {0x2028, 0x2029},
                         {0x202f, 0x202f},
                         {0x205f, 0x205f},
                         {0x3000, 0x3000},
                         {0xfeff, 0xfeff}});
    default:
      return complement({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}});
  }
}

CodePoints perhaps_of(char kind) {
  const bool is_upper = kind >= 'A' && kind <= 'Z';
  return complement(surely_of(static_cast<char>(is_upper ? kind + ('a' - 'A') : kind - ('a' - 'A'))));
}

}  // namespace transom::constraint
