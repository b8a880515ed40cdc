// SPDX-License-Identifier: Apache-2.0
// ResNet (He et al., 2015): the models with and without a head.
#include <cmath>

#include "models/families/resnet/resnet_body.h"
#include "models/family.h"

namespace transom {
namespace {

class ResNetForImageClassification : public Model {
 public:
  ResNetForImageClassification(const Config& config, const Scope& scope)
      : problem_type_(config.get_string("problem_type", "")),
        resnet_(config, scope / "resnet"),
        classifier_(scope / "classifier" / 1, resnet_.width(), number_of_labels(config),
                    {.deviation = 1 / std::sqrt(3.0 * static_cast<double>(resnet_.width()))}) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "labels"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const FeatureMaps maps = resnet_(image_input(inputs, resnet_.num_channels()), context);
    return with_states(
        sequence_classification_outputs(classifier_(maps.pooled, context), inputs, problem_type_, context), maps,
        context);
  }

 private:
  std::string problem_type_;
  ResNetBody<BatchNorm> resnet_;
  Linear classifier_;
};

}  // namespace

static Family resnet_family() {
  return {
      .model_type = "resnet",
      .base_prefix = "resnet",
      .architectures = {{"ResNetModel", body_head({"image-feature-extraction"}, {"last_hidden_state", "pooler_output"}),
                         make_model<ImageFeatureModel<ResNetBody<BatchNorm>, true>>},
                        {"ResNetForImageClassification", image_classification_head({"classifier"}),
                         make_model<ResNetForImageClassification>}},
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
