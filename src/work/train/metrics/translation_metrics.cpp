// SPDX-License-Identifier: Apache-2.0
#include "work/train/metrics/translation_metrics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "inputs/text/porter_stemmer.h"
#include "inputs/text/unicode/unicode.h"

namespace transom {
namespace {

using Words = std::vector<std::string>;

void check_sizes(std::span<const std::string> references, std::span<const std::string> texts) {
  require(references.size() == texts.size(), "scores of texts: expected {} texts, found {}", references.size(),
          texts.size());
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  for (size_t place = text.find(what); place != text.npos; place = text.find(what, place + with.size()))
    text.replace(place, what.size(), with);
}

Words split(const std::string& text) {
  Words words;
  std::string word;
  for (size_t position = 0; position < text.size();) {
    const size_t begin = position;
    if (text::is_space(text::next_character(text, position))) {
      if (!word.empty()) words.push_back(std::move(word));
      word.clear();
    } else {
      word.append(text, begin, position - begin);
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

// One pass over the text: where two neighbours fit, both are passed by with what `write` makes of them.
template <typename Fits, typename Write>
std::string pass(const std::string& text, const Fits& fits, const Write& write) {
  std::string result;
  for (size_t i = 0; i < text.size();) {
    if (i + 1 < text.size() && fits(text[i], text[i + 1])) write(result, text[i], text[i + 1]), i += 2;
    else result += text[i++];
  }
  return result;
}

// mteval-v13a's: punctuation stands alone, but for points and commas inside of numbers.
Words words_13a(const std::string& given) {
  std::string text = text::well_formed(given);
  replace_all(text, "<skipped>", "");
  replace_all(text, "-\n", "");
  replace_all(text, "\n", " ");
  for (const auto& [entity, character] : {std::pair{"&quot;", "\""}, {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}})
    replace_all(text, entity, character);
  std::string spaced = " ";
  for (const char c : text) {
    const bool alone = (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') ||
                       (c >= '(' && c <= '+') || (c >= ':' && c <= '@') || c == '/';
    if (alone) spaced += ' ', spaced += c, spaced += ' ';
    else spaced += c;
  }
  spaced += ' ';
  const auto is_point = [](char c) { return c == '.' || c == ','; };
  spaced = pass(
      spaced, [&](char a, char b) { return !is_digit(a) && is_point(b); },
      [](std::string& out, char a, char b) { out += a, out += ' ', out += b, out += ' '; });
  spaced = pass(
      spaced, [&](char a, char b) { return is_point(a) && !is_digit(b); },
      [](std::string& out, char a, char b) { out += ' ', out += a, out += ' ', out += b; });
  spaced = pass(
      spaced, [](char a, char b) { return is_digit(a) && b == '-'; },
      [](std::string& out, char a, char b) { out += a, out += ' ', out += b, out += ' '; });
  return split(spaced);
}

using WordCounts = std::map<Words, int64_t>;

WordCounts runs_of(const Words& words, size_t length) {
  WordCounts counts;
  for (size_t i = 0; i + length <= words.size(); ++i)
    ++counts[Words(words.begin() + static_cast<ptrdiff_t>(i), words.begin() + static_cast<ptrdiff_t>(i + length))];
  return counts;
}

int64_t shared(const WordCounts& reference, const WordCounts& text) {
  int64_t both = 0;
  for (const auto& [run, count] : text)
    if (const auto found = reference.find(run); found != reference.end()) both += std::min(count, found->second);
  return both;
}

// ---- ROUGE

Words stems(const std::string& text) {
  Words words;
  std::string word;
  const auto end = [&] {
    if (!word.empty()) words.push_back(word.size() > 3 ? porter_stem(word) : word);
    word.clear();
  };
  const std::string whole = text::well_formed(text);
  for (size_t position = 0; position < whole.size();)
    for (const char32_t c : text::lower_case(text::next_character(whole, position)))
      if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) word += static_cast<char>(c);
      else end();
  end();
  return words;
}

double f_measure(int64_t hits, size_t reference, size_t text) {
  const double precision = static_cast<double>(hits) / static_cast<double>(std::max<size_t>(text, 1)),
               recall = static_cast<double>(hits) / static_cast<double>(std::max<size_t>(reference, 1));
  return precision + recall > 0 ? 2 * precision * recall / (precision + recall) : 0;
}

double rouge_n(const Words& reference, const Words& text, size_t n) {
  const auto runs = [&](const Words& words) { return words.size() < n ? 0 : words.size() - n + 1; };
  return f_measure(shared(runs_of(reference, n), runs_of(text, n)), runs(reference), runs(text));
}

// The places in `reference` of a longest common subsequence; of several the one that rouge_score finds.
std::vector<size_t> common_places(const Words& reference, const Words& text) {
  const size_t R = reference.size(), C = text.size(), width = C + 1;
  std::vector<uint32_t> table((R + 1) * width, 0);
  for (size_t i = 1; i <= R; ++i)
    for (size_t j = 1; j <= C; ++j)
      table[i * width + j] = reference[i - 1] == text[j - 1]
                                 ? table[(i - 1) * width + j - 1] + 1
                                 : std::max(table[(i - 1) * width + j], table[i * width + j - 1]);
  std::vector<size_t> places;
  for (size_t i = R, j = C; i > 0 && j > 0;) {
    if (reference[i - 1] == text[j - 1]) places.push_back(i - 1), --i, --j;
    else if (table[i * width + j - 1] > table[(i - 1) * width + j]) --j;
    else --i;
  }
  return places;
}

std::vector<Words> stems_of_lines(const std::string& text) {
  std::vector<Words> lines;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) lines.push_back(stems(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return lines;
}

// Over the lines of a summary: the union of what each line of the reference shares with the lines of the text, where no
// word counts more often than it stands in either.
double rouge_of_summaries(const std::string& reference, const std::string& text) {
  const std::vector<Words> wanted = stems_of_lines(reference), written = stems_of_lines(text);
  std::map<std::string, int64_t> left_wanted, left_written;
  size_t all_wanted = 0, all_written = 0;
  for (const Words& line : wanted)
    for (const std::string& word : line) ++left_wanted[word], ++all_wanted;
  for (const Words& line : written)
    for (const std::string& word : line) ++left_written[word], ++all_written;
  int64_t hits = 0;
  for (const Words& line : wanted) {
    std::set<size_t> places;
    for (const Words& other : written)
      for (const size_t place : common_places(line, other)) places.insert(place);
    for (const size_t place : places) {
      int64_t &one = left_wanted[line[place]], &other = left_written[line[place]];
      if (one > 0 && other > 0) ++hits, --one, --other;
    }
  }
  return f_measure(hits, all_wanted, all_written);
}

}  // namespace

double bleu(std::span<const std::string> references, std::span<const std::string> texts) {
  check_sizes(references, texts);
  constexpr size_t kLongest = 4;
  int64_t right[kLongest] = {}, all[kLongest] = {};
  double reference_length = 0, text_length = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    const Words reference = words_13a(references[i]), text = words_13a(texts[i]);
    reference_length += static_cast<double>(reference.size());
    text_length += static_cast<double>(text.size());
    for (size_t n = 1; n <= kLongest; ++n) {
      right[n - 1] += shared(runs_of(reference, n), runs_of(text, n));
      all[n - 1] += text.size() < n ? 0 : static_cast<int64_t>(text.size() - n + 1);
    }
  }
  if (std::all_of(right, right + kLongest, [](int64_t count) { return count == 0; })) return 0;
  double logarithms = 0, smoothing = 1;
  for (size_t n = 0; n < kLongest; ++n) {
    if (all[n] == 0) return 0;  // no text is so long
    const double precision = right[n] > 0 ? static_cast<double>(right[n]) / static_cast<double>(all[n])
                                          : 1 / ((smoothing *= 2) * static_cast<double>(all[n]));
    logarithms += std::log(100 * precision);
  }
  const double penalty = text_length < reference_length ? std::exp(1 - reference_length / text_length) : 1;
  return penalty * std::exp(logarithms / kLongest);
}

Rouge rouge(std::span<const std::string> references, std::span<const std::string> texts) {
  check_sizes(references, texts);
  Rouge sum;
  for (size_t i = 0; i < texts.size(); ++i) {
    const Words reference = stems(references[i]), text = stems(texts[i]);
    sum.rouge1 += rouge_n(reference, text, 1);
    sum.rouge2 += rouge_n(reference, text, 2);
    sum.rougeL += f_measure(static_cast<int64_t>(common_places(reference, text).size()), reference.size(), text.size());
    sum.rougeLsum += rouge_of_summaries(references[i], texts[i]);
  }
  const auto count = static_cast<double>(std::max<size_t>(texts.size(), 1));
  return {sum.rouge1 / count, sum.rouge2 / count, sum.rougeL / count, sum.rougeLsum / count};
}

double exact_match(std::span<const std::string> references, std::span<const std::string> texts) {
  check_sizes(references, texts);
  size_t same = 0;
  for (size_t i = 0; i < texts.size(); ++i) same += references[i] == texts[i];
  return texts.empty() ? 0 : static_cast<double>(same) / static_cast<double>(texts.size());
}

std::string sentences_as_lines(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool between = text[i] == ' ' && i > 0 && (text[i - 1] == '.' || text[i - 1] == '!' || text[i - 1] == '?');
    result += between ? '\n' : text[i];
  }
  return result;
}

}  // namespace transom
