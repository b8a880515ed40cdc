// SPDX-License-Identifier: Apache-2.0
#include "models/loading/maximum_tokens.h"

#include "io/config.h"

namespace transom {

std::optional<int64_t> maximum_tokens(const Config& config) {
  int64_t limit = config.get_int("max_position_embeddings", 0);
  const std::string type = config.get_string("model_type", "");
  if (type == "gpt2" || type == "gpt_bigcode") limit = config.get_int("n_positions", limit);
  // RoBERTa's positions begin behind the padding id.
  if (limit > 0 && (type == "roberta" || type == "xlm-roberta" || type == "camembert" || type == "mpnet"))
    limit -= config.get_int("pad_token_id", 1) + 1;
  return limit > 0 ? std::optional(limit) : std::nullopt;
}

}  // namespace transom
