// SPDX-License-Identifier: Apache-2.0
// DINOv2 (Oquab et al., 2023): the models with and without a head.
#include "models/families/dinov2/dinov2_body.h"
#include "models/shared/encoder_heads.h"

namespace transom {
namespace {

class Dinov2Model : public Model {
 public:
  Dinov2Model(const Config& config, const Scope& scope) : config_(config), dinov2_(scope, config_) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "bool_masked_pos"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const EncoderOutput encoded = dinov2_(inputs, context);
    NamedTensors outputs{{"last_hidden_state", encoded.last_hidden_state},
                         {"pooler_output", squeeze(slice(encoded.last_hidden_state, 1, 0, 1), 1)}};
    add_hidden_states(outputs, encoded.hidden_states);
    return outputs;
  }

 private:
  Dinov2Config config_;
  Dinov2Body dinov2_;
};

class Dinov2ForImageClassification : public Model {
 public:
  Dinov2ForImageClassification(const Config& config, const Scope& scope)
      : config_(config),
        dinov2_(scope / "dinov2", config_),
        classifier_(scope / "classifier", 2 * config_.hidden_size, config_.num_labels, config_.new_weights()) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "labels"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const EncoderOutput encoded = dinov2_(inputs, context);
    const Tensor& hidden = encoded.last_hidden_state;
    const Tensor first = squeeze(slice(hidden, 1, 0, 1), 1), patches = slice(hidden, 1, 1, hidden.dim(1));
    const Tensor features = concatenate({first, mean(patches, {1})}, 1);
    NamedTensors outputs =
        sequence_classification_outputs(classifier_(features, context), inputs, config_.problem_type, context);
    add_hidden_states(outputs, encoded.hidden_states);
    return outputs;
  }

 private:
  Dinov2Config config_;
  Dinov2Body dinov2_;
  Linear classifier_;
};

}  // namespace

static Family dinov2_family() {
  return {
      .model_type = kDinov2ModelType,
      .base_prefix = "dinov2",
      .architectures = {{"Dinov2Model", body_head({"image-feature-extraction"}, {"last_hidden_state", "pooler_output"}),
                         make_model<Dinov2Model>},
                        {"Dinov2ForImageClassification", image_classification_head({"classifier"}),
                         make_model<Dinov2ForImageClassification>}},
      .inputs = {sized_pixels()},
      .processors =
          {.tokenizer = none, .image_processor = "Bit", .positions = none, .spaced_words = false, .spans = false},
      .weights = {.lora_targets = none,
                  .late_parts = none,
                  .awq_activation = none,
                  .scaled_layers = none,
                  .opens_no_codes = false,
                  .multi_query = none},
      .foreign = {.gguf = none, .keras = none, .flax = FlaxNames{}},
      .planning = {.fused_attention = false}};
}

const RegisterFamilies kDinov2Family{dinov2_family};

}  // namespace transom
