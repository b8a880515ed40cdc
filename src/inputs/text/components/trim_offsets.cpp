// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/components/trim_offsets.h"

#include <algorithm>

#include "inputs/text/unicode/unicode.h"

namespace transom::text {

void trim_offsets(Encoding& encoding, bool prefix_space) {
  constexpr char32_t kSpace = 0x120;  // Ġ, the space of the byte-level alphabet
  for (size_t i = 0; i < encoding.size(); ++i) {
    const std::u32string token = characters(encoding.tokens[i]);
    const auto blank = [](char32_t c) { return c == kSpace || is_space(c); };
    auto leading = std::find_if_not(token.begin(), token.end(), blank) - token.begin();
    const auto trailing = std::find_if_not(token.rbegin(), token.rend(), blank) - token.rbegin();
    auto& [begin, end] = encoding.offsets[i];
    if (leading > 0) {
      // A single space in front of the text may be one that was added.
      if (prefix_space && leading == 1 && (i == 0 || begin == 0)) leading = 0;
      begin = std::min(begin + leading, end);
    }
    if (trailing > 0 && end >= trailing) end = std::max(end - trailing, begin);
  }
  for (Encoding& part : encoding.overflowing) trim_offsets(part, prefix_space);
}

}  // namespace transom::text
