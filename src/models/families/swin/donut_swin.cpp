// SPDX-License-Identifier: Apache-2.0
// The encoder of Donut (Kim et al., 2022): Swin without the last norm, with pages of any form. [B, L, C] as in
// swin.cpp.
#include "models/families/swin/swin_body.h"
#include "models/shared/encoder_heads.h"

namespace transom {
namespace {

constexpr bool kMasks = false, kNorms = false;

class DonutSwinModel : public Model {
 public:
  DonutSwinModel(const Config& config, const Scope& scope) : config_(config), swin_(scope, config_, kMasks, kNorms) {
    refuse_unless(config, "use_absolute_embeddings", "false");
  }

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const SwinOutput output = swin_(inputs, context);
    const Tensor& hidden = output.last_hidden_state;
    return with_swin_states({{"last_hidden_state", hidden}, {"pooler_output", mean(hidden, {1})}}, output, context);
  }

 private:
  SwinConfig config_;
  SwinBody swin_;
};

class DonutSwinForImageClassification : public Model {
 public:
  DonutSwinForImageClassification(const Config& config, const Scope& scope)
      : config_(config),
        donut_(scope / "donut", config_, kMasks, kNorms),
        classifier_(scope / "classifier", config_.width(), config_.num_labels, config_.new_weights()) {
    refuse_unless(config, "use_absolute_embeddings", "false");
  }

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "labels"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const SwinOutput output = donut_(inputs, context);
    const Tensor logits = classifier_(mean(output.last_hidden_state, {1}), context);
    return with_swin_states(sequence_classification_outputs(logits, inputs, config_.problem_type, context), output,
                            context);
  }

 private:
  SwinConfig config_;
  SwinBody donut_;
  Linear classifier_;
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
