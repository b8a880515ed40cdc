// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transom/generation.h"

namespace transom {

// How many tokens a text may have with its prompt of `prompt` tokens, by max_new_tokens, max_length, or the 20 new ones
// of Transformers. Throws where that leaves no room for a token.
int64_t greatest_length(const GenerationConfig& config, const Config& model, int64_t prompt);

}  // namespace transom
