// SPDX-License-Identifier: Apache-2.0
#include "work/train/metrics/error_rates.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "inputs/text/unicode/unicode.h"

namespace transom {
namespace {

using Units = std::vector<std::string>;

// Levenshtein's distance, one row of the table at a time.
size_t distance(const Units& a, const Units& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\n\r"), end = text.find_last_not_of(" \t\n\r");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

Units words_of(const std::string& text) {
  Units words;
  for (size_t begin = text.find_first_not_of(' '); begin != std::string::npos;) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(' ', end);
  }
  return words;
}

Units characters_of(const std::string& text) {
  const std::string whole = text::well_formed(text);
  Units result;
  for (size_t position = 0; position < whole.size();)
    result.push_back(text::character_text(text::next_character(whole, position)));
  return result;
}

double error_rate(std::span<const std::string> references, std::span<const std::string> predictions,
                  Units (*units_of)(const std::string&)) {
  require(references.size() == predictions.size(), "error rate: expected {} predictions, found {}", references.size(),
          predictions.size());
  size_t errors = 0, total = 0;
  for (size_t i = 0; i < references.size(); ++i) {
    const Units reference = units_of(trimmed(references[i]));
    errors += distance(reference, units_of(trimmed(predictions[i])));
    total += reference.size();
  }
  if (total == 0) return errors == 0 ? 0 : std::numeric_limits<double>::infinity();
  return static_cast<double>(errors) / static_cast<double>(total);
}

}  // namespace

double word_error_rate(std::span<const std::string> references, std::span<const std::string> predictions) {
  return error_rate(references, predictions, words_of);
}

double character_error_rate(std::span<const std::string> references, std::span<const std::string> predictions) {
  return error_rate(references, predictions, characters_of);
}

}  // namespace transom
