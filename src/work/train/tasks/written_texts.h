// SPDX-License-Identifier: Apache-2.0
// Texts that an evaluation writes: from tokens to predictions, and to what is shown beside what was wanted.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "transom/generation.h"
#include "transom/trainer.h"
#include "transom/training_arguments.h"

namespace transom {

// The name of their tokens among the outputs of a batch.
constexpr const char* kWrittenTexts = "generated";

// The tokens of texts as an output of that name, [rows, longest], filled up with `fill`.
NamedTensors written_tokens(const std::vector<TokenIds>& rows, int64_t fill);
// What the model writes for a batch's input_ids and attention_mask, filled up with the padding token.
NamedTensors texts_that_are_written(const Model& model, const GenerationConfig& config, int64_t padding,
                                    const NamedTensors& inputs);
// What `text` makes of the tokens of each row of [rows, width] ids. Those below 0 are none.
using TextOfTokens = std::function<std::string(const TokenIds& tokens)>;
std::vector<std::string> texts_of_rows(const std::vector<float>& ids, int64_t rows, const TextOfTokens& text);
std::vector<std::string> texts_of_rows(const std::vector<int64_t>& ids, int64_t rows, const TextOfTokens& text);

// How many a run shows: --num_samples_to_print, else `otherwise`; none with --json, which is for machines.
int64_t samples_to_show(const ScriptArguments& script, int64_t otherwise);
// Says the first `count` of them, by the process that writes the log.
void show_samples(int64_t count, const std::vector<std::string>& wanted, const std::vector<std::string>& written);
// Well-formed, and behind so many bytes, of whole characters, cut off: "...".
std::string first_bytes(const std::string& text, size_t most_bytes);

}  // namespace transom
