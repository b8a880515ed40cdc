// SPDX-License-Identifier: Apache-2.0
#include "work/generation/search/lengths.h"

#include <algorithm>

#include "base/error.h"
#include "files/config/config.h"
#include "files/config/model_config.h"

namespace transom {

int64_t greatest_length(const GenerationConfig& config, const Config& model, int64_t prompt) {
  if (config.max_new_tokens) {
    if (*config.max_new_tokens < 1) fail("max_new_tokens: expected a number above 0, found {}", *config.max_new_tokens);
    return prompt + *config.max_new_tokens;
  }
  if (!config.max_length) {
    const Config text = text_config_of(model);
    const int64_t positions = text.get_int("max_position_embeddings", text.get_int("n_positions", 0));
    return positions > 0 ? std::max(prompt + 1, std::min(prompt + 20, positions)) : prompt + 20;
  }
  if (prompt >= *config.max_length)
    fail("max_length = {}, and the prompt has {} tokens; raise max_length or give max_new_tokens", *config.max_length,
         prompt);
  return *config.max_length;
}

}  // namespace transom
