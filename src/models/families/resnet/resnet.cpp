// SPDX-License-Identifier: Apache-2.0
// ResNet (He et al., 2015): the models with and without a head.
#include "models/families/resnet/resnet_body.h"
#include "models/families/resnet/resnet_classifier.h"
#include "models/family.h"

namespace transom {
static Family resnet_family() {
  return {
      .model_type = "resnet",
      .base_prefix = "resnet",
      .architectures = {{"ResNetModel", body_head({"image-feature-extraction"}, {"last_hidden_state", "pooler_output"}),
                         make_model<ImageFeatureModel<ResNetBody<BatchNorm>, true>>},
                        {"ResNetForImageClassification", image_classification_head({"classifier"}),
                         make_model<PooledMapClassifier<ResNetBody<BatchNorm>>>}},
      .inputs = {pixels_of_any_size()},
      .processors =
          {.tokenizer = none, .image_processor = "ConvNext", .positions = none, .spaced_words = false, .spans = false},
      .weights = {.lora_targets = none,
                  .late_parts = none,
                  .awq_activation = none,
                  .scaled_layers = none,
                  .opens_no_codes = false,
                  .multi_query = none},
      .foreign = {.gguf = none, .keras = KerasNames{.body = "resnet", .joint = "."}, .flax = FlaxNames{}},
      .planning = {.fused_attention = false}};
}

const RegisterFamilies kResnetFamily{resnet_family};

}  // namespace transom
