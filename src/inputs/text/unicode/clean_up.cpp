// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/unicode/clean_up.h"

#include <utility>

#include "inputs/text/unicode/unicode.h"

namespace transom::text {

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  size_t at = text.find(from);
  if (at == std::string::npos) return text;
  std::string result;
  size_t last = 0;
  for (; at != std::string::npos; at = text.find(from, last)) {
    result.append(text, last, at - last).append(to);
    last = at + from.size();
  }
  return result.append(text, last);
}

std::string stripped(const std::string& text) {
  const auto blank = [](char32_t c) { return is_space(c) || (c >= 0x1C && c <= 0x1F); };
  size_t begin = 0, end = text.size();
  for (size_t next = 0; begin < end && blank(next_character(text, next)); begin = next) {
  }
  while (end > begin) {
    const size_t previous = previous_boundary(text, end);
    size_t next = previous;
    if (!blank(next_character(text, next))) break;
    end = previous;
  }
  return text.substr(begin, end - begin);
}

std::string clean_up_spaces(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> kReplacements[] = {
      {" .", "."},     {" ?", "?"},   {" !", "!"},   {" ,", ","},     {" ' ", "'"},
      {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
  };
  for (const auto& [from, to] : kReplacements) text = replace_all(std::move(text), from, to);
  return text;
}

}  // namespace transom::text
