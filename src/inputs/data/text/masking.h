// SPDX-License-Identifier: Apache-2.0
// Labels for language models: the next token, or masked tokens (Devlin et al., 2018: of the chosen tokens 80 % are
// masked, 10 % replaced at random, 10 % kept).
#pragma once

#include "base/numbers/mt19937.h"
#include "inputs/data/text/padding.h"

namespace transom {

struct MaskingOptions {
  double probability = 0.15;
  double mask_ratio = 0.8, random_ratio = 0.1;
  int64_t mask_token_id = 0;
  int64_t vocabulary = 0;  // random tokens are below this
  // Of a row at most so many are chosen (BERT's max_predictions_per_seq); 0: no bound. Which of more, is drawn behind
  // all other draws, so that rows with fewer have the masks that they have without a bound.
  int64_t most = 0;
};

// Masks `input_ids` in place and gives the labels, kIgnoredLabel where nothing was chosen. `special` is 1 at tokens
// that are never chosen (padding too). With `word_ids` (-1 at special tokens) whole words are chosen by their first
// token. Draws as DataCollatorForLanguageModeling does, so that a generator of the same seed gives the same masks.
PaddedRows mask_tokens(PaddedRows& input_ids, const PaddedRows& special, const MaskingOptions& options,
                       Mt19937& generator, const PaddedRows* word_ids = nullptr);

// The labels of a causal language model: the tokens themselves, kIgnoredLabel at padding. The model shifts them.
PaddedRows causal_labels(const PaddedRows& input_ids, std::optional<int64_t> pad_token_id);

// run_clm, run_mlm: rows joined and cut into pieces of `block_size`; a rest that is shorter is left out.
std::vector<std::vector<int64_t>> join_and_cut(std::span<const std::vector<int64_t>> rows, int64_t block_size);

}  // namespace transom
