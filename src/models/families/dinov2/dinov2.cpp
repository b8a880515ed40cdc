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

// What the body is called inside a model with a head: as its type is.
std::string body_of(const Config& config) { return config.get_string("model_type", kDinov2ModelType); }

class Dinov2ForImageClassification : public Model {
 public:
  Dinov2ForImageClassification(const Config& config, const Scope& scope)
      : config_(config),
        dinov2_(scope / body_of(config), config_),
        classifier_(scope / "classifier", 2 * config_.hidden_size, config_.num_labels, config_.new_weights()) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "labels"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const EncoderOutput encoded = dinov2_(inputs, context);
    const Tensor& hidden = encoded.last_hidden_state;
    const Tensor first = squeeze(slice(hidden, 1, 0, 1), 1),
                 patches = slice(hidden, 1, 1 + config_.registers, hidden.dim(1));
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

// `prefix` of the classes; `base` of the parameters of the body inside a model with a head.
static Family dinov2_record(const char* model_type, const std::string& prefix, const char* base,
                            std::optional<FlaxNames> flax) {
  return {.model_type = model_type,
          .base_prefix = base,
          .architectures = {{prefix + "Model",
                             body_head({"image-feature-extraction"}, {"last_hidden_state", "pooler_output"}),
                             make_model<Dinov2Model>},
                            {prefix + "ForImageClassification", image_classification_head({"classifier"}),
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
          .foreign = {.gguf = none, .keras = none, .flax = std::move(flax)},
          .planning = {.fused_attention = false}};
}

static Family dinov2_family() { return dinov2_record(kDinov2ModelType, "Dinov2", "dinov2", FlaxNames{}); }

static Family dinov2_with_registers_family() {
  return dinov2_record(kDinov2WithRegistersModelType, "Dinov2WithRegisters", "dinov2_with_registers", std::nullopt);
}

const RegisterFamilies kDinov2Families{dinov2_family, dinov2_with_registers_family};

}  // namespace transom
