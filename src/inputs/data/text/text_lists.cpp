// SPDX-License-Identifier: Apache-2.0
#include "inputs/data/text/text_lists.h"

#include "base/error.h"

namespace transom {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (size_t begin = text.find_first_not_of(kSpace); begin != text.npos;) {
    const size_t end = std::min(text.find_first_of(kSpace, begin), text.size());
    words.emplace_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kSpace, end);
  }
  return words;
}

// A word that is a bracket of its own ("[ 5 ]" is three words of a sentence) begins no list.
bool is_list(std::string_view text) {
  return text.size() >= 2 && text.front() == '[' && text.back() == ']' && text[1] != ' ';
}

}  // namespace

std::vector<std::string> list_of_text(std::string_view text, std::string_view where) {
  const size_t first = text.find_first_not_of(kSpace);
  if (first == text.npos) return {};
  text = text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
  if (!is_list(text)) return words_of(text);
  std::vector<std::string> items;
  const size_t last = text.size() - 1;
  for (size_t i = 1; i < last;) {
    const char c = text[i];
    if (c == ',' || kSpace.find(c) != kSpace.npos) {
      ++i;
    } else if (c == '\'' || c == '"') {
      std::string item;
      for (++i; i < last && text[i] != c; ++i) {
        if (text[i] == '\\' && i + 1 < last) ++i;
        item += text[i];
      }
      require(i < last, "{}: expected a list of words, found one that does not end: {}", where,
              transom::quoted(text, 60));
      ++i;
      items.push_back(std::move(item));
    } else {
      const size_t end = std::min(text.find_first_of(", \t\r\n", i), last);
      items.emplace_back(text.substr(i, end - i));
      i = end;
    }
  }
  return items;
}

}  // namespace transom
