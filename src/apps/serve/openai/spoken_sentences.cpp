// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/openai/spoken_sentences.h"

#include <algorithm>
#include <array>

namespace transom::serve {
namespace {

constexpr size_t kLeastSentence = 8, kLongestTitle = 3;  // bytes: of a sentence, of "Mr", "Dr", "Mrs"
constexpr std::string_view kSpace = " \t\r\n";

constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Whether it is one of what is spoken.
constexpr bool is_spoken(char c) { return is_letter(c) || is_digit(c) || static_cast<unsigned char>(c) >= 0x80; }

// The text from `at` on begins with one of them: its length, else 0.
template <size_t N>
size_t length_of_mark(std::string_view text, size_t at, const std::array<std::string_view, N>& marks) {
  for (const std::string_view mark : marks)
    if (text.substr(at, mark.size()) == mark) return mark.size();
  return 0;
}

constexpr std::array<std::string_view, 4> kMarks = {".", "!", "?", "…"};
constexpr std::array<std::string_view, 3> kWideMarks = {"。", "！", "？"};  // no space follows them
constexpr std::array<std::string_view, 9> kClosing = {"\"", "'", ")", "]", "”", "’", "»", "」", "』"};

// Whether a full stop behind this word ends no sentence.
bool is_abbreviation(std::string_view word) {
  if (word.empty()) return false;
  if (word.find('.') != word.npos || std::all_of(word.begin(), word.end(), is_digit)) return true;
  return word.size() <= kLongestTitle && word.front() >= 'A' && word.front() <= 'Z' &&
         std::all_of(word.begin(), word.end(), is_letter);
}

// Marks and what closes behind them, or what else stands at a place of a text.
struct Marks {
  size_t end;         // of them, behind `at`
  bool ends = false;  // a sentence
};

Marks marks_at(std::string_view text, size_t at) {
  if (text[at] == '\n') {
    const size_t end = std::min(text.find_first_not_of(kSpace, at), text.size());
    const std::string_view space = text.substr(at, end - at);
    return {end, std::count(space.begin(), space.end(), '\n') > 1};
  }
  size_t end = at;
  bool wide = false;
  while (end < text.size()) {
    size_t length = length_of_mark(text, end, kMarks);
    if (length == 0) length = length_of_mark(text, end, kWideMarks), wide = wide || length > 0;
    if (length == 0) break;
    end += length;
  }
  if (end == at) return {at + 1};
  const bool is_one_stop = text.substr(at, end - at) == ".";
  while (end < text.size()) {
    const size_t length = length_of_mark(text, end, kClosing);
    if (length == 0) break;
    end += length;
  }
  if (wide || end == text.size()) return {end, true};
  if (kSpace.find(text[end]) == kSpace.npos) return {end};
  const std::string_view front = text.substr(0, at);
  const size_t space = front.find_last_of(kSpace);
  return {end, !is_one_stop || !is_abbreviation(space == front.npos ? front : front.substr(space + 1))};
}

std::string_view without_space(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  return first == text.npos ? std::string_view() : text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

}  // namespace

std::vector<std::string> spoken_sentences(std::string_view text) {
  text = without_space(text);
  std::vector<size_t> ends;
  size_t first = 0;  // behind the space in front of the sentence
  bool says_anything = false;
  for (size_t at = 0; at < text.size();) {
    const Marks marks = marks_at(text, at);
    if (first == at && kSpace.find(text[at]) != kSpace.npos) first = marks.end;
    says_anything = says_anything || (marks.end == at + 1 && is_spoken(text[at]));
    at = marks.end;
    if (!marks.ends || !says_anything || at - first < kLeastSentence) continue;
    ends.push_back(first = at);
    says_anything = false;
  }
  const bool has_rest = says_anything && text.size() - first >= kLeastSentence;
  if (!ends.empty() && !has_rest) ends.pop_back();
  ends.push_back(text.size());
  std::vector<std::string> sentences;
  size_t begin = 0;
  for (const size_t end : ends) {
    sentences.emplace_back(without_space(text.substr(begin, end - begin)));
    begin = end;
  }
  return sentences;
}

}  // namespace transom::serve
