// SPDX-License-Identifier: Apache-2.0
// Who writes the completions of prompts: the engine, on the weights as they are, or a file that holds them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transom/generation.h"
#include "transom/model.h"

namespace transom {

struct WrittenCompletion {
  TokenIds tokens;              // with the token that ended it, at least one
  std::vector<float> logprobs;  // of each under what wrote it; empty: not known
};

// As text, in which the same bits come back; and lists of several processes, one behind the other.
std::string text_of_completions(const std::vector<WrittenCompletion>& completions);
std::vector<WrittenCompletion> read_completions(const std::vector<std::string>& texts);

class CompletionWriter {
 public:
  virtual ~CompletionWriter() = default;
  // A completion for each prompt. `first` is the number of the first one among all that the run writes: it is drawn by
  // `seed` and its number alone.
  virtual std::vector<WrittenCompletion> write(Model& model, const std::vector<TokenIds>& prompts, uint64_t seed,
                                               int64_t first) = 0;
};

// The weights stay where they are, and so do adapters. `config` holds how tokens are drawn; `dtype` is that of a step.
// Log probabilities are given where `logprobs`, and the device's own are those of the draws: at a temperature of 1,
// without penalties and biases.
std::unique_ptr<CompletionWriter> engine_writer(GenerationConfig config, DType dtype, bool logprobs);

// The lines of a file, {"completion_ids": [...]}, perhaps with logprobs [...], by the numbers of completions. Throws,
// with the line, for tokens that the model does not know, for more of them than `most_tokens`, and for missing
// `logprobs`.
std::unique_ptr<CompletionWriter> file_writer(const std::string& path, int64_t most_tokens, int64_t vocabulary,
                                              bool logprobs);

}  // namespace transom
