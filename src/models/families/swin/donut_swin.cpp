// SPDX-License-Identifier: Apache-2.0
// The encoder of Donut (Kim et al., 2022): Swin without the last norm, with pages of any form. [B, L, C] as in
// swin_classes.h.
#include "models/families/swin/swin_classes.h"

namespace transom {
namespace {

class DonutSwinModel : public SwinModel {
 public:
  DonutSwinModel(const Config& config, const Scope& scope) : SwinModel(SwinConfig(config), scope, false) {
    refuse_unless(config, "use_absolute_embeddings", "false");
  }
};

class DonutSwinForImageClassification : public SwinForImageClassification {
 public:
  DonutSwinForImageClassification(const Config& config, const Scope& scope)
      : SwinForImageClassification(SwinConfig(config), scope, "donut", false) {
    refuse_unless(config, "use_absolute_embeddings", "false");
  }
};

Family donut_swin_family() {
  return {.model_type = "donut-swin",
          .base_prefix = "donut",
          .architectures = {{"DonutSwinModel",
                             body_head({"image-feature-extraction"}, {"last_hidden_state", "pooler_output"}),
                             make_model<DonutSwinModel>},
                            {"DonutSwinForImageClassification", image_classification_head({"classifier"}),
                             make_model<DonutSwinForImageClassification>}},
          .inputs = {sized_pixels()},
          .processors =
              {.tokenizer = none, .image_processor = "Donut", .positions = none, .spaced_words = false, .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kDonutSwinFamily{donut_swin_family};

}  // namespace
}  // namespace transom
