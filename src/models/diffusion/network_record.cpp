// SPDX-License-Identifier: Apache-2.0
#include "models/diffusion/network_record.h"

#include <utility>

namespace transom {

Family network_family(NetworkRecord record) {
  return {.model_type = std::move(record.model_type),
          .base_prefix = "",
          .architectures = {std::move(record.architecture)},
          .inputs = std::move(record.inputs),
          .mark = std::move(record.mark),
          .processors =
              {.tokenizer = none, .image_processor = none, .positions = none, .spaced_words = false, .spans = false},
          .weights = {.lora_targets = std::move(record.lora_targets),
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none, .keras = none, .flax = none, .original = std::move(record.original)},
          .planning = {.fused_attention = false}};
}

}  // namespace transom
