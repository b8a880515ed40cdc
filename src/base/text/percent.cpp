// SPDX-License-Identifier: Apache-2.0
#include "base/text/percent.h"

namespace transom {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> percent_decoded(std::string_view text, BrokenEscapes broken) {
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      result += text[i];
      continue;
    }
    const bool whole = i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0;
    if (!whole && broken == BrokenEscapes::kRefused) return std::nullopt;
    result += whole ? static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2])) : '%';
    if (whole) i += 2;
  }
  return result;
}

}  // namespace transom
