// SPDX-License-Identifier: Apache-2.0
// What is done to the scores of the next token before one is chosen: Transformers' logits processors, in its order.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "transom/generation.h"

namespace transom {

// What a processor sees of one row.
struct ScoredRow {
  const TokenIds& tokens;   // so far, with the prompt and its padding
  size_t prompt;            // which of the prompts it goes on from
  std::span<float> scores;  // [V], changed in place
};

using LogitsProcessor = std::function<void(const ScoredRow& row)>;

// What the lengths and prompts of one call of generate() give to the processors.
struct LogitsContext {
  int64_t prompt_length = 0, max_length = 0, vocabulary = 0;
  std::vector<int64_t> padding;             // of each prompt: tokens that stand before it
  std::vector<TokenIds> encoder_input_ids;  // of each prompt: what the encoder read, or the prompt; may be empty
  std::function<void(const TokenIds& tokens, std::span<float> scores)> custom = {};  // GenerationOptions'
};

// Penalties and prohibitions, and, if tokens are sampled, what narrows the choice.
std::vector<LogitsProcessor> logits_processors(const GenerationConfig& config, const LogitsContext& context);

// Of sampling alone (logits_warpers.cpp): temperature, top k, top p, min p, typical p, cutoffs; `keep` tokens stay at
// least.
void add_logits_warpers(std::vector<LogitsProcessor>& processors, const GenerationConfig& config, size_t keep);

// In place, with the sums in float64.
void log_softmax(std::span<float> scores);

}  // namespace transom
