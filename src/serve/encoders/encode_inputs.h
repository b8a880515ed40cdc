// SPDX-License-Identifier: Apache-2.0
// Inputs of encoders, in the forms that the interfaces share: texts or token ids, one or a list.
#pragma once

#include <string>
#include <vector>

#include "serve/api/request_json.h"
#include "serve/models/served_model.h"

namespace transom::serve {

struct TooLong {
  enum What { kRefuse, kTruncate } what = kRefuse;
  std::optional<int64_t> length;  // cut to so many tokens; empty: what the model takes
  Side side = Side::kRight;
  const char* remedy = "set truncate_prompt_tokens to -1";  // what the interface offers against a refusal
};

struct EncodedInputs {
  std::vector<Encoding> encodings;
  bool single = false;  // the input was no list
  int64_t tokens = 0;
};

// str | [str] | [int] | [[int]]. Refuses other forms, empty texts and lists, more inputs than `most`, and what is too
// long, by the name of the field.
EncodedInputs encode_inputs(const Json& input, const char* field, const ServedModel& model, int64_t most,
                            const TooLong& too_long, bool special_tokens = true);
// The texts of an input behind the prompt of this name, which the model's config_sentence_transformers.json holds.
Json with_prompt(const Json& input, const char* field, const ServedModel& model, const std::string& prompt_name);
// Whether the model gives vectors.
bool can_embed(const ModelFacts& model);
// The vector cut to its first `dimensions` numbers, at length 1 again; 0: as it is. More than it has are refused by
// 400.
void cut_vector(std::vector<float>& vector, int64_t dimensions);

}  // namespace transom::serve
