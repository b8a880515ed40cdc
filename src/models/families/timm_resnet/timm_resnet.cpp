// SPDX-License-Identifier: Apache-2.0
// timm's ResNets and ResNeXts in the checkpoints of Transformers' timm wrapper.
#include <cmath>
#include <optional>

#include "models/families/timm_resnet/timm_resnet_body.h"
#include "models/family.h"

namespace transom {
namespace {

class TimmWrapperForImageClassification : public Model {
 public:
  TimmWrapperForImageClassification(const Config& config, const Scope& scope)
      : problem_type_(config.get_string("problem_type", "")), timm_model_(config, scope) {
    if (timm_model_.num_classes() == 0) return;  // features are the answer then
    fc_.emplace(scope / "fc", timm_model_.width(), timm_model_.num_classes(),
                Linear::Options{.deviation = 1 / std::sqrt(3.0 * static_cast<double>(timm_model_.width()))});
  }

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "labels"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const FeatureMaps maps = timm_model_(image_input(inputs, timm_model_.num_channels()), context);
    const Tensor logits = fc_ ? (*fc_)(maps.pooled, context) : maps.pooled;
    return with_states(sequence_classification_outputs(logits, inputs, problem_type_, context), maps, context);
  }

 private:
  std::string problem_type_;
  TimmResNet<BatchNorm> timm_model_;
  std::optional<Linear> fc_;
};

FamilyHead timm_head() {
  FamilyHead head = image_classification_head({"fc"});
  head.classes = "num_classes";
  return head;
}

}  // namespace

static Family timm_wrapper_family() {
  return {.model_type = "timm_wrapper",
          .base_prefix = "timm_model",
          .architectures = {{"TimmWrapperForImageClassification", timm_head(),
                             make_model<TimmWrapperForImageClassification>},
                            {"TimmWrapperModel",
                             body_head({"image-feature-extraction"}, {"last_hidden_state", "pooler_output"}),
                             make_model<ImageFeatureModel<TimmResNet<BatchNorm>, false>>}},
          .inputs = {pixels_of_any_size("model_args.in_chans")},
          .mark = "pretrained_cfg",
          .processors =
              {.tokenizer = none, .image_processor = none, .positions = none, .spaced_words = false, .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kTimmResnetFamily{timm_wrapper_family};

}  // namespace transom
