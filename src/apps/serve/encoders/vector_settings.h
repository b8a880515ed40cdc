// SPDX-License-Identifier: Apache-2.0
// The fields that say how texts become the inputs of an encoder, for all interfaces.
#pragma once

#include <optional>
#include <string>

#include "apps/serve/api/request_json.h"
#include "transom/tokenizer.h"

namespace transom::serve {

// What is done with an input that is longer than the model takes.
struct TooLong {
  enum What { kRefuse, kTruncate } what = kRefuse;
  std::optional<int64_t> length;  // cut to so many tokens; empty: what the model takes
  Side side = Side::kRight;
  const char* remedy = "set truncate_prompt_tokens to -1";  // what the interface offers against a refusal
  int status = 400;                                         // of a refusal
};

struct VectorSettings {
  TooLong too_long;
  std::optional<bool> normalize;      // empty: as the model says
  std::optional<std::string> prompt;  // the name of what texts begin with
};

// Those of text-embeddings-inference, which answers 413 to what is too long, and of Hugging Face's inference form,
// which cuts it.
VectorSettings tei_settings();
VectorSettings inference_settings();
// Reads truncate, truncation_direction, prompt_name and normalize; what is absent stays as it is.
void read_vector_settings(RequestFields& fields, VectorSettings& settings);
// The same of OpenAI's and vLLM's paths: truncate_prompt_tokens, truncation_side, prompt_name and normalize.
VectorSettings read_pooling_settings(RequestFields& fields);

}  // namespace transom::serve
