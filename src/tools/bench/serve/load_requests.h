// SPDX-License-Identifier: Apache-2.0
// The prompts of a load test: random texts, or those of a file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/bench/serve/load_options.h"

namespace transom {

class Tokenizer;

struct RandomTexts {
  int64_t count = 0;
  LengthRange input{1024, 1024}, output{128, 128};  // tokens
  int64_t prefix = 0;  // tokens at the front that all prompts share, besides those of `input`
  uint64_t seed = 0;
};
// Random words. With a tokenizer each prompt has exactly the drawn number of tokens, where its decodings allow that;
// without one a word counts as a token. The same seed gives the same prompts.
std::vector<LoadRequest> random_requests(const RandomTexts& texts, const Tokenizer* tokenizer);

// Prompts of a file, drawn without repetition in an order of the seed and again from the front where there are fewer
// than `count`. The file holds ShareGPT's list ({"conversations": [{"from", "value"}, ...]}: the first turn asks,
// the length of the second is asked for), or lines of JSON with "prompt" or "messages", and "output_tokens" or
// "max_tokens" if they like, or plain text, a prompt a line (.txt). `output` is the length where the file gives none.
// Throws Error that names the file and the line.
std::vector<LoadRequest> requests_of_file(const std::filesystem::path& file, int64_t count, LengthRange output,
                                          uint64_t seed, const Tokenizer* tokenizer);

// When each request is sent, in seconds from the start, rising. As in vLLM the times are scaled so that the last is
// sent at count / rate; all are 0 at an infinite rate.
std::vector<double> arrival_times(size_t count, double request_rate, double burstiness, uint64_t seed);

}  // namespace transom
