// SPDX-License-Identifier: Apache-2.0
// Inputs of encoders, in the forms that the interfaces share: texts or token ids, one or a list.
#pragma once

#include <string>
#include <vector>

#include "apps/serve/api/request_json.h"
#include "apps/serve/encoders/vector_settings.h"
#include "apps/serve/models/served_model.h"

namespace transom::serve {

struct EncodedInputs {
  std::vector<Encoding> encodings;
  bool single = false;  // the input was no list
  int64_t tokens = 0;
  int64_t left_out = 0;  // tokens of the prompt, at the beginning of each, that the model's pooling leaves out
};

// str | [str] | [int] | [[int]], texts behind the prompt of the settings, or the default one, which the model's
// config_sentence_transformers.json holds. Refuses other forms, empty texts and lists, more inputs than `most`, and
// what is too long, by the name of the field. With `empty_texts` those are taken of which the tokenizer makes tokens.
EncodedInputs encode_inputs(const Json& input, const char* field, const ServedModel& model, int64_t most,
                            const VectorSettings& settings, bool special_tokens = true, bool empty_texts = false);
// The texts of an input behind the prompt of this name.
Json with_prompt(const Json& input, const char* field, const ServedModel& model, const std::string& prompt_name);
// Of models that give no vectors: refuses a prompt.
void refuse_prompt(const VectorSettings& settings);
// How a tokenizer cuts what is too long.
EncodeOptions encode_options_of(const TooLong& too_long, const ServedModel& model);
// Refuses an input of so many tokens where that is more than the model takes.
void expect_fits(size_t tokens, const char* field, const ServedModel& model, const TooLong& too_long);
// The beginning of a text that so many tokens of it are.
std::string first_tokens(const std::string& text, int64_t tokens, const Tokenizer& tokenizer);
// Whether the model gives vectors.
bool can_embed(const ModelFacts& model);
// Whether vectors have length 1 on the paths of OpenAI and vLLM: as the request says, else as modules.json of the model
// does (empty), and for models without one yes, as everywhere else where these paths are served.
std::optional<bool> normalizes(const VectorSettings& settings, const ServedModel& model);
// The vector cut to its first `dimensions` numbers (0: as it is), at length 1 again where `normalize` says so, or,
// where it says nothing, the model's vectors have that length. More than it has are refused by 400.
void cut_vector(std::vector<float>& vector, int64_t dimensions, std::optional<bool> normalize,
                const ServedModel& model);

}  // namespace transom::serve
