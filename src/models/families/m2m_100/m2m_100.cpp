// SPDX-License-Identifier: Apache-2.0
// M2M-100 (Fan et al., 2021) and NLLB-200 (NLLB Team, 2022), which translate between all pairs of their languages:
// BART with norms before the layers and behind each stack, and sinusoids counted from the padding's id.
#include "models/families/bart/bart_body.h"

namespace transom {
namespace {

constexpr BartVariant kM2M100{.defaults = R"({"vocab_size": 128112, "encoder_layerdrop": 0.05,
                                              "decoder_layerdrop": 0.05, "activation_function": "relu",
                                              "attention_dropout": 0.1, "scale_embedding": true})",
                              .norm_before = true,
                              .embedding_norm = false,
                              .final_norm = true,
                              .logits_bias = false,
                              .positions = BartVariant::Positions::kPastPadding};

}  // namespace

static Family m2m_100_family() {
  return {.model_type = "m2m_100",
          .base_prefix = "model",
          .architectures = {{"M2M100Model", body_head({"feature-extraction"}), make_bart<kM2M100, BartBare<false>>},
                            bart_generation("M2M100ForConditionalGeneration", make_bart<kM2M100, BartGeneration>,
                                            kM2M100.logits_bias)},
          .inputs = text_to_text_inputs(),
          .processors = {.tokenizer = "M2M100",
                         .image_processor = none,
                         .positions = PositionLimit{.fields = {"max_position_embeddings"}, .has_table = false},
                         .spaced_words = false,
                         .spans = false},
          .weights = bart_weights(),
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kM2M100Family{m2m_100_family};

}  // namespace transom
