// SPDX-License-Identifier: Apache-2.0
// ViT (Dosovitskiy et al., 2020): the models with and without a head.
#include "models/families/vit/vit_body.h"

namespace transom {
namespace {

class ViTModel : public Model {
 public:
  ViTModel(const Config& config, const Scope& scope)
      : config_(config),
        vit_(scope, config_),
        pooler_(scope / "pooler" / "dense", config_.hidden_size, config_.pooler_output_size, config_.new_weights()) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const EncoderOutput encoded = vit_(inputs, context);
    const Tensor first = squeeze(slice(encoded.last_hidden_state, 1, 0, 1), 1);
    NamedTensors outputs{{"last_hidden_state", encoded.last_hidden_state},
                         {"pooler_output", activation(config_.pooler_act, pooler_(first, context))}};
    add_hidden_states(outputs, encoded.hidden_states);
    return outputs;
  }

 private:
  ViTConfig config_;
  ViTBody vit_;
  Linear pooler_;
};

class ViTForImageClassification : public Model {
 public:
  ViTForImageClassification(const Config& config, const Scope& scope)
      : config_(config),
        vit_(scope / "vit", config_),
        classifier_(scope / "classifier", config_.hidden_size, config_.num_labels, config_.new_weights()) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "labels"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const EncoderOutput encoded = vit_(inputs, context);
    const Tensor first = squeeze(slice(encoded.last_hidden_state, 1, 0, 1), 1);
    NamedTensors outputs =
        sequence_classification_outputs(classifier_(first, context), inputs, config_.problem_type, context);
    add_hidden_states(outputs, encoded.hidden_states);
    return outputs;
  }

 private:
  ViTConfig config_;
  ViTBody vit_;
  Linear classifier_;
};

class ViTForMaskedImageModeling : public Model {
 public:
  ViTForMaskedImageModeling(const Config& config, const Scope& scope)
      : config_(config),
        vit_(scope / "vit", config_, {.masks = true}),
        decoder_(scope / "decoder", config_.hidden_size, config_.num_channels, config_.encoder_stride) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "bool_masked_pos"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const EncoderOutput encoded = vit_(inputs, context);
    const Tensor patches = slice(encoded.last_hidden_state, 1, 1, encoded.last_hidden_state.dim(1));
    NamedTensors outputs =
        masked_image_outputs(decoder_(patches, context), inputs, context, config_.patch_size[0], config_.num_channels);
    add_hidden_states(outputs, encoded.hidden_states);
    return outputs;
  }

 private:
  ViTConfig config_;
  ViTBody vit_;
  PixelDecoder decoder_;
};

}  // namespace

static Family vit_family() {
  return {
      .model_type = "vit",
      .base_prefix = "vit",
      .architectures = {{"ViTModel",
                         body_head({"image-feature-extraction"}, {"last_hidden_state", "pooler_output"}, {"pooler"}),
                         make_model<ViTModel>},
                        {"ViTForImageClassification", image_classification_head({"classifier"}),
                         make_model<ViTForImageClassification>},
                        {"ViTForMaskedImageModeling", masked_image_head({"decoder", "vit.embeddings.mask_token"}),
                         make_model<ViTForMaskedImageModeling>}},
      .inputs = {sized_pixels()},
      .processors =
          {.tokenizer = none, .image_processor = "ViT", .positions = none, .spaced_words = false, .spans = false},
      .weights = {.lora_targets = none,
                  .late_parts = none,
                  .awq_activation = none,
                  .scaled_layers = none,
                  .opens_no_codes = false,
                  .multi_query = none},
      .foreign = {.gguf = none,
                  .keras = KerasNames{.body = "vit", .without = {"ViTForMaskedImageModeling"}},
                  .flax = FlaxNames{.without = {"ViTForMaskedImageModeling"}}},
      .planning = {.fused_attention = false}};
}

const RegisterFamilies kVitFamily{vit_family};

}  // namespace transom
