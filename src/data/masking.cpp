// SPDX-License-Identifier: Apache-2.0
#include "data/masking.h"

#include <utility>

#include "base/error.h"

namespace transom {

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
  PaddedRows labels = input_ids;
  for (size_t i = 0; i < count; ++i)
    if (!chosen[i]) labels.values[i] = kIgnoredLabel;

  const std::vector<bool> masked = draw(options.mask_ratio);
  for (size_t i = 0; i < count; ++i)
    if (chosen[i] && masked[i]) input_ids.values[i] = options.mask_token_id;
  if (options.mask_ratio == 1 || options.random_ratio == 0) return labels;

  const std::vector<bool> random = draw(options.random_ratio / (1 - options.mask_ratio));
  for (size_t i = 0; i < count; ++i) {
    const int64_t word = generator.randint(options.vocabulary);
    if (chosen[i] && !masked[i] && random[i]) input_ids.values[i] = word;
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
