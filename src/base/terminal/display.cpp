// SPDX-License-Identifier: Apache-2.0
#include "base/terminal/display.h"

namespace transom {

std::string shortened(const std::string& text, size_t width) {
  if (text.size() <= width) return text;
  const size_t half = (width - 3) / 2;
  return text.substr(0, width - 3 - half) + "..." + text.substr(text.size() - half);
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') result += "&amp;";
    else if (c == '<') result += "&lt;";
    else if (c == '>') result += "&gt;";
    else if (c == '"') result += "&quot;";
    else result += c;
  }
  return result;
}

}  // namespace transom
