// SPDX-License-Identifier: Apache-2.0
// Ways of choosing the next tokens.
#pragma once

#include <chrono>
#include <vector>

#include "base/numbers/mt19937.h"
#include "work/generation/logits/logits_processors.h"
#include "work/generation/search/decoding.h"

namespace transom {

// Tells which rows have come to their end: by a token that ends texts, a stop string, the length, or the clock.
class Stopping {
 public:
  // A stop string that the first `strings_after` tokens complete, the prompt counted, ends nothing.
  Stopping(const GenerationConfig& config, int64_t max_length, const Tokenizer* tokenizer, int64_t strings_after = 0);
  bool ends(const TokenIds& tokens) const;  // whether the row ends with its last token
  bool ends_of_texts() const { return !ends_.empty(); }
  size_t ends_count() const { return ends_.size(); }

 private:
  bool completes_stop_string(const TokenIds& tokens) const;
  TokenIds ends_;
  std::vector<std::string> strings_;
  size_t longest_ = 0;  // of the strings, in bytes
  int64_t max_length_, strings_after_;
  const Tokenizer* tokenizer_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
};

// What a search works with. `rows` are the prompts; the decoding has not seen them.
struct Search {
  Decoding& decoding;
  const GenerationConfig& config;
  const std::vector<LogitsProcessor>& processors;
  const Stopping& stopping;
  std::vector<TokenIds> rows;
  int64_t padding;     // fills rows that have ended
  int64_t max_length;  // of a row
  Mt19937 random;
  Streamer* streamer;
};

// The likeliest token each time (greedy), or one drawn by its probability; num_return_sequences for each prompt.
GenerationOutput choose_token_by_token(Search search);
// The best of num_beams texts for each prompt, of which num_return_sequences are returned.
GenerationOutput beam_search(Search search);

// One of the places, by their probabilities softmax(scores).
size_t draw(std::span<const float> scores, Mt19937& random);

}  // namespace transom
