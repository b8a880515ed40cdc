// SPDX-License-Identifier: Apache-2.0
// Swin (Liu et al., 2021) with its heads.
#include "models/families/swin/swin_classes.h"

namespace transom {
static Family swin_family() {
  return {
      .model_type = "swin",
      .base_prefix = "swin",
      .architectures = {{"SwinModel", body_head({"image-feature-extraction"}, {"last_hidden_state", "pooler_output"}),
                         make_model<SwinModel>},
                        {"SwinForImageClassification", image_classification_head({"classifier"}),
                         make_model<SwinForImageClassification>},
                        {"SwinForMaskedImageModeling", masked_image_head({"decoder", "swin.embeddings.mask_token"}),
                         make_model<SwinForMaskedImageModeling>}},
      .inputs = {sized_pixels()},
      .processors =
          {.tokenizer = none, .image_processor = "ViT", .positions = none, .spaced_words = false, .spans = false},
      .weights = {.lora_targets = none,
                  .late_parts = none,
                  .awq_activation = none,
                  .scaled_layers = none,
                  .opens_no_codes = false,
                  .multi_query = none},
      .foreign = {.gguf = none, .keras = KerasNames{.body = "swin", .joint = ".", .separate = "decoder"}, .flax = none},
      .planning = {.fused_attention = false}};
}

const RegisterFamilies kSwinFamily{swin_family};

}  // namespace transom
