// SPDX-License-Identifier: Apache-2.0
#include "inputs/data/text/masking.h"

#include <utility>

#include "base/error.h"

namespace transom {
namespace {

// Takes words (tokens without word_ids) out of each row, at random, until no more than `most` tokens are chosen.
void limit(std::vector<bool>& chosen, size_t length, int64_t most, Mt19937& generator, const PaddedRows* word_ids) {
  const auto limit_tokens = static_cast<size_t>(most);
  for (size_t row = 0; row < chosen.size(); row += length) {
    std::vector<std::pair<size_t, size_t>> words;  // the first token, and the one behind the last
    size_t tokens = 0;
    for (size_t i = row; i < row + length; ++i) {
      if (!chosen[i]) continue;
      const bool goes_on = word_ids && i > row && chosen[i - 1] && word_ids->values[i] != -1 &&
                           word_ids->values[i] == word_ids->values[i - 1];
      if (goes_on) words.back().second = i + 1;
      else words.emplace_back(i, i + 1);
      ++tokens;
    }
    while (tokens > limit_tokens) {
      const auto place = static_cast<size_t>(generator.randint(static_cast<int64_t>(words.size())));
      const auto [begin, end] = words[place];
      for (size_t i = begin; i < end; ++i) chosen[i] = false;
      tokens -= end - begin;
      words.erase(words.begin() + static_cast<std::ptrdiff_t>(place));
    }
  }
}

}  // namespace

PaddedRows mask_tokens(PaddedRows& input_ids, const PaddedRows& special, const MaskingOptions& options,
                       Mt19937& generator, const PaddedRows* word_ids) {
  const size_t count = input_ids.values.size();
  require(special.values.size() == count && (!word_ids || word_ids->values.size() == count),
          "masking: expected the special tokens and words of {} tokens", count);
  require(options.vocabulary > 0, "masking: expected a vocabulary, found one of {} tokens", options.vocabulary);
  const auto begins_row = [&](size_t i) { return i % static_cast<size_t>(input_ids.length) == 0; };
  const auto begins_word = [&](size_t i) {
    return word_ids->values[i] != -1 && (begins_row(i) || word_ids->values[i] != word_ids->values[i - 1]);
  };

  // Whether a token is chosen, or masked, or replaced, is drawn for all tokens, as tensors are.
  const auto draw = [&](double probability) {
    std::vector<bool> coins(count);
    for (size_t i = 0; i < count; ++i) coins[i] = generator.bernoulli(static_cast<float>(probability));
    return coins;
  };
  std::vector<bool> chosen = draw(options.probability);
  for (size_t i = 0; i < count; ++i) {
    if (special.values[i] != 0) chosen[i] = false;
    else if (word_ids && word_ids->values[i] != -1 && !begins_word(i)) chosen[i] = chosen[i - 1];
  }
  const std::vector<bool> masked = draw(options.mask_ratio);
  std::vector<bool> random(count, false);
  std::vector<int64_t> words(count, 0);
  if (options.mask_ratio != 1 && options.random_ratio != 0) {
    random = draw(options.random_ratio / (1 - options.mask_ratio));
    for (int64_t& word : words) word = generator.randint(options.vocabulary);
  }
  if (options.most > 0) limit(chosen, static_cast<size_t>(input_ids.length), options.most, generator, word_ids);

  PaddedRows labels = input_ids;
  for (size_t i = 0; i < count; ++i) {
    if (!chosen[i]) labels.values[i] = kIgnoredLabel;
    else if (masked[i]) input_ids.values[i] = options.mask_token_id;
    else if (random[i]) input_ids.values[i] = words[i];
  }
  return labels;
}

PaddedRows causal_labels(const PaddedRows& input_ids, std::optional<int64_t> pad_token_id) {
  PaddedRows labels = input_ids;
  for (int64_t& label : labels.values)
    if (label == pad_token_id) label = kIgnoredLabel;
  return labels;
}

std::vector<std::vector<int64_t>> join_and_cut(std::span<const std::vector<int64_t>> rows, int64_t block_size) {
  require(block_size >= 1, "block_size: expected at least 1, found {}", block_size);
  std::vector<std::vector<int64_t>> pieces;
  std::vector<int64_t> piece;
  for (const auto& row : rows)
    for (const int64_t token : row) {
      piece.push_back(token);
      if (static_cast<int64_t>(piece.size()) == block_size) pieces.push_back(std::exchange(piece, {}));
    }
  return pieces;
}

}  // namespace transom
