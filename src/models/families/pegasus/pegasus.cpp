// SPDX-License-Identifier: Apache-2.0
// Pegasus (Zhang et al., 2020), for summaries: BART with norms before the layers and behind each stack, and sinusoids.
#include "models/families/bart/bart_body.h"

namespace transom {
namespace {

constexpr BartVariant kPegasus{.defaults = R"({"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0})",
                               .norm_before = true,
                               .embedding_norm = false,
                               .final_norm = true,
                               .positions = BartVariant::Positions::kTable};

}  // namespace

static Family pegasus_family() {
  return {.model_type = "pegasus",
          .base_prefix = "model",
          .architectures = {{"PegasusModel", body_head({"feature-extraction"}), make_bart<kPegasus, BartBare<false>>},
                            bart_generation("PegasusForConditionalGeneration", make_bart<kPegasus, BartGeneration>,
                                            kPegasus.logits_bias)},
          .inputs = text_to_text_inputs(),
          .processors = {.tokenizer = "Pegasus",
                         .image_processor = none,
                         .positions = PositionLimit{{"max_position_embeddings"}},
                         .spaced_words = false,
                         .spans = false},
          .weights = bart_weights(),
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kPegasusFamily{pegasus_family};

}  // namespace transom
